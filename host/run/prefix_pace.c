/*
 * run/prefix_pace.c - whether loading saved state is faster. See prefix_pace.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/prefix_pace.h"

#define WEIGHT 0.125  /* of the newest observation           */
#define MIN_PASS 64   /* tokens; a smaller pass is decoding  */
#define MIN_LOAD 16   /* tokens; a smaller tail is all delay */
#define MAX_NS 1.0e12 /* a token: beyond is a clock gone mad */

static void note(double *mean, double ns)
{
    if (ns >= 0 && ns < MAX_NS)
        *mean = *mean > 0 ? *mean + WEIGHT * (ns - *mean) : ns;
}

void prefix_pace_loaded(prefix_pace *pace, uint64_t n_tokens, int64_t ns)
{
    if (n_tokens >= MIN_LOAD)
        note(&pace->load_ns, (double)ns / (double)n_tokens);
}

void prefix_pace_computed(prefix_pace *pace, uint64_t n_tokens, int64_t ns)
{
    if (n_tokens >= MIN_PASS)
        note(&pace->compute_ns, (double)ns / (double)n_tokens);
}

bool prefix_pace_pays(prefix_pace *pace, uint64_t n_load, uint64_t n_compute)
{
    bool known = pace->load_ns > 0 && pace->compute_ns > 0;
    bool pays = !known || pace->load_ns * (double)n_load <= pace->compute_ns * (double)n_compute;
    if (!pays && ++pace->refused < PREFIX_PACE_RETRY)
        return false;
    pace->refused = 0;
    return true;
}
