/*
 * run/step.h - one forward pass: who is in it, and what comes of it.
 *
 * Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_STEP_H
#define RUN_STEP_H

#include "run/live.h"
#include "run/pace.h"
#include "run/turn.h"

/* Tokens that one forward pass may take: every decoding turn's one, then prompts. */
#define RUN_STEP_TOKENS 512

typedef struct run_active {
    run_turn *turn;
    live *entry;        /* entry->n_tokens of the timeline have state */
    int64_t started_ns; /* monotonic                                  */
} run_active;

typedef struct run_step {
    const run_model *model;
    live_set *sequences;
    run_pace *pace;
    run_active *active; /* n_active of at most model->max_sequences            */
    size_t n_active;
    pawl_slot *slots;     /* one for each active turn that is in the pass        */
    int32_t *out_tokens;  /* one for each slot                                   */
    float *out_logprobs;  /* one for each slot                                   */
    struct pawl_top *top; /* RUN_MAX_TOP_LOGPROBS for each slot                  */
    float *logprobs;      /* of given tokens, where they are to be scored         */
    size_t n_logprobs;    /* of them in use by this pass                          */
    run_turn *woken;      /* choices that are to be admitted, in order           */
} run_step;

pawl_status run_step_open(run_step *step, const run_model *model, live_set *sequences,
                          run_pace *pace, pawl_error *error);
void run_step_close(run_step *step);

void run_step_add(run_step *step, run_turn *turn, live *entry);
/* The other choices of a turn wait no longer: its prompt has state now, or will not. */
void run_step_wake(run_step *step, run_turn *turn);
/* Ends the i-th active turn; its sequence is kept for later unless it failed. */
void run_step_end(run_step *step, size_t i, enum run_turn_outcome outcome, const char *why);
/* Builds the slots, runs the pass, hands out the tokens. */
void run_step_run(run_step *step);

#endif /* RUN_STEP_H */
