/*
 * pace_test.c - how long those are told to wait who were refused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/pace.h"

static void follows_the_queue_and_the_turns(void **state)
{
    (void)state;
    run_pace pace;
    run_pace_init(&pace);
    assert_int_equal(run_pace_wait(&pace, 256, 16), 1); /* nothing is known */
    run_pace_note(&pace, 8000);
    int few = run_pace_wait(&pace, 16, 16), many = run_pace_wait(&pace, 256, 16);
    assert_in_range(few, 2, 4);    /* 4 + 1 turns of 8 s, 16 at once */
    assert_in_range(many, 32, 34); /* 64 + 1                         */
    assert_true(run_pace_wait(&pace, 256, 4) > many);
    for (int i = 0; i < 100; i++)
        run_pace_note(&pace, 100);
    assert_in_range(run_pace_wait(&pace, 256, 16), 1, 2);
}

static void has_bounds(void **state)
{
    (void)state;
    run_pace pace;
    run_pace_init(&pace);
    run_pace_note(&pace, UINT64_MAX);
    assert_int_equal(run_pace_wait(&pace, UINT32_MAX, 1), RUN_PACE_LONGEST);
    assert_int_equal(run_pace_wait(&pace, UINT32_MAX, 0), RUN_PACE_LONGEST);
    assert_in_range(run_pace_wait(&pace, 0, UINT32_MAX), 1, 2);
    for (int i = 0; i < 1000; i++)
        run_pace_note(&pace, 0);
    assert_int_equal(run_pace_wait(&pace, 10, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_queue_and_the_turns),
        cmocka_unit_test(has_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
