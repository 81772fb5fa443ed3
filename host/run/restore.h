/*
 * run/restore.h - state between sequences and the prefix cache, a little in each round.
 *
 *   admitted ──► restoring: some parts each round ──► computes the rest, as if it were live
 *   computes, generates, ends ──► its new parts are saved, some in each round
 *
 * What is loaded in a round takes at most as long as half a pass, and what is saved an
 * eighth, but always one part; so a stream that runs beside it waits for little more than the
 * copy of one part. Where nothing runs, MAX_PARTS go before the inbox is looked at again.
 * Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_RESTORE_H
#define RUN_RESTORE_H

#include "run/step.h"

/* What is kept of a turn's timeline and longer than what is live by enough to pay; nothing:
 * n_tokens is 0. The chain is of its tokens; to be cleared in every case. */
prefix_hit run_restore_look(run_step *step, run_turn *turn, uint64_t shared, prefix_chain *chain);
/* Loads some parts for the turns that wait for theirs. */
void run_restore(run_step *step);
/* Saves some parts of what sequences have, those of turns that have ended first. False:
 * nothing is left. */
bool run_save(run_step *step);
/* A turn's state is at a save point: at its end, too, it is to be found later. */
void run_save_point(run_step *step, const run_active *a);

#endif /* RUN_RESTORE_H */
