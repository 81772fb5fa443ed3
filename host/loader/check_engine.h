/*
 * loader/check_engine.h - what the engine rules in two files share.
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

enum check_verdict check_state_continues(check *c);
enum check_verdict check_state_damage(check *c);

#endif /* LOADER_CHECK_ENGINE_H */
