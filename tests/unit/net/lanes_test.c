/*
 * lanes_test.c - order, parallelism, limits and memory of a socket's lanes.
 *
 * Requests are numbers here; lanes never look inside.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/lanes.h"

static int dropped;

static void drop(void *request)
{
    (void)request;
    dropped++;
}

static int numbers[1000]; /* requests: their addresses */

static enum lanes_answer add(lanes *all, const char *name, int number)
{
    return lanes_add(all, name, &numbers[number], 1);
}

/* The number of the request that may run, and its lane; -1: none. */
static int next(lanes *all, lane **of)
{
    int *request = lanes_next(all, of);
    return request ? (int)(request - numbers) : -1;
}

static void one_lane_is_a_queue(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    lane *l;
    assert_int_equal(next(all, &l), -1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(add(all, NULL, i), LANES_ADDED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next(all, &l), i);
        assert_null(lanes_name(l));
        lane *other;
        assert_int_equal(next(all, &other), -1);
        lanes_done(all, l);
    }
    assert_int_equal(next(all, &l), -1);
    lanes_close(all);
}

static void lanes_run_side_by_side(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    lane *a, *b, *c;
    add(all, "a", 0);
    add(all, "b", 1);
    add(all, "a", 2);
    add(all, NULL, 3);
    assert_int_equal(next(all, &a), 0);
    assert_int_equal(next(all, &b), 1);
    assert_string_equal(lanes_name(b), "b");
    assert_int_equal(next(all, &c), 3);
    assert_ptr_equal(lanes_find(all, "a"), a);
    assert_ptr_equal(lanes_find(all, NULL), c);
    assert_null(lanes_find(all, "z"));
    assert_int_equal(next(all, &c), -1);
    lanes_done(all, a);
    assert_int_equal(next(all, &c), 2);
    dropped = 0;
    add(all, "a", 4);
    lanes_close(all);
    assert_int_equal(dropped, 1);
}

static void the_oldest_goes_first_when_a_place_is_free(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    lane *running[LANES_MAX_RUNNING], *l;
    char name[16];
    for (int i = 0; i < LANES_MAX_RUNNING; i++) {
        snprintf(name, sizeof name, "r%d", i);
        add(all, name, i);
        assert_int_equal(next(all, &running[i]), i);
    }
    add(all, "y", 100);
    add(all, "x", 101);
    add(all, "r3", 102);
    assert_int_equal(next(all, &l), -1);
    lanes_done(all, running[3]);
    assert_int_equal(next(all, &l), 100);
    lanes_done(all, running[0]);
    assert_int_equal(next(all, &l), 101);
    lanes_done(all, l);
    assert_int_equal(next(all, &l), 102);
    lanes_close(all);
}

static void named_lanes_have_a_limit(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    lane *l;
    char name[16];
    for (int i = 0; i < LANES_MAX_NAMED; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(add(all, name, i), LANES_ADDED);
        assert_int_equal(next(all, &l), i);
        lanes_done(all, l);
    }
    assert_int_equal(add(all, "one-more", 50), LANES_TOO_MANY);
    assert_int_equal(add(all, "n7", 51), LANES_ADDED);
    assert_int_equal(add(all, NULL, 52), LANES_ADDED);
    lanes_close(all);
}

static void waiting_has_a_limit(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    lane *l, *m;
    add(all, "busy", 0);
    next(all, &l);
    for (int i = 0; i < LANES_MAX_WAITING; i++)
        assert_int_equal(add(all, "busy", i + 1), LANES_ADDED);
    assert_int_equal(add(all, "busy", 100), LANES_QUEUE_FULL);
    assert_int_equal(add(all, "idle", 101), LANES_ADDED); /* it does not wait */
    assert_int_equal(next(all, &m), 101);
    lanes_done(all, l);
    next(all, &l);
    assert_int_equal(add(all, "busy", 102), LANES_ADDED);
    dropped = 0;
    lanes_drop_waiting(all);
    assert_int_equal(dropped, LANES_MAX_WAITING);
    assert_int_equal(lanes_add(all, "busy", numbers, LANES_MAX_WAITING_BYTES - 1), LANES_ADDED);
    assert_int_equal(lanes_add(all, "busy", numbers, 2), LANES_QUEUE_FULL);
    assert_int_equal(lanes_add(all, "busy", numbers, SIZE_MAX), LANES_QUEUE_FULL);
    assert_int_equal(lanes_add(all, "busy", numbers, 1), LANES_ADDED);
    lanes_close(all);
}

static run_record *record(const char *id, const char *status)
{
    run_record *r = run_record_new();
    assert_non_null(r);
    r->id = strdup(id);
    r->status = status;
    return r;
}

static void remember(lanes *all, lane *l, const char *id, const char *status)
{
    run_record *r = record(id, status);
    lanes_remember(all, l, r);
    run_record_release(r);
}

static void remembers_what_may_be_continued(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    lane *l = lanes_find(all, NULL);
    remember(all, l, "resp_1", "completed");
    remember(all, l, "resp_2", "incomplete");
    remember(all, l, "resp_3", "failed");
    remember(all, l, "resp_4", "cancelled");
    lanes_remember(all, l, NULL);
    assert_non_null(lanes_recall(all, "resp_1"));
    assert_string_equal(lanes_recall(all, "resp_2")->id, "resp_2");
    assert_null(lanes_recall(all, "resp_3"));
    assert_null(lanes_recall(all, "resp_4"));
    lanes_close(all);
}

static void forgets_on_its_own_lane_only(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    add(all, "a", 0);
    lane *l = lanes_find(all, NULL), *a = lanes_find(all, "a");
    remember(all, a, "resp_a", "completed");
    lanes_forget(all, l, "resp_a");
    assert_non_null(lanes_recall(all, "resp_a"));
    lanes_forget(all, a, "resp_b");
    lanes_forget(all, a, "resp_a");
    assert_null(lanes_recall(all, "resp_a"));
    lanes_close(all);
}

/* The memory is bounded, and the latest of every lane is never pushed out. */
static void the_latest_of_a_lane_stays(void **state)
{
    (void)state;
    lanes *all = lanes_open(drop);
    add(all, "a", 0);
    add(all, "b", 1);
    lane *a = lanes_find(all, "a"), *b = lanes_find(all, "b");
    char id[24];
    remember(all, a, "resp_a", "completed");
    for (int i = 0; i < 3 * LANES_MAX_RECORDS; i++) {
        snprintf(id, sizeof id, "resp_%d", i);
        remember(all, b, id, "completed");
    }
    assert_non_null(lanes_recall(all, "resp_a"));
    assert_non_null(lanes_recall(all, id));
    assert_null(lanes_recall(all, "resp_0"));
    size_t kept = 0;
    for (int i = 0; i < 3 * LANES_MAX_RECORDS; i++) {
        snprintf(id, sizeof id, "resp_%d", i);
        kept += lanes_recall(all, id) != NULL;
    }
    assert_int_equal(kept, LANES_MAX_RECORDS - 1);
    lanes_close(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_lane_is_a_queue),
        cmocka_unit_test(lanes_run_side_by_side),
        cmocka_unit_test(the_oldest_goes_first_when_a_place_is_free),
        cmocka_unit_test(named_lanes_have_a_limit),
        cmocka_unit_test(waiting_has_a_limit),
        cmocka_unit_test(remembers_what_may_be_continued),
        cmocka_unit_test(forgets_on_its_own_lane_only),
        cmocka_unit_test(the_latest_of_a_lane_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
