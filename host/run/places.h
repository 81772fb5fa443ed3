/*
 * run/places.h - how many turns may wait: all together, and of one key.
 *
 * A place is taken before a turn is made and given back when the turn runs for the
 * first time or ends before that. Who showed no key cannot be told from others like
 * it and has the whole queue. Counts only: who is next is waiting.h's. [any]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PLACES_H
#define RUN_PLACES_H

#include "run/caller.h"

#include <stdint.h>

#define RUN_LEAST_KEY_PLACES 8 /* of one key, where nothing is said and the queue has as many */

typedef struct run_places run_places;

enum run_place { RUN_PLACED, RUN_KEY_FULL, RUN_QUEUE_FULL };

/* per_key 0: a quarter of the limit, but at least RUN_LEAST_KEY_PLACES. NULL without memory. */
run_places *run_places_open(uint32_t limit, uint32_t per_key);
void run_places_close(run_places *places); /* NULL allowed */

/* n places or none. */
enum run_place run_places_take(run_places *places, const run_caller *caller, uint32_t n);
void run_places_give(run_places *places, const run_caller *caller, uint32_t n);
/* How many are taken: by this caller, or NULL: by all. */
uint32_t run_places_taken(run_places *places, const run_caller *caller);

#endif /* RUN_PLACES_H */
