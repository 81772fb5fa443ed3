/*
 * run/step.h - one forward pass: who is in it, and what comes of it.
 *
 * Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_STEP_H
#define RUN_STEP_H

#include "run/chunk.h"
#include "run/live.h"
#include "run/pace.h"
#include "run/waiting.h"

typedef struct run_active {
    run_turn *turn;
    live *entry;       /* entry->n_tokens of the timeline have state        */
    bool in;           /* the pass that is being put together               */
    prefix_load *load; /* saved state that is still to come, or NULL        */
} run_active;

typedef struct run_step {
    const run_model *model;
    live_set *sequences;
    run_waiting *waiting;
    run_pace *pace;
    const base_clock *clock; /* of the first turn that came; NULL: none did        */
    run_active *active;      /* n_active of at most model->max_sequences, by rank: the
                              * first outranks all others                          */
    size_t n_active;
    int64_t pass_ns;      /* how long the latest pass took; 0: there was none        */
    run_chunk chunk;      /* what passes take                                    */
    int64_t batch_ns;     /* monotonic: when a turn of the batch class was in a pass */
    pawl_slot *slots;     /* one for each active turn that is in the pass        */
    int32_t *out_tokens;  /* one for each slot                                   */
    float *out_logprobs;  /* one for each slot                                   */
    struct pawl_top *top; /* RUN_MAX_TOP_LOGPROBS for each slot                  */
    float *logprobs;      /* of given tokens, where they are to be scored        */
    size_t n_logprobs;    /* of them in use by this pass                         */
} run_step;

pawl_status run_step_open(run_step *step, const run_model *model, live_set *sequences,
                          run_waiting *waiting, run_pace *pace, pawl_error *error);
void run_step_close(run_step *step);

/* A turn begins to run, or goes on. load: what is to come into its sequence first, or NULL;
 * becomes the step's. */
void run_step_add(run_step *step, run_turn *turn, live *entry, prefix_load *load);
/* The i-th active turn no longer runs; what was being loaded for it stops. Its sequence is
 * the caller's to keep or to drop. */
run_active run_step_take_out(run_step *step, size_t i);
/* The other choices of a turn wait no longer for its prompt: it has state now, or will not. */
void run_step_wake(run_step *step, run_turn *turn);
/* Ends the i-th active turn; its sequence is kept for later unless it failed. */
void run_step_end(run_step *step, size_t i, enum run_turn_outcome outcome, const char *why);
/* Changes the class of the i-th active turn. */
void run_step_move(run_step *step, size_t i, enum run_priority class);
/* The i-th active turn gives up its sequence and waits again, before all others of its class. */
void run_step_return(run_step *step, size_t i);
/* Interrupts the i-th active turn: it waits again, before all others of its class, and goes
 * on where it was. keep: its state stays until somebody needs the room. */
void run_step_preempt(run_step *step, size_t i, bool keep);
/* Runs a pass with those whom run_plan() puts in, if there is anybody, and hands out the
 * tokens. */
void run_step_run(run_step *step);

/* Tokens of the timeline that have no state yet. */
static inline uint64_t run_missing(const run_active *a)
{
    return a->turn->n_tokens - a->entry->n_tokens;
}

/* Where the tokens begin that are to be scored. */
static inline uint64_t run_scored_from(const run_turn *turn)
{
    return turn->n_prompt - turn->prompt.n_scored;
}

/* Whether it only waits for its next token; else a prompt, or what was generated before a
 * preemption, is being computed. */
static inline bool run_is_decoding(const run_active *a)
{
    return run_missing(a) == 1 && a->turn->n_tokens > a->turn->n_prompt;
}

#endif /* RUN_STEP_H */
