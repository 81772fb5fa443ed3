/*
 * run/runtime.h - all models that are served, the store, and the turns on them.
 *
 * Threads: the worker (parsing, history, rendering, tokenising: one job at a
 * time, in order), one engine thread for each model (scheduler.c), the store's
 * own. Whoever calls from elsewhere hands work to the worker by run_defer().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_RUNTIME_H
#define RUN_RUNTIME_H

#include "run/event.h"
#include "run/holds.h"
#include "run/model.h"
#include "run/request.h"

#define RUN_MAX_CHOICES 8 /* replies to one request */

typedef struct run_runtime run_runtime;
typedef struct run_turn run_turn;

typedef struct run_config {
    registry *plugins;
    const run_model_config *models;
    size_t n_models;
    store *store;           /* becomes the runtime's; NULL: nothing can be stored */
    struct kv *kv;          /* where state is saved; becomes the runtime's; NULL: nowhere */
    uint64_t kv_min_tokens; /* of a timeline that is worth it; 0: a default      */
    const base_clock *clock;
    uint32_t queue_limit; /* turns waiting per model; 0: 256                    */
    uint32_t key_limit;   /* of them of one key; 0: a quarter, but at least 8   */
    metrics *metrics;     /* outlives the runtime; NULL: nothing is measured    */
    /* Of the events that are kept (logs.h); 0 where the number behind it holds: */
    uint32_t detach_s;     /* RUN_AT_ONCE: not at all. 60, for a client to come back */
    uint32_t events_s;     /* 3600, after the end                               */
    size_t events_max;     /* 8 MiB, of one response                            */
    size_t events_max_all; /* 256 MiB                                           */
} run_config;

#define RUN_AT_ONCE UINT32_MAX

/* Why a request was not accepted; what the client should be told and do. */
enum run_refusal_reason {
    RUN_REFUSED_INPUT,       /* param names the place                              */
    RUN_REFUSED_TOO_LONG,    /* the prompt does not fit the context                */
    RUN_REFUSED_UNSUPPORTED, /* this model or its dialect cannot; param names what */
    RUN_REFUSED_BUSY,        /* queue full: again later                            */
    RUN_REFUSED_NOT_FOUND,   /* what was asked for is not there                    */
    RUN_REFUSED_STOPPING,    /* shutting down                                      */
    RUN_REFUSED_INTERNAL,    /* our fault or a plugin's                            */
    RUN_REFUSED_KEY_BUSY     /* the caller's own share of the queue is full        */
};

typedef struct run_refusal {
    enum run_refusal_reason reason;
    char param[64]; /* "input", "input[2].call_id", …; "" none */
    char message[300];
    int retry_after; /* of the BUSY ones: seconds, as run_retry_after() */
} run_refusal;

pawl_status run_open(const run_config *config, run_runtime **runtime, pawl_error *error);
/* Refuses what is new, cancels what runs, waits for every END, saves the state of all
 * sequences, closes models and stores. [main] */
void run_close(run_runtime *runtime);

/* Runs job(arg) on the worker. False: the queue is full or the runtime stops; the
 * job will not run. [any] */
bool run_defer(run_runtime *runtime, void (*job)(void *arg), void *arg);

size_t run_model_count(const run_runtime *runtime);                      /* [any] */
run_model *run_model_at(const run_runtime *runtime, size_t i);           /* [any] */
run_model *run_model_find(const run_runtime *runtime, const char *name); /* NULL: unknown. [any] */
const base_clock *run_clock(const run_runtime *runtime);
/* Seconds after which it is worth asking a server again that had too much to do: from
 * how many turns wait and how long turns have taken lately. [any] */
int run_retry_after(const run_runtime *runtime);
metrics *run_metrics(const run_runtime *runtime);         /* as configured, or NULL. [any] */
struct run_logs *run_logs_of(const run_runtime *runtime); /* [any] */

/* What has to be done every second: time runs out for those who have no client. [any] */
void run_tend(run_runtime *runtime);
/* How many responses run that need no client, or whose events are kept. [any] */
size_t run_kept_running(run_runtime *runtime);
void run_cancel_kept(run_runtime *runtime); /* Cancels all of them. [any] */

/* Where the request wants its events kept, they can be found in run_logs_of() by its id
 * from the moment that one of these two returns true. A background request has one turn
 * and needs no listener (on_event NULL).
 *
 * Prepares a request (history, rendering, tokens, context check) and queues it. The
 * request becomes the runtime's in every case. False: refused, *refusal says why and
 * no event comes. True: the listener has been given CREATED, more follows. *turn is
 * a reference for run_cancel(), to be given to run_turn_release(). [worker] */
bool run_start(run_runtime *runtime, run_request *request, run_listener listener, run_turn **turn,
               run_refusal *refusal);
/* The same for n replies to one prompt, from 1 to RUN_MAX_CHOICES: see event.h. The first
 * one's seed is the request's, the k-th one's is k more. turns: n references. [worker] */
bool run_start_choices(run_runtime *runtime, run_request *request, size_t n, run_listener listener,
                       run_turn **turns, run_refusal *refusal);
/* How many tokens the prompt of a request has; the request stays the caller's. [worker] */
bool run_count(run_runtime *runtime, run_request *request, uint64_t *n_tokens,
               run_refusal *refusal);

/* The tokens of a request's prompt, also where they are more than the context holds. The
 * caller free()s them; the request stays the caller's. [worker] */
bool run_tokens(run_runtime *runtime, const run_request *request, int32_t **tokens,
                uint64_t *n_tokens, run_refusal *refusal);

/* Ends a turn soon, with END and the status "cancelled". [any] */
void run_cancel(run_turn *turn);
/* Moves a turn to the batch class, whether it waits or runs: nobody waits for it now. [any] */
void run_demote(run_turn *turn);
void run_turn_release(run_turn *turn); /* [any], NULL allowed */

/* A stored response that has ended, its chain not loaded. NULL: unknown, running, or another
 * tenant's than the caller's; caller NULL: whosever it is, for ancestors of one's own, and without
 * its timeline. with_removed: one that others descend from, too. [worker] */
run_record *run_find(run_runtime *runtime, const run_caller *caller, const char *id,
                     bool with_removed);
/* Which stored response answered the caller's Idempotency-Key within a day. [worker] */
bool run_find_answer(run_runtime *runtime, const run_caller *caller, const char *key,
                     store_answer *answer);
/* Removes a stored response; done is called from the store's thread. [worker] */
bool run_remove(run_runtime *runtime, const char *id, store_done done, void *arg);
/* The function_call of this call_id in a record's own items or its ancestors'. [worker] */
bool run_chain_has_call(run_runtime *runtime, run_record *from, const char *call_id);

/* For this room. */
store *run_store(const run_runtime *runtime);       /* or NULL. [any] */
run_holds *run_runtime_holds(run_runtime *runtime); /* [any]          */

#endif /* RUN_RUNTIME_H */
