/*
 * script/journal.c - what is kept of a run. See journal.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/journal.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FLUSH_NS 100000000 /* an event waits no longer for others to share a write with */
#define FLUSH_EVENTS 200   /* with so many it does not wait at all                      */
#define MOST_WRITES 16     /* of one run under way: the store's queue is everybody's    */

struct journal {
    atomic_int references; /* the run's, and one of each write under way */
    atomic_int n_writes;   /* under way                                  */
    store *store;          /* NULL: nothing is kept                      */
    const base_clock *clock;
    journal_listener listener;
    atomic_bool closed; /* the listener is gone                       */
    char id[CLOCK_ID_SIZE];
    journal_events waiting;
    int64_t since_ns; /* monotonic: when the oldest of them was said */
    uint64_t next_seq;
    uint64_t n_steps;
    uint64_t step_bytes;
};

pawl_status journal_open(store *kept, const base_clock *clock, const char *id, bool resumed,
                         journal_listener listener, journal **out, pawl_error *error)
{
    store_run_size size = {0};
    if (kept && id && resumed) {
        pawl_status status = kept->run_measure(kept, id, &size, error);
        if (status)
            return status;
    }
    journal *j = calloc(1, sizeof *j);
    if (!j)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a run");
    atomic_init(&j->references, 1);
    j->store = id ? kept : NULL;
    j->clock = clock;
    j->listener = listener;
    j->next_seq = size.last_seq + 1;
    j->n_steps = size.n_steps;
    j->step_bytes = size.step_bytes;
    if (id)
        snprintf(j->id, sizeof j->id, "%s", id);
    *out = j;
    return PAWL_OK;
}

static void release(journal *j)
{
    if (atomic_fetch_sub(&j->references, 1) != 1)
        return;
    journal_forget(&j->waiting);
    free(j);
}

void journal_close(journal *j)
{
    if (!j)
        return;
    journal_flush(j, true);
    atomic_store(&j->closed, true);
    release(j);
}

bool journal_is_kept(const journal *j)
{
    return j && j->store;
}

/* ------------------------------------------------------------- events */

void journal_forget(journal_events *held)
{
    for (size_t i = 0; i < held->n; i++) {
        free((char *)(uintptr_t)held->list[i].type);
        free((char *)(uintptr_t)held->list[i].data);
    }
    free(held->list);
    *held = (journal_events){0};
}

static bool append(journal_events *to, const char *type, const char *data, int64_t at_ms)
{
    size_t bytes = strlen(type) + strlen(data);
    if (to->n == JOURNAL_MAX_WAITING || to->bytes + bytes > JOURNAL_MAX_WAITING_BYTES)
        return false;
    if (to->n == to->room) {
        size_t room = to->room ? 2 * to->room : 16;
        store_event *more = realloc(to->list, room * sizeof *more);
        if (!more)
            return false;
        to->list = more;
        to->room = room;
    }
    store_event event = {.at_ms = at_ms, .type = strdup(type), .data = strdup(data)};
    if (!event.type || !event.data) {
        free((char *)(uintptr_t)event.type);
        free((char *)(uintptr_t)event.data);
        return false;
    }
    to->list[to->n++] = event;
    to->bytes += bytes;
    return true;
}

static void tell(journal *j, const char *type, const char *data)
{
    if (j->listener.on_event)
        j->listener.on_event(j->listener.arg, type, data);
}

bool journal_say(journal *j, const char *type, const char *data)
{
    if (j->store && j->waiting.n == JOURNAL_MAX_WAITING)
        journal_flush(j, true);
    if (j->store && j->waiting.n == 0)
        j->since_ns = j->clock->monotonic_ns(j->clock->context);
    if (j->store && !append(&j->waiting, type, data, j->clock->wall_ms(j->clock->context)))
        return false;
    tell(j, type, data);
    return true;
}

bool journal_hold(journal *j, journal_events *held, const char *type, const char *data)
{
    if (j->store && !append(held, type, data, j->clock->wall_ms(j->clock->context)))
        return false;
    tell(j, type, data);
    return true;
}

