/*
 * run/places.c - how many turns may wait. See places.h.
 *
 * A row for each key that has a place, so never more rows than places.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/places.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct row {
    run_caller caller;
    uint32_t taken; /* at least 1 */
} row;

struct run_places {
    pthread_mutex_t lock;
    uint32_t limit, per_key;
    uint32_t taken; /* of limit, by all */
    row *rows;      /* n_rows of them   */
    size_t n_rows, room;
};

run_places *run_places_open(uint32_t limit, uint32_t per_key)
{
    run_places *places = calloc(1, sizeof *places);
    uint32_t quarter = limit / 4 > RUN_LEAST_KEY_PLACES ? limit / 4 : RUN_LEAST_KEY_PLACES;
    if (!places)
        return NULL;
    pthread_mutex_init(&places->lock, NULL);
    places->limit = limit;
    places->per_key = per_key ? per_key : quarter;
    return places;
}

void run_places_close(run_places *places)
{
    if (!places)
        return;
    pthread_mutex_destroy(&places->lock);
    free(places->rows);
    free(places);
}

static row *find(const run_places *places, const run_caller *caller)
{
    for (size_t i = 0; i < places->n_rows; i++)
        if (run_caller_same(&places->rows[i].caller, caller))
            return &places->rows[i];
    return NULL;
}

static row *add(run_places *places, const run_caller *caller)
{
    if (places->n_rows == places->room) {
        size_t room = 2 * places->room + 8;
        row *more = realloc(places->rows, room * sizeof *more);
        if (!more)
            return NULL;
        places->rows = more;
        places->room = room;
    }
    places->rows[places->n_rows] = (row){.caller = *caller};
    return &places->rows[places->n_rows++];
}

static enum run_place take(run_places *places, const run_caller *caller, uint32_t n)
{
    row *own = find(places, caller);
    uint32_t taken = own ? own->taken : 0;
    if (!run_caller_is_nobody(caller) && (taken > places->per_key || n > places->per_key - taken))
        return RUN_KEY_FULL;
    if (n > places->limit - places->taken || (!own && !(own = add(places, caller))))
        return RUN_QUEUE_FULL;
    own->taken += n;
    places->taken += n;
    return RUN_PLACED;
}

enum run_place run_places_take(run_places *places, const run_caller *caller, uint32_t n)
{
    pthread_mutex_lock(&places->lock);
    enum run_place place = take(places, caller, n);
    pthread_mutex_unlock(&places->lock);
    return place;
}

void run_places_give(run_places *places, const run_caller *caller, uint32_t n)
{
    pthread_mutex_lock(&places->lock);
    row *own = find(places, caller);
    if (own && own->taken >= n) {
        own->taken -= n;
        places->taken -= n;
        if (own->taken == 0)
            *own = places->rows[--places->n_rows];
    }
    pthread_mutex_unlock(&places->lock);
}

uint32_t run_places_taken(run_places *places, const run_caller *caller)
{
    pthread_mutex_lock(&places->lock);
    const row *own = caller ? find(places, caller) : NULL;
    uint32_t taken = own ? own->taken : caller ? 0 : places->taken;
    pthread_mutex_unlock(&places->lock);
    return taken;
}
