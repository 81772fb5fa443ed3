/*
 * run/turn.h - one turn, from its prompt to its stored record.
 *
 * A turn is counted: the scheduler holds a reference until END was sent, the
 * caller of run_start() another for run_cancel(). `cancelled`, `demoted` and the count
 * may be touched by any thread; everything else belongs to the thread that runs the turn:
 * the worker until it is queued, then the engine thread, at the very end the store
 * thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_TURN_H
#define RUN_TURN_H

#include "run/prompt.h"
#include "run/runtime.h"
#include "run/stream.h"

#include <stdatomic.h>

enum run_turn_outcome {
    TURN_STOPPED,   /* end token, stop string, or nothing was to be generated */
    TURN_LENGTH,    /* max_tokens or the context is used up                   */
    TURN_CANCELLED, /* run_cancel()                                           */
    TURN_FAILED     /* the engine or memory failed                            */
};

/* Where a turn stands with the scheduler. The engine thread's, once it is queued. */
typedef struct run_standing {
    enum run_priority priority;  /* its class now: the request's, or where it was moved    */
    bool raised;                 /* a starved batch turn: interactive for good             */
    bool placed;                 /* holds a place in the bounded queue                     */
    bool returned;               /* waits for the second time: it was preempted            */
    uint32_t preempted;          /* how often                                              */
    uint64_t number;             /* in order of arrival                                    */
    uint64_t paid;               /* of its prompt's tokens: charged to the account, or had
                                  * state already                                          */
    struct run_account *account; /* whose tokens it is served from; NULL: none yet         */
    run_turn *before, *after;    /* in the line that it waits in                           */
} run_standing;

struct run_turn {
    atomic_int references;
    atomic_bool cancelled;
    atomic_bool demoted; /* to the batch class, when the scheduler sees it */
    run_standing standing;
    run_request *request;
    run_listener listener;
    const base_clock *clock;
    store *store;      /* NULL: the request is not to be stored              */
    run_prompt prompt; /* its tokens have moved to `tokens`                  */
    int32_t *tokens;   /* the timeline: prompt, then what was generated      */
    uint64_t n_tokens; /* of the timeline                                    */
    uint64_t n_prompt;
    uint64_t limit;         /* n_tokens at which the turn ends for its length     */
    pawl_sampling sampling; /* the request's, with this turn's seed              */
    run_turn *next;         /* the next choice of its request, until it is queued too:
                             * it waits for this one's prompt, which it shares       */
    double score;           /* of the last prompt.n_scored tokens, as far as they have state */
    run_stream *stream;
    run_usage usage;
    int64_t arrived;    /* monotonic ns, like the three below; 0: not yet     */
    int64_t admitted;   /* its first step                                     */
    int64_t first;      /* its first token                                    */
    int64_t latest;     /* its latest token                                   */
    bool in_progress;   /* IN_PROGRESS was sent                               */
    bool stopped;       /* run_cancel() ended it, and what it said is kept    */
    bool computed;      /* a pass has taken tokens of it                      */
    bool joined;        /* it has gone over to another one's state (join.h)   */
    bool retried;       /* the engine had no memory once already              */
    uint32_t broken;    /* how often its saved state could not be loaded      */
    run_record *record; /* between the end and END                            */
    const char *stop_reason;
};

/* Takes request and prompt, also on failure. keep: where it is stored if it is to be.
 * One reference. [worker] */
pawl_status run_turn_new(run_request *request, run_prompt *prompt, run_listener listener,
                         const base_clock *clock, struct store *keep, run_turn **turn,
                         pawl_error *error);

void run_turn_created(run_turn *turn);
void run_turn_in_progress(run_turn *turn);
/* A pass has taken tokens of it for the first time; so many of its prompt had state already. */
void run_turn_computed(run_turn *turn, uint64_t cached);

/* How many tokens of the timeline may come from state that is there: what is scored is
 * computed in one go, and the token before it with it. */
static inline uint64_t run_turn_reusable(const run_turn *turn)
{
    uint64_t known = turn->n_tokens - turn->prompt.n_scored;
    return known ? known - 1 : 0;
}

/* One sampled token. True: the turn goes on; false: *outcome says how it ended. */
bool run_turn_token(run_turn *turn, int32_t token, float logprob, const struct pawl_top *top,
                    uint32_t n_top, enum run_turn_outcome *outcome);

/* Ends the turn: record, store, END. Gives up the scheduler's reference. why: for a
 * failure, what the client is told. */
void run_turn_end(run_turn *turn, enum run_turn_outcome outcome, const char *why);

#endif /* RUN_TURN_H */
