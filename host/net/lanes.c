/*
 * net/lanes.c - queues of requests and a list of records. See lanes.h.
 *
 * Both are small: 33 lanes and 64 records, walked from end to end.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/lanes.h"

#include <stdlib.h>
#include <string.h>

#define MAX_LANES (LANES_MAX_NAMED + 1) /* and the default one */

typedef struct waiting {
    struct waiting *next;
    void *request;
    size_t size;
    uint64_t order; /* of all requests of the socket */
} waiting;

struct lane {
    char *name; /* NULL: the default lane     */
    bool busy;  /* one of its requests runs   */
    waiting *first;
    waiting **last; /* where the next one is hung */
};

typedef struct memory {
    run_record *record; /* a reference                            */
    lane *of;           /* whose turn it was; the latest is its last entry */
} memory;

struct lanes {
    void (*drop)(void *request);
    lane *lanes[MAX_LANES]; /* the default lane is the first */
    size_t n_lanes;
    size_t n_running;
    size_t n_waiting;
    size_t bytes;                          /* of what waits    */
    uint64_t order;                        /* of the next request */
    memory records[LANES_MAX_RECORDS + 1]; /* oldest first     */
    size_t n_records;
};

static lane *add_lane(lanes *all, const char *name)
{
    lane *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->name = name ? strdup(name) : NULL;
    l->last = &l->first;
    if (name && !l->name) {
        free(l);
        return NULL;
    }
    all->lanes[all->n_lanes++] = l;
    return l;
}

lanes *lanes_open(void (*drop)(void *request))
{
    lanes *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->drop = drop;
    if (add_lane(all, NULL))
        return all;
    free(all);
    return NULL;
}

void lanes_close(lanes *all)
{
    if (!all)
        return;
    lanes_drop_waiting(all);
    for (size_t i = 0; i < all->n_records; i++)
        run_record_release(all->records[i].record);
    for (size_t i = 0; i < all->n_lanes; i++) {
        free(all->lanes[i]->name);
        free(all->lanes[i]);
    }
    free(all);
}

lane *lanes_find(lanes *all, const char *name)
{
    if (!name)
        return all->lanes[0];
    for (size_t i = 1; i < all->n_lanes; i++)
        if (strcmp(all->lanes[i]->name, name) == 0)
            return all->lanes[i];
    return NULL;
}

const char *lanes_name(const lane *l)
{
    return l->name;
}

enum lanes_answer lanes_add(lanes *all, const char *name, void *request, size_t size)
{
    lane *l = lanes_find(all, name);
    if (!l && all->n_lanes == MAX_LANES)
        return LANES_TOO_MANY;
    bool at_once = (!l || (!l->busy && !l->first)) && all->n_running < LANES_MAX_RUNNING;
    if (!at_once && (all->n_waiting >= LANES_MAX_WAITING || size > LANES_MAX_WAITING_BYTES ||
                     all->bytes > LANES_MAX_WAITING_BYTES - size))
        return LANES_QUEUE_FULL;
    waiting *w = calloc(1, sizeof *w);
    if (w && !l)
        l = add_lane(all, name);
    if (!w || !l) {
        free(w);
        return LANES_NO_MEMORY;
    }
    *w = (waiting){.request = request, .size = size, .order = all->order++};
    *l->last = w;
    l->last = &w->next;
    all->n_waiting++;
    all->bytes += size;
    return LANES_ADDED;
}

/* Takes a lane's oldest request out of the queue. */
static void *take_first(lanes *all, lane *l)
{
    waiting *w = l->first;
    void *request = w->request;
    l->first = w->next;
    if (!l->first)
        l->last = &l->first;
    all->n_waiting--;
    all->bytes -= w->size;
    free(w);
    return request;
}

void *lanes_next(lanes *all, lane **of)
{
    lane *best = NULL;
    if (all->n_running >= LANES_MAX_RUNNING)
        return NULL;
    for (size_t i = 0; i < all->n_lanes; i++) {
        lane *l = all->lanes[i];
        if (!l->busy && l->first && (!best || l->first->order < best->first->order))
            best = l;
    }
    if (!best)
        return NULL;
    best->busy = true;
    all->n_running++;
    *of = best;
    return take_first(all, best);
}

void lanes_done(lanes *all, lane *l)
{
    l->busy = false;
    all->n_running--;
}

void lanes_drop_waiting(lanes *all)
{
    for (size_t i = 0; i < all->n_lanes; i++)
        while (all->lanes[i]->first)
            all->drop(take_first(all, all->lanes[i]));
}

static bool is_latest(const lanes *all, size_t at)
{
    for (size_t i = at + 1; i < all->n_records; i++)
        if (all->records[i].of == all->records[at].of)
            return false;
    return true;
}

static void drop_record(lanes *all, size_t at)
{
    run_record_release(all->records[at].record);
    all->n_records--;
    memmove(&all->records[at], &all->records[at + 1], (all->n_records - at) * sizeof *all->records);
}

void lanes_remember(lanes *all, lane *l, run_record *record)
{
    if (!record || !run_record_can_continue(record))
        return;
    all->records[all->n_records++] = (memory){run_record_retain(record), l};
    for (size_t i = 0; all->n_records > LANES_MAX_RECORDS && i < all->n_records; i++)
        if (!is_latest(all, i)) {
            drop_record(all, i);
            return;
        }
}

run_record *lanes_recall(lanes *all, const char *id)
{
    for (size_t i = all->n_records; i-- > 0;)
        if (strcmp(all->records[i].record->id, id) == 0)
            return all->records[i].record;
    return NULL;
}

void lanes_forget(lanes *all, lane *l, const char *id)
{
    for (size_t i = 0; i < all->n_records; i++)
        if (all->records[i].of == l && strcmp(all->records[i].record->id, id) == 0) {
            drop_record(all, i);
            return;
        }
}
