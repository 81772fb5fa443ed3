/*
 * run/admission.h - who gets a sequence and pages, and who has to give way.
 *
 * A turn goes on from a live sequence or, where longer and worth it, from saved state, which
 * is loaded into a new one while it is active already (restore.h).
 *
 * A turn begins when the pages for its whole timeline are there (what it shares with a
 * live sequence not counted), and besides a margin that every running turn can grow by.
 * Running turns take pages as they grow. When none is left, idle sequences are closed,
 * the one that was used longest ago first; then the turn of the lowest rank is
 * preempted (waiting.h has the rank: class, then arrival). It gives up its sequence and
 * later restores or computes its timeline again; since a token depends on the timeline and the
 * seed alone, it goes on as if nothing had been. The turn of the highest rank is never
 * preempted for memory, so one always comes to its end. A waiting interactive turn
 * takes the sequence or the memory of running batch turns.
 *
 * Against thrashing: the margin of a turn doubles with each of its preemptions, and a
 * batch turn that gives way while there is memory keeps its state, as an idle sequence.
 * Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_ADMISSION_H
#define RUN_ADMISSION_H

#include "run/step.h"

/* Tokens that a turn is to be able to grow by, unless it ends before. */
#define RUN_HEADROOM 128
#define RUN_MAX_DOUBLINGS 8 /* of that, by preemptions */

/* Gives a waiting turn, which is none without tokens, its sequence: it runs. PAWL_E_BUSY:
 * later, when others have ended. Anything else: never. */
pawl_status run_admit(run_step *step, run_turn *turn, pawl_error *error);
/* Before a pass: sees to it that each running turn has the pages for its next tokens. */
void run_make_room(run_step *step);

#endif /* RUN_ADMISSION_H */
