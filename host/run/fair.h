/*
 * run/fair.h - what each key was served, so that the one that had least is next.
 *
 * Virtual tokens (VTC): every key has a counter for each class, of the tokens of
 * prompts that were computed for it and, twice as dear, of those that were generated.
 * The key with the smallest counter is served next. One that comes back from idle is
 * lifted to the smallest counter of those that are there: having been away is no
 * credit. What was reused from a cache, or is computed again after a preemption, costs
 * nothing. Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_FAIR_H
#define RUN_FAIR_H

#include "run/turn.h"

#define RUN_MAX_ACCOUNTS 1024 /* keys beyond it, if all of them are busy, share one account */
#define RUN_GENERATED_COST 2  /* a token of a prompt costs 1                                */

/* Turns that wait, in order of arrival, linked by their standing. */
typedef struct run_line {
    run_turn *first, *last;
} run_line;

typedef struct run_account {
    run_caller caller;
    uint64_t served[RUN_PRIORITIES]; /* virtual tokens                         */
    uint32_t turns[RUN_PRIORITIES];  /* that wait or run                       */
    run_line line[RUN_PRIORITIES];   /* those that wait, but for preempted ones */
} run_account;

typedef struct run_fair {
    run_account **accounts; /* n_accounts of them, in no order that matters       */
    size_t n_accounts, room;
    run_account others;             /* for whom there is no other                */
    uint32_t turns[RUN_PRIORITIES]; /* of all accounts                           */
    uint64_t level[RUN_PRIORITIES]; /* the counter of the last that became idle  */
} run_fair;

void run_fair_init(run_fair *fair);
void run_fair_clear(run_fair *fair); /* when no turn is left */

/* A turn begins to wait, or changed its class: from now on it counts in its account. */
void run_fair_enter(run_fair *fair, run_turn *turn);
/* It has ended, or is about to change its class. */
void run_fair_leave(run_fair *fair, run_turn *turn);
void run_fair_charge(run_turn *turn, uint64_t tokens);

#endif /* RUN_FAIR_H */
