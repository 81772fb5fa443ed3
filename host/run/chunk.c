/*
 * run/chunk.c - how much of a prompt goes into a pass in which others generate. See
 * chunk.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/chunk.h"

#define WEIGHT 8              /* a pass counts for one part in so many */
#define UNKNOWN_CHUNK 64      /* as long as nothing was measured       */
#define LONGEST 3600000000000 /* an hour; longer ones count as this    */

void run_chunk_init(run_chunk *chunk)
{
    *chunk = (run_chunk){.pass = -1, .token = -1};
}

static void average(int64_t *value, int64_t latest)
{
    *value = *value < 0 ? latest : (*value * (WEIGHT - 1) + latest) / WEIGHT;
}

void run_chunk_note(run_chunk *chunk, uint64_t n_prompt, int64_t ns)
{
    ns = ns < 0 ? 0 : ns > LONGEST ? LONGEST : ns;
    if (n_prompt == 0)
        average(&chunk->pass, ns);
    else if (chunk->pass >= 0) /* else it cannot be told apart what took how long */
        average(&chunk->token, ns > chunk->pass ? (ns - chunk->pass) / (int64_t)n_prompt : 0);
}

uint64_t run_chunk_limit(const run_chunk *chunk)
{
    if (chunk->pass < 0 || chunk->token < 0)
        return UNKNOWN_CHUNK;
    int64_t room = (RUN_STRETCH - 1) * chunk->pass;
    if (room >= RUN_STEP_TOKENS * chunk->token)
        return RUN_STEP_TOKENS;
    uint64_t n = (uint64_t)(room / chunk->token) / RUN_LEAST_CHUNK * RUN_LEAST_CHUNK;
    return n > RUN_LEAST_CHUNK ? n : RUN_LEAST_CHUNK;
}
