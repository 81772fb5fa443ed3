/*
 * run/plan.h - which turns are in the next pass, and with how many tokens.
 *
 * First one token of every turn that generates, then prompts with what is left of the
 * budget (less where that would keep interactive turns waiting, see chunk.h): interactive ones
 * before batch, of these the key's that was served least, of one key the first that came. A
 * prompt's part of a pass ends at the next save point. Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PLAN_H
#define RUN_PLAN_H

#include "run/step.h"

/* State is worth saving after so many tokens, rounded up to the engine's state_chunk. */
#define RUN_SAVE_TOKENS 2048

/* Fills step->slots; how many. */
size_t run_plan(run_step *step);
/* Whether a turn's state up to the first n tokens is a save point: a multiple of
 * RUN_SAVE_TOKENS, or one of its prompt's cuts. */
bool run_is_save_point(const run_turn *turn, uint64_t n);

#endif /* RUN_PLAN_H */
