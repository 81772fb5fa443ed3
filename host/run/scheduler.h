/*
 * run/scheduler.h - the engine thread of one model: which turns are in the next step.
 *
 * Continuous batching: each step takes one token of every turn that generates and
 * fills the rest of a token budget with prompt chunks, so that a long prompt delays
 * nobody by more than one step. The thread is the only caller of the engine's
 * submit and of its sequences.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_SCHEDULER_H
#define RUN_SCHEDULER_H

#include "run/places.h"
#include "run/turn.h"

/* A batch class that no step has served for so long, while it had turns, gets one turn raised
 * to the interactive class. */
#define RUN_STARVED_NS (30 * (int64_t)1000000000)

typedef struct run_scheduler_config {
    uint32_t queue;          /* turns that may wait                               */
    uint32_t per_key;        /* of them of one key; 0: see run_places_open()      */
    struct kv *kv;           /* where state is saved; outlives the scheduler; NULL: nowhere */
    uint64_t kv_min_tokens;  /* of a timeline that is worth it; 0: PREFIX_MIN_TOKENS */
    const base_clock *clock; /* for that; NULL: the system's                      */
    bool driven;             /* no thread is started; whoever opened it is the engine thread and
                              * calls run_scheduler_round(). For simulations, which must be able
                              * to repeat a schedule                              */
} run_scheduler_config;

pawl_status run_scheduler_open(const run_model *model, const run_scheduler_config *config,
                               run_scheduler **out, pawl_error *error);
/* One round: admits, cancels, runs at most one pass. False: there is nothing left to do.
 * [engine] */
bool run_scheduler_round(run_scheduler *s);
/* Takes n places in the queue, or none: also RUN_QUEUE_FULL when it is closed. [any] */
enum run_place run_scheduler_claim(run_scheduler *s, const run_caller *caller, uint32_t n);
/* Gives back places that are not used. [any] */
void run_scheduler_unclaim(run_scheduler *s, const run_caller *caller, uint32_t n);
/* Turns in the queue: of this caller, or NULL: all, with those that were preempted. [any] */
uint32_t run_scheduler_waiting(run_scheduler *s, const run_caller *caller);
/* Queues a turn, and those that follow it by `next`, in claimed places; the scheduler's
 * references go with them. False: it was closed meanwhile, turns and places are still the
 * caller's. [any] */
bool run_scheduler_submit(run_scheduler *s, run_turn *turn);
/* Seconds until a good part of those who wait will have been served: of this caller's, or
 * NULL: of all. [any] */
int run_scheduler_wait(run_scheduler *s, const run_caller *caller);
/* Cancels all turns, sends their ENDs to be stored, ends the thread. NULL allowed. [main] */
void run_scheduler_close(run_scheduler *s);

#endif /* RUN_SCHEDULER_H */
