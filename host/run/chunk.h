/*
 * run/chunk.h - how much of a prompt goes into a pass in which others generate.
 *
 * Whoever reads a stream notices when its next token comes late, so a pass with prompts
 * is to take no more than RUN_STRETCH times as long as one without, as far as parts of
 * RUN_LEAST_CHUNK tokens allow that. What passes take is measured: on a CPU, 512 tokens
 * of a prompt take as long as 70 passes that only generate; on a large GPU, no longer
 * than one. Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_CHUNK_H
#define RUN_CHUNK_H

#include <stdint.h>

/* Tokens that one pass may take: every decoding turn's one, then prompts. */
#define RUN_STEP_TOKENS 512
/* Of them prompts have at least so many, however many turns decode, and their parts are
 * multiples of it. */
#define RUN_LEAST_CHUNK 32
#define RUN_STRETCH 3

/* Moving averages, in nanoseconds; -1: not measured yet. */
typedef struct run_chunk {
    int64_t pass;  /* a pass without prompts                          */
    int64_t token; /* what a pass takes longer for a prompt's token   */
} run_chunk;

void run_chunk_init(run_chunk *chunk);
/* A pass took so long; n_prompt: tokens of prompts that were in it. */
void run_chunk_note(run_chunk *chunk, uint64_t n_prompt, int64_t ns);
/* Tokens of prompts that the next pass may take beside interactive turns that generate. */
uint64_t run_chunk_limit(const run_chunk *chunk);

#endif /* RUN_CHUNK_H */
