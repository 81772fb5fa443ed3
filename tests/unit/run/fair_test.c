/*
 * unit/run/fair_test.c - accounts: lifts, debts, and what happens when there are too many.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/fair.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A turn that is nothing but its key and its class. */
static run_turn *new_turn(int key, enum run_priority priority)
{
    run_turn *turn = calloc(1, sizeof *turn);
    turn->request = calloc(1, sizeof *turn->request);
    snprintf(turn->request->caller.key, sizeof turn->request->caller.key, "k%d", key);
    turn->standing.priority = priority;
    return turn;
}

static void free_turn(run_turn *turn)
{
    free(turn->request);
    free(turn);
}

static uint64_t served(const run_turn *turn)
{
    return turn->standing.account->served[turn->standing.priority];
}

static void test_lift(void **state)
{
    (void)state;
    run_fair fair;
    run_turn *a = new_turn(1, RUN_INTERACTIVE), *b = new_turn(2, RUN_INTERACTIVE);
    run_turn *c = new_turn(3, RUN_INTERACTIVE), *batch = new_turn(3, RUN_BATCH);
    run_fair_init(&fair);
    run_fair_enter(&fair, a);
    run_fair_charge(a, 1000);
    run_fair_enter(&fair, b);
    assert_int_equal(served(b), 1000); /* lifted to the only other one */
    run_fair_charge(b, 500);
    run_fair_enter(&fair, c);
    assert_int_equal(served(c), 1000); /* to the smallest */
    run_fair_enter(&fair, batch);
    assert_int_equal(served(batch), 0); /* the classes count apart */
    run_fair_leave(&fair, b);
    run_fair_charge(a, 100);
    run_fair_enter(&fair, b);
    assert_int_equal(served(b), 1500); /* nor is a debt forgotten */
    run_fair_leave(&fair, a);
    run_fair_leave(&fair, b);
    run_fair_leave(&fair, c);
    run_turn *d = new_turn(4, RUN_INTERACTIVE);
    run_fair_enter(&fair, d);
    assert_int_equal(served(d), 1000); /* nobody is there: as the last that was */
    run_fair_leave(&fair, d);
    run_fair_leave(&fair, batch);
    run_fair_clear(&fair);
    free_turn(a), free_turn(b), free_turn(c), free_turn(d), free_turn(batch);
}

static void test_too_many_keys(void **state)
{
    (void)state;
    enum { N = RUN_MAX_ACCOUNTS + 50 };
    static run_turn *turns[N];
    run_fair fair;
    run_fair_init(&fair);
    for (int i = 0; i < N; i++) {
        turns[i] = new_turn(i, RUN_INTERACTIVE);
        run_fair_enter(&fair, turns[i]);
    }
    for (int i = 0; i < N; i++)
        run_fair_charge(turns[i], (uint64_t)(2 * N - i));
    assert_int_equal(fair.n_accounts, RUN_MAX_ACCOUNTS);
    assert_ptr_equal(turns[N - 1]->standing.account, &fair.others);
    assert_ptr_equal(turns[N - 2]->standing.account, &fair.others);
    for (int i = 0; i < N; i++)
        run_fair_leave(&fair, turns[i]);
    /* A new key takes the account of the one that owes least. */
    run_turn *turn = new_turn(N, RUN_INTERACTIVE);
    run_fair_enter(&fair, turn);
    assert_int_equal(fair.n_accounts, RUN_MAX_ACCOUNTS);
    assert_ptr_equal(turn->standing.account, fair.accounts[RUN_MAX_ACCOUNTS - 1]);
    run_fair_leave(&fair, turn);
    run_fair_clear(&fair);
    free_turn(turn);
    for (int i = 0; i < N; i++)
        free_turn(turns[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lift),
        cmocka_unit_test(test_too_many_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
