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

#include "run/turn.h"

/* driven: no thread is started; whoever opened it is the engine thread and calls
 * run_scheduler_round(). For simulations, which must be able to repeat a schedule. */
pawl_status run_scheduler_open(const run_model *model, uint32_t queue_limit, bool driven,
                               run_scheduler **out, pawl_error *error);
/* One round: admits, cancels, runs at most one pass. False: there is nothing left to do.
 * [engine] */
bool run_scheduler_round(run_scheduler *s);
/* Claims a place in the queue. False: it is full or closed. [any] */
bool run_scheduler_claim(run_scheduler *s);
/* Gives back a claimed place that is not used. [any] */
void run_scheduler_unclaim(run_scheduler *s);
uint32_t run_scheduler_waiting(run_scheduler *s); /* turns in the queue. [any] */
/* Queues a turn in a claimed place; the scheduler's reference goes with it. False: it
 * was closed meanwhile, the turn is still the caller's. [any] */
bool run_scheduler_submit(run_scheduler *s, run_turn *turn);
/* Seconds until a good part of those who wait will have been served. [any] */
int run_scheduler_wait(run_scheduler *s);
/* Cancels all turns, sends their ENDs to be stored, ends the thread. NULL allowed. [main] */
void run_scheduler_close(run_scheduler *s);

#endif /* RUN_SCHEDULER_H */
