/*
 * unit/run/places_test.c - how many may wait: of one key, of all.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static run_caller caller(const char *tenant, const char *key, const char *name)
{
    run_caller c = RUN_NOBODY;
    snprintf(c.tenant, sizeof c.tenant, "%s", tenant);
    snprintf(c.key, sizeof c.key, "%s", key);
    snprintf(c.name, sizeof c.name, "%s", name);
    return c;
}

static void test_bounds(void **state)
{
    (void)state;
    run_caller a = caller("t", "a", "x"), b = caller("t", "b", "x"), other = caller("u", "a", "x");
    run_places *p = run_places_open(10, 4);
    assert_int_equal(run_places_take(p, &a, 3), RUN_PLACED);
    assert_int_equal(run_places_take(p, &a, 2), RUN_KEY_FULL); /* all or none */
    assert_int_equal(run_places_take(p, &a, 1), RUN_PLACED);
    assert_int_equal(run_places_take(p, &a, 1), RUN_KEY_FULL);
    assert_int_equal(run_places_take(p, &b, 4), RUN_PLACED);
    assert_int_equal(run_places_take(p, &other, 3), RUN_QUEUE_FULL);
    assert_int_equal(run_places_taken(p, NULL), 8);
    assert_int_equal(run_places_taken(p, &other), 0);
    assert_int_equal(run_places_take(p, &other, 2), RUN_PLACED);
    assert_int_equal(run_places_taken(p, &a), 4);
    run_places_give(p, &a, 4);
    assert_int_equal(run_places_take(p, &a, 1), RUN_PLACED);
    assert_int_equal(run_places_take(p, &a, 9), RUN_KEY_FULL);
    run_places_give(p, &a, 1);
    run_places_give(p, &b, 4);
    run_places_give(p, &other, 2);
    assert_int_equal(run_places_taken(p, NULL), 0);
    run_places_close(p);
}

/* Keys that are not stored have no id: their names tell them apart. */
static void test_keys_of_a_file(void **state)
{
    (void)state;
    run_caller one = caller("", "", "keys line 1"), two = caller("", "", "keys line 2");
    run_places *p = run_places_open(10, 2);
    assert_int_equal(run_places_take(p, &one, 2), RUN_PLACED);
    assert_int_equal(run_places_take(p, &one, 1), RUN_KEY_FULL);
    assert_int_equal(run_places_take(p, &two, 2), RUN_PLACED);
    run_places_close(p);
}

static void test_nobody_has_the_queue(void **state)
{
    (void)state;
    run_caller nobody = RUN_NOBODY;
    run_places *p = run_places_open(10, 2);
    assert_int_equal(run_places_take(p, &nobody, 10), RUN_PLACED);
    assert_int_equal(run_places_take(p, &nobody, 1), RUN_QUEUE_FULL);
    run_places_close(p);
}

static void test_share_by_default(void **state)
{
    (void)state;
    run_caller a = caller("t", "a", "x");
    run_places *p = run_places_open(256, 0);
    assert_int_equal(run_places_take(p, &a, 65), RUN_KEY_FULL);
    assert_int_equal(run_places_take(p, &a, 64), RUN_PLACED);
    run_places_close(p);
    p = run_places_open(10, 0); /* a quarter would be two */
    assert_int_equal(run_places_take(p, &a, RUN_LEAST_KEY_PLACES), RUN_PLACED);
    assert_int_equal(run_places_take(p, &a, 1), RUN_KEY_FULL);
    run_places_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_keys_of_a_file),
        cmocka_unit_test(test_nobody_has_the_queue),
        cmocka_unit_test(test_share_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
