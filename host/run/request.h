/*
 * run/request.h - one request, whichever dialect it came in.
 *
 * host/api fills a run_request (zeroed by run_request_new) from JSON; after
 * run_start() it belongs to its turns, of which there may be several (choices), and
 * is only read. All members are owned by the request and freed with its last
 * reference. Not locked but for the count of references: one thread fills it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_REQUEST_H
#define RUN_REQUEST_H

#include "base/clock.h"
#include "base/json.h"
#include "run/caller.h"
#include "run/model.h"
#include "run/record.h"

#include <stdatomic.h>

#define RUN_MAX_STOP 16        /* stop strings                  */
#define RUN_MAX_STOP_BYTES 256 /* of one stop string            */
#define RUN_MAX_TOP_LOGPROBS 20
#define RUN_MAX_SALT 64 /* bytes of cache_salt */

/* Which of two classes a turn is served in: the first goes before the second. */
enum run_priority {
    RUN_INTERACTIVE, /* somebody waits for it                                       */
    RUN_BATCH,       /* takes what the others leave, and may be interrupted by them */
    RUN_PRIORITIES
};

typedef struct run_request {
    atomic_int references;                 /* touched by retain and free alone              */
    char id[CLOCK_ID_SIZE];                /* "resp_…", made by run_request_new             */
    int64_t created_ms;                    /* wall clock                                    */
    run_caller caller;                     /* whose it is; run_request_new: RUN_NOBODY      */
    run_model *model;                      /* not owned; lives as long as the runtime       */
    run_record *parent;                    /* a reference, or NULL                          */
    run_record *base;                      /* without a parent: a reference to a record whose
                                            * timeline the prompt may begin with, or NULL   */
    struct run_conversation *conversation; /* owned: held for this turn, whose record is
                                            * to be its head; or NULL            */
    cJSON *items;                          /* array: the new input items in the shape of
                                            * api.md 4, every one with "type" and "id"; one
                                            * of the assistant with "begins_turn": true
                                            * joins no turn before it                       */
    char *raw_text;                        /* the whole prompt instead of items, or NULL    */
    int32_t *raw_tokens;                   /* n_raw_tokens: the same as tokens, or NULL     */
    uint64_t n_raw_tokens;
    bool raw_control;                   /* control tokens may be matched in raw_text     */
    char *instructions;                 /* system text for this request only, or NULL    */
    cJSON *tools;                       /* array of {"type":"function","function":{name,
                                         * description, parameters}}, or NULL            */
    bool tools_off;                     /* tool_choice "none"                            */
    bool one_call;                      /* parallel_tool_calls false                     */
    cJSON *echo;                        /* object: what the answer repeats; stored as is */
    bool store;                         /* keep it in the store                          */
    bool keep_events;                   /* so that they can be read again (log.h)        */
    bool background;                    /* it needs no client                            */
    bool cancel_on_leave;               /* with its last client it is cancelled          */
    char *key;                          /* Idempotency-Key, or NULL; then:               */
    char key_hash[STORE_KEY_HASH_SIZE]; /* of what was asked for with it        */
    bool generate;                      /* false: prefill and cache, sample nothing      */
    bool probe;                         /* our own (ready.h): not measured, leaves no sequence */
    bool keep_stopped;        /* a turn that run_cancel() ends while it speaks is incomplete, as
                               * at a limit, and can be gone on from; it is not "cancelled" */
    bool truncate;            /* drop the oldest turns instead of refusing     */
    bool logprobs;            /* events carry log-probabilities                */
    uint32_t top_logprobs;    /* alternatives per token, 0 to 20               */
    uint64_t max_tokens;      /* of output; 0: until the context is full       */
    uint64_t min_tokens;      /* end tokens are ignored before                 */
    bool ignore_eos;          /* end tokens are ignored                        */
    char *stop[RUN_MAX_STOP]; /* n_stop strings that end the reply, left out of it */
    size_t n_stop;
    pawl_sampling sampling; /* temperature, top_p, top_k, min_p, penalties, seed;
                             * the seed is set by run_request_new to a random one;
                             * bias_ids and bias are those below                */
    int32_t *bias_ids;      /* sampling.n_bias of them, or NULL         */
    float *bias;            /* as many, or NULL                         */
    char *reasoning_effort; /* "low", …, or NULL                             */
    int thinking;           /* 1 on, 0 off, -1 as the dialect has it         */
    /* State is shared only with requests of the same; "": with all that have none. */
    char cache_salt[RUN_MAX_SALT + 1];

    enum run_priority priority; /* its class */
} run_request;

run_request *run_request_new(const base_clock *clock); /* NULL without memory */
run_request *run_request_retain(run_request *request);
void run_request_free(run_request *request); /* gives up a reference; NULL allowed */

#endif /* RUN_REQUEST_H */