void journal_again(journal *j, const store_event *event)
{
    if (!journal_is_kept(j))
        return;
    if (j->waiting.n == JOURNAL_MAX_WAITING)
        journal_flush(j, true);
    if (j->waiting.n == 0)
        j->since_ns = j->clock->monotonic_ns(j->clock->context);
    append(&j->waiting, event->type, event->data, event->at_ms);
}

/* Store thread. */
static void on_flushed(void *arg, pawl_status status, const pawl_error *error)
{
    journal *j = arg;
    atomic_fetch_sub(&j->n_writes, 1);
    if (status)
        log_write(PAWL_LOG_ERROR, "script", "%s: events are lost: %s", j->id, error->message);
    else if (j->listener.on_kept && !atomic_load(&j->closed))
        j->listener.on_kept(j->listener.arg);
    release(j);
}

/* Numbers follow each other in a list that goes to the store. */
static void number(store_event *list, size_t n, uint64_t first)
{
    for (size_t i = 0; i < n; i++)
        list[i].seq = first + i;
}

/* One more write under way, until done has counted it off. */
static pawl_status give(journal *j, const store_addition *more, store_done done, void *arg,
                        pawl_error *error)
{
    atomic_fetch_add(&j->n_writes, 1);
    pawl_status status = j->store->run_add(j->store, more, done, arg, error);
    if (status)
        atomic_fetch_sub(&j->n_writes, 1);
    return status;
}

static bool flush(journal *j)
{
    pawl_error error = {.struct_size = sizeof error};
    store_addition more = {.run = j->id, .events = j->waiting.list, .n_events = j->waiting.n};
    if (atomic_load(&j->n_writes) >= MOST_WRITES)
        return false;
    number(j->waiting.list, j->waiting.n, j->next_seq);
    atomic_fetch_add(&j->references, 1);
    pawl_status status = give(j, &more, on_flushed, j, &error);
    if (status) {
        atomic_fetch_sub(&j->references, 1); /* never the last one */
        return false;
    }
    j->next_seq += j->waiting.n;
    journal_forget(&j->waiting);
    return true;
}

void journal_flush(journal *j, bool now)
{
    if (!j->store || j->waiting.n == 0)
        return;
    if (now || j->waiting.n >= FLUSH_EVENTS ||
        j->clock->monotonic_ns(j->clock->context) >= journal_due(j)) {
        if (!flush(j)) /* a full queue: again after a while */
            j->since_ns = j->clock->monotonic_ns(j->clock->context);
    }
}

void journal_finish(journal *j)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    journal_flush(j, true);
    for (int tries = 1000; journal_is_kept(j) && j->waiting.n && tries; tries--) {
        nanosleep(&pause, NULL);
        journal_flush(j, true);
    }
}

int64_t journal_due(const journal *j)
{
    return j && j->store && j->waiting.n ? j->since_ns + FLUSH_NS : INT64_MAX;
}

/* ------------------------------------------------------------- steps */

pawl_status journal_find(journal *j, const char *key, char **value, pawl_error *error)
{
    if (!j->store || j->n_steps == 0)
        return PAWL_E_NOT_FOUND;
    return j->store->run_step(j->store, j->id, key, value, error);
}

static void destroy(pending *p)
{
    journal_write *w = (journal_write *)p;
    release(w->journal);
    free(w);
}

/* Store thread. */
static void on_written(void *arg, pawl_status status, const pawl_error *error)
{
    journal_write *w = arg;
    journal *j = w->journal;
    atomic_fetch_sub(&j->n_writes, 1);
    w->status = status;
    if (error)
        w->error = *error;
    if (!status && j->listener.on_kept && !atomic_load(&j->closed))
        j->listener.on_kept(j->listener.arg);
    pending_end(&w->base);
    pending_release(&w->base);
}

