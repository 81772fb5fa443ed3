/*
 * run/fair.c - what each key was served. See fair.h.
 *
 * An idle account is kept for what its key still owes: it goes only when there is no
 * room for another key, the one with the least first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/fair.h"

#include <stdlib.h>

void run_fair_init(run_fair *fair)
{
    *fair = (run_fair){0};
}

void run_fair_clear(run_fair *fair)
{
    for (size_t i = 0; i < fair->n_accounts; i++)
        free(fair->accounts[i]);
    free(fair->accounts);
    *fair = (run_fair){0};
}

static bool is_idle(const run_account *account)
{
    return account->turns[RUN_INTERACTIVE] == 0 && account->turns[RUN_BATCH] == 0;
}

static uint64_t owed(const run_account *account)
{
    return account->served[RUN_INTERACTIVE] + account->served[RUN_BATCH];
}

/* The idle account with the smallest counters. NULL: all are busy. */
static run_account *find_idle(const run_fair *fair)
{
    run_account *least = NULL;
    for (size_t i = 0; i < fair->n_accounts; i++) {
        run_account *account = fair->accounts[i];
        if (is_idle(account) && (!least || owed(account) < owed(least)))
            least = account;
    }
    return least;
}

static run_account *add(run_fair *fair)
{
    if (fair->n_accounts == fair->room) {
        size_t room = 2 * fair->room + 8;
        run_account **more = realloc(fair->accounts, room * sizeof *more);
        if (!more)
            return NULL;
        fair->accounts = more;
        fair->room = room;
    }
    run_account *account = calloc(1, sizeof *account);
    if (account)
        fair->accounts[fair->n_accounts++] = account;
    return account;
}

static run_account *account_of(run_fair *fair, const run_caller *caller)
{
    for (size_t i = 0; i < fair->n_accounts; i++)
        if (run_caller_same(&fair->accounts[i]->caller, caller))
            return fair->accounts[i];
    run_account *account = fair->n_accounts < RUN_MAX_ACCOUNTS ? add(fair) : NULL;
    if (!account)
        account = find_idle(fair);
    if (!account)
        return &fair->others;
    *account = (run_account){.caller = *caller};
    return account;
}

static void lower(uint64_t *least, bool *found, const run_account *account, int class)
{
    if (account->turns[class] && (!*found || account->served[class] < *least)) {
        *least = account->served[class];
        *found = true;
    }
}

/* What a key that was idle starts from at least. */
static uint64_t floor_of(const run_fair *fair, int class)
{
    uint64_t least = 0;
    bool found = false;
    for (size_t i = 0; i < fair->n_accounts; i++)
        lower(&least, &found, fair->accounts[i], class);
    lower(&least, &found, &fair->others, class);
    return found ? least : fair->level[class];
}

void run_fair_enter(run_fair *fair, run_turn *turn)
{
    int class = (int)turn->standing.priority;
    run_account *account = account_of(fair, &turn->request->caller);
    if (account->turns[class] == 0) {
        uint64_t least = floor_of(fair, class);
        if (account->served[class] < least)
            account->served[class] = least;
    }
    account->turns[class]++;
    fair->turns[class]++;
    turn->standing.account = account;
}

void run_fair_leave(run_fair *fair, run_turn *turn)
{
    int class = (int)turn->standing.priority;
    run_account *account = turn->standing.account;
    account->turns[class]--;
    fair->turns[class]--;
    if (fair->turns[class] == 0 && fair->level[class] < account->served[class])
        fair->level[class] = account->served[class];
    turn->standing.account = NULL;
}

void run_fair_charge(run_turn *turn, uint64_t tokens)
{
    turn->standing.account->served[turn->standing.priority] += tokens;
}
