/*
 * unit/run/chunk_test.c - the size of a prompt's parts, by what passes took.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/chunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS 1000000

static uint64_t limit_after(int64_t pass, int64_t with_prompt, uint64_t n_prompt)
{
    run_chunk chunk;
    run_chunk_init(&chunk);
    for (int i = 0; i < 50; i++) {
        run_chunk_note(&chunk, 0, pass);
        run_chunk_note(&chunk, n_prompt, with_prompt);
    }
    return run_chunk_limit(&chunk);
}

static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(limit_after(10 * MS, 12 * MS, 512), RUN_STEP_TOKENS); /* no matter */
    assert_int_equal(limit_after(20 * MS, 120 * MS, 512), 192);            /* 204 fit in 40 ms */
    assert_int_equal(limit_after(26 * MS, 1900 * MS, 512), RUN_LEAST_CHUNK);
    assert_int_equal(limit_after(10 * MS, 5 * MS, 512), RUN_STEP_TOKENS); /* nonsense is free */
    assert_int_equal(limit_after(0, INT64_MAX, 1), RUN_LEAST_CHUNK);
    assert_int_equal(limit_after(INT64_MAX, INT64_MAX, 512), RUN_STEP_TOKENS);
    assert_int_equal(limit_after(-5, -5, 512), RUN_STEP_TOKENS);
}

static void test_nothing_known(void **state)
{
    (void)state;
    run_chunk chunk;
    run_chunk_init(&chunk);
    uint64_t limit = run_chunk_limit(&chunk);
    assert_true(limit >= RUN_LEAST_CHUNK && limit < RUN_STEP_TOKENS);
    run_chunk_note(&chunk, 512, 1000 * MS); /* a prompt alone tells nothing yet */
    assert_int_equal(run_chunk_limit(&chunk), limit);
}

/* One pass that the machine was busy in is not the rule. */
static void test_one_outlier(void **state)
{
    (void)state;
    run_chunk chunk;
    run_chunk_init(&chunk);
    for (int i = 0; i < 20; i++) {
        run_chunk_note(&chunk, 0, 20 * MS);
        run_chunk_note(&chunk, 256, 70 * MS);
    }
    uint64_t before = run_chunk_limit(&chunk);
    run_chunk_note(&chunk, 256, 140 * MS);
    assert_true(run_chunk_limit(&chunk) * 2 > before);
    for (int i = 0; i < 40; i++)
        run_chunk_note(&chunk, 256, 70 * MS);
    assert_true(run_chunk_limit(&chunk) + 32 >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_one_outlier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
