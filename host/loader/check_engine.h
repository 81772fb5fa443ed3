/*
 * loader/check_engine.h - what the engine rules in several files share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_CHECK_ENGINE_H
#define LOADER_CHECK_ENGINE_H

#include "loader/check_rules.h"

#define CHECK_PROMPT 24 /* tokens of each prompt      */
#define CHECK_RUN 12    /* tokens of each greedy run  */

/* A greedy run of the seed's prompt in a fresh sequence. */
enum check_verdict check_fresh(check *c, uint64_t seed, int32_t *prompt, int32_t *out);

/* PASS if the engine promises BATCH_INVARIANT, else SKIP. */
enum check_verdict check_invariance(check *c);

/* check_sample.c */
enum check_verdict check_top_k(check *c);
enum check_verdict check_seed(check *c);
enum check_verdict check_resume(check *c);
enum check_verdict check_hot_mask(check *c);
enum check_verdict check_tops(check *c);
enum check_verdict check_penalties(check *c);

/* check_pages.c */
enum check_verdict check_capacity(check *c);
enum check_verdict check_reserve(check *c);
enum check_verdict check_returned(check *c);

/* check_state.c */
/* Saves what a sequence has of its n tokens and loads it into another, empty one. */
enum check_verdict check_state_move(check *c, const pawl_sequence *from, const int32_t *tokens,
                                    uint64_t n, pawl_sequence *to);
enum check_verdict check_state_continues(check *c);
enum check_verdict check_state_damage(check *c);
/* Half of group "exchange": a state and what follows it goes to a file, or comes from it. */
enum check_verdict check_state_put(check *c, const char *path);
enum check_verdict check_state_take(check *c, const char *path);

#endif /* LOADER_CHECK_ENGINE_H */
