/*
 * run/waiting.c - the turns that wait, and which of them is next. See waiting.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/waiting.h"

#include <stddef.h>

void run_waiting_init(run_waiting *waiting, uint32_t most_returned)
{
    *waiting = (run_waiting){.most_returned = most_returned};
    run_fair_init(&waiting->fair);
}

void run_waiting_clear(run_waiting *waiting)
{
    run_fair_clear(&waiting->fair);
}

bool run_outranks(const run_turn *a, const run_turn *b)
{
    if (a->standing.priority != b->standing.priority)
        return a->standing.priority < b->standing.priority;
    return a->standing.number < b->standing.number;
}

static run_line *line_of(run_waiting *waiting, const run_turn *turn)
{
    const run_standing *standing = &turn->standing;
    return standing->returned ? &waiting->front[standing->priority]
                              : &standing->account->line[standing->priority];
}

/* By number; a new turn's is the highest, so it is looked for from the end. */
static void insert(run_line *line, run_turn *turn)
{
    run_turn *before = line->last;
    while (before && before->standing.number > turn->standing.number)
        before = before->standing.before;
    run_turn *after = before ? before->standing.after : line->first;
    turn->standing.before = before;
    turn->standing.after = after;
    *(before ? &before->standing.after : &line->first) = turn;
    *(after ? &after->standing.before : &line->last) = turn;
}

static void unlink_from(run_line *line, run_turn *turn)
{
    run_turn *before = turn->standing.before, *after = turn->standing.after;
    *(before ? &before->standing.after : &line->first) = after;
    *(after ? &after->standing.before : &line->last) = before;
    turn->standing.before = turn->standing.after = NULL;
}

void run_waiting_add(run_waiting *waiting, run_turn *turn)
{
    if (!turn->standing.account)
        run_fair_enter(&waiting->fair, turn);
    insert(line_of(waiting, turn), turn);
    waiting->n[turn->standing.priority]++;
    waiting->n_returned += turn->standing.returned;
}

void run_waiting_remove(run_waiting *waiting, run_turn *turn)
{
    unlink_from(line_of(waiting, turn), turn);
    waiting->n[turn->standing.priority]--;
    waiting->n_returned -= turn->standing.returned;
}

void run_waiting_move(run_waiting *waiting, run_turn *turn, enum run_priority class)
{
    run_waiting_remove(waiting, turn);
    run_fair_leave(&waiting->fair, turn);
    turn->standing.priority = class;
    run_waiting_add(waiting, turn);
}

/* Whether the first turn of one account goes before the first of another. */
static bool goes_first(const run_account *a, const run_account *b, enum run_priority class)
{
    if (a->served[class] != b->served[class])
        return a->served[class] < b->served[class];
    return a->line[class].first->standing.number < b->line[class].first->standing.number;
}

run_turn *run_waiting_next_of(const run_waiting *waiting, enum run_priority class)
{
    const run_fair *fair = &waiting->fair;
    const run_account *best = fair->others.line[class].first ? &fair->others : NULL;
    if (waiting->front[class].first || waiting->n[class] == 0)
        return waiting->front[class].first;
    for (size_t i = 0; i < fair->n_accounts; i++) {
        const run_account *account = fair->accounts[i];
        if (account->line[class].first && (!best || goes_first(account, best, class)))
            best = account;
    }
    return best ? best->line[class].first : NULL;
}

run_turn *run_waiting_next(const run_waiting *waiting)
{
    const run_line *front = waiting->front;
    if (waiting->n_returned >= waiting->most_returned)
        return front[front[RUN_INTERACTIVE].first ? RUN_INTERACTIVE : RUN_BATCH].first;
    run_turn *turn = run_waiting_next_of(waiting, RUN_INTERACTIVE);
    return turn ? turn : run_waiting_next_of(waiting, RUN_BATCH);
}

static void each_in(run_line *line, void (*look)(void *arg, run_turn *turn), void *arg)
{
    run_turn *after;
    for (run_turn *turn = line->first; turn; turn = after) {
        after = turn->standing.after;
        look(arg, turn);
    }
}

void run_waiting_each(run_waiting *waiting, void (*look)(void *arg, run_turn *turn), void *arg)
{
    run_fair *fair = &waiting->fair;
    for (int class = 0; class < RUN_PRIORITIES; class ++) {
        if (waiting->n[class] == 0)
            continue;
        each_in(&waiting->front[class], look, arg);
        each_in(&fair->others.line[class], look, arg);
        for (size_t i = 0; i < fair->n_accounts; i++)
            each_in(&fair->accounts[i]->line[class], look, arg);
    }
}
