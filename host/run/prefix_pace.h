/*
 * run/prefix_pace.h - whether loading saved state is faster than computing it again.
 *
 * Learned from what really happens, since it depends on the model, the device, the disk and
 * on what else the machine does: running means of the time that a token takes either way.
 * Until both are known, loading is taken to pay. Where it is found not to, it is tried again
 * now and then: a disk that was slow once may be fast today. Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PREFIX_PACE_H
#define RUN_PREFIX_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Every how many refusals loading is tried all the same. */
#define PREFIX_PACE_RETRY 16

typedef struct prefix_pace {
    double load_ns;    /* a token, from whichever tier; 0: not known */
    double compute_ns; /* a token, in a pass over many; 0: not known */
    uint32_t refused;  /* times since loading last paid              */
} prefix_pace;

void prefix_pace_loaded(prefix_pace *pace, uint64_t n_tokens, int64_t ns);
/* A pass over so many tokens. Those that are mostly decoding say nothing and are passed over. */
void prefix_pace_computed(prefix_pace *pace, uint64_t n_tokens, int64_t ns);
/* Whether to load n_load tokens rather than to compute n_compute of them. */
bool prefix_pace_pays(prefix_pace *pace, uint64_t n_load, uint64_t n_compute);

#endif /* RUN_PREFIX_PACE_H */
