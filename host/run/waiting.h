/*
 * run/waiting.h - the turns that wait, and which of them is next.
 *
 *   interactive   preempted, oldest first │ key A: ● ● ●   key B: ●   …
 *   batch         preempted, oldest first │ key A: ●       key C: ● ● …
 *
 * The first that has somebody, from left to right and from above: the preempted ones
 * of a class before its others, of these the first of the key that was served least
 * (fair.h); of two equal keys the one whose turn came first. Where too many were
 * preempted, they alone: turns that sink to the batch class while they run, and then
 * give way, would else be without number, since they hold no place in the queue.
 * Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_WAITING_H
#define RUN_WAITING_H

#include "run/fair.h"

typedef struct run_waiting {
    run_fair fair;
    run_line front[RUN_PRIORITIES]; /* preempted ones           */
    uint32_t n[RUN_PRIORITIES];     /* how many wait            */
    uint32_t n_returned;            /* of all: were preempted   */
    uint32_t most_returned;         /* from so many on none that is new is next */
} run_waiting;

void run_waiting_init(run_waiting *waiting, uint32_t most_returned);
void run_waiting_clear(run_waiting *waiting); /* when no turn is left */

/* A turn waits: a new one in the line of its key, by its number; one with standing.returned
 * before all others of its class. Counts it in its account unless it does already. */
void run_waiting_add(run_waiting *waiting, run_turn *turn);
void run_waiting_remove(run_waiting *waiting, run_turn *turn);
/* Who is next, of all or of one class. It stays where it is. NULL: nobody waits. */
run_turn *run_waiting_next(const run_waiting *waiting);
run_turn *run_waiting_next_of(const run_waiting *waiting, enum run_priority class);
/* Calls look(arg, turn) for each; look may remove that turn, and add others. */
void run_waiting_each(run_waiting *waiting, void (*look)(void *arg, run_turn *turn), void *arg);
/* Changes the class of a turn that waits. */
void run_waiting_move(run_waiting *waiting, run_turn *turn, enum run_priority class);

/* Whether a goes before b: the higher class, in it the one that came first. */
bool run_outranks(const run_turn *a, const run_turn *b);

#endif /* RUN_WAITING_H */
