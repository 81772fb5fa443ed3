/*
 * cpu/sample.h - from logits to a token.
 *
 * Order: penalties, bias, mask; temperature; then top-k, top-p and min-p on what
 * that leaves, each on the distribution that the one before left. For top_k,
 * top_p, min_p and repetition_penalty 0 means off.
 *
 * The random number is a pure function of seed and position (splitmix64), so a
 * resumed turn samples what it would have sampled. It picks from the cumulative
 * distribution: in the order of ids, or by descending probability where
 * something was cut off.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_SAMPLE_H
#define CPU_SAMPLE_H

#include <pawl/plugin.h>

#include "cpu/forward.h"
#include "kernels/kernels.h"

typedef struct sample_input {
    const kernels_table *kernels;
    const float *logits;
    uint32_t vocab;
    const pawl_sampling *sampling; /* NULL: greedy                              */
    const uint32_t *allow;         /* vocab bits, or NULL                       */
    const int32_t *history;        /* tokens of the sequence                    */
    uint64_t n_history;            /* = position of the token that is chosen    */
} sample_input;

/* Numbers within bounds, ids within the vocabulary, a mask that lets something
 * through. */
pawl_status sample_check(const pawl_sampling *sampling, const uint32_t *allow, uint32_t vocab);

/* PAWL_E_INTERNAL: no allowed token has a finite logit. */
pawl_status sample_token(const sample_input *in, const forward_worker *scratch, int32_t *token);

/* In [0, 1). */
double sample_random(uint64_t seed, uint64_t position);

#endif /* CPU_SAMPLE_H */