static pawl_status check_room(const journal *j, const char *key, const char *value,
                              pawl_error *error)
{
    if (strlen(value) > JOURNAL_MAX_VALUE)
        return pawl_fail(error, PAWL_E_LIMIT,
                         "a step's result has %zu bytes as JSON; at most %u are kept",
                         strlen(value), JOURNAL_MAX_VALUE);
    if (j->n_steps >= JOURNAL_MAX_STEPS)
        return pawl_fail(error, PAWL_E_LIMIT, "a run has at most %d steps", JOURNAL_MAX_STEPS);
    if (j->step_bytes + strlen(key) + strlen(value) > JOURNAL_MAX_BYTES)
        return pawl_fail(error, PAWL_E_LIMIT, "the steps of a run keep at most %u MiB together",
                         JOURNAL_MAX_BYTES >> 20);
    return PAWL_OK;
}

/* Moves the events that wait before those that are held: one write then has all. */
static bool join_waiting(journal *j, journal_events *held)
{
    size_t n = j->waiting.n + held->n;
    if (n > JOURNAL_MAX_WAITING || n == held->n)
        return n == held->n;
    store_event *all = malloc(n * sizeof *all);
    if (!all)
        return false;
    memcpy(all, j->waiting.list, j->waiting.n * sizeof *all);
    if (held->n)
        memcpy(all + j->waiting.n, held->list, held->n * sizeof *all);
    free(held->list);
    free(j->waiting.list);
    *held = (journal_events){all, n, n, held->bytes + j->waiting.bytes};
    j->waiting = (journal_events){0};
    return true;
}

/* held: NULL for none, then what waits goes on waiting. */
static pawl_status add(journal *j, const char *key, const char *value, journal_events *held,
                       store_done done, void *arg, pawl_error *error)
{
    pawl_status status = check_room(j, key, value, error);
    if (status)
        return status;
    if (atomic_load(&j->n_writes) >= MOST_WRITES)
        return pawl_fail(error, PAWL_E_BUSY, "the run has %d writes under way", MOST_WRITES);
    if (held && !join_waiting(j, held) && !flush(j))
        return pawl_fail(error, PAWL_E_BUSY, "the store has too much to write");
    store_addition more = {
        .run = j->id, .key = key, .value = value, .at_ms = j->clock->wall_ms(j->clock->context)};
    if (held) {
        number(held->list, held->n, j->next_seq);
        more.events = held->list;
        more.n_events = held->n;
    }
    status = give(j, &more, done, arg, error);
    if (status)
        return status;
    j->n_steps++;
    j->step_bytes += strlen(key) + strlen(value);
    if (held) {
        j->next_seq += held->n;
        journal_forget(held);
    }
    return PAWL_OK;
}

pawl_status journal_keep(journal *j, pending_hub *hub, const char *key, const char *value,
                         journal_events *held, journal_write **out, pawl_error *error)
{
    static const pending_kind kind = {.destroy = destroy};
    journal_write *w = calloc(1, sizeof *w);
    if (!w)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a write");
    w->journal = j;
    w->error.struct_size = sizeof w->error;
    atomic_fetch_add(&j->references, 1);
    pending_init(&w->base, hub, &kind);
    pawl_status status = add(j, key, value, held, on_written, w, error);
    if (!status) {
        *out = w;
        return PAWL_OK;
    }
    pending_release(&w->base);
    pending_release(&w->base);
    return status;
}

/* Store thread. */
static void on_noted(void *arg, pawl_status status, const pawl_error *error)
{
    journal *j = arg;
    atomic_fetch_sub(&j->n_writes, 1);
    if (status)
        log_write(PAWL_LOG_ERROR, "script", "%s: %s", j->id, error->message);
    release(j);
}

pawl_status journal_note(journal *j, const char *key, const char *value, pawl_error *error)
{
    if (!j->store)
        return PAWL_OK;
    atomic_fetch_add(&j->references, 1);
    pawl_status status = add(j, key, value, NULL, on_noted, j, error);
    if (status)
        atomic_fetch_sub(&j->references, 1);
    return status;
}
