/*
 * queue_test.c - order, bounds, closing and many threads. Also run under TSan.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/queue.h"

enum { PRODUCERS = 3, CONSUMERS = 3, ITEMS = 5000 };

static int numbers[PRODUCERS * ITEMS];

static void order_and_bounds(void **state)
{
    (void)state;
    queue *q = queue_open(3);
    for (int round = 0; round < 5; round++) { /* the ring wraps */
        assert_true(queue_push(q, &numbers[0]));
        assert_true(queue_push(q, &numbers[1]));
        assert_ptr_equal(queue_pop(q, 0), &numbers[0]);
        assert_true(queue_push(q, &numbers[2]));
        assert_true(queue_push(q, &numbers[3]));
        assert_false(queue_push(q, &numbers[4]));
        assert_int_equal(queue_size(q), 3);
        for (int i = 1; i <= 3; i++)
            assert_ptr_equal(queue_pop(q, -1), &numbers[i]);
        assert_int_equal(queue_size(q), 0);
        assert_null(queue_pop(q, 0));
    }
    queue_free(q);
    queue_free(NULL);
}

static void nothing_fits_into_none(void **state)
{
    (void)state;
    queue *q = queue_open(0);
    assert_false(queue_push(q, &numbers[0]));
    assert_null(queue_pop(q, 0));
    queue_free(q);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void waits_no_longer_than_asked(void **state)
{
    (void)state;
    queue *q = queue_open(1);
    int64_t before = now_ms();
    assert_null(queue_pop(q, 50));
    assert_in_range(now_ms() - before, 49, 5000);
    queue_free(q);
}

static void closed_hands_out_the_rest(void **state)
{
    (void)state;
    queue *q = queue_open(3);
    assert_true(queue_push(q, &numbers[0]));
    assert_true(queue_push(q, &numbers[1]));
    queue_close(q);
    queue_close(q);
    assert_false(queue_push(q, &numbers[2]));
    assert_ptr_equal(queue_pop(q, -1), &numbers[0]);
    assert_ptr_equal(queue_pop(q, 100), &numbers[1]);
    assert_null(queue_pop(q, -1)); /* at once */
    queue_free(q);
}

static void *wait_for_one(void *q)
{
    return queue_pop(q, -1);
}

static void close_wakes_all(void **state)
{
    (void)state;
    pthread_t threads[CONSUMERS];
    queue *q = queue_open(1);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_one, q), 0);
    usleep(20000);
    queue_close(q);
    for (int i = 0; i < CONSUMERS; i++) {
        void *item = &numbers[0];
        pthread_join(threads[i], &item);
        assert_null(item);
    }
    queue_free(q);
}

typedef struct player {
    queue *q;
    int which;
    atomic_int *seen;     /* how often each item came out                */
    atomic_int *disorder; /* an item came before an older one of its own */
} player;

static void *produce(void *arg)
{
    player *p = arg;
    for (int i = 0; i < ITEMS; i++)
        while (!queue_push(p->q, &numbers[p->which * ITEMS + i]))
            usleep(50);
    return NULL;
}

static void *consume(void *arg)
{
    player *p = arg;
    int last[PRODUCERS];
    for (int i = 0; i < PRODUCERS; i++)
        last[i] = -1;
    int *item;
    while ((item = queue_pop(p->q, -1)) != NULL) {
        int n = (int)(item - numbers);
        atomic_fetch_add(&p->seen[n], 1);
        if (last[n / ITEMS] >= n)
            atomic_fetch_add(p->disorder, 1);
        last[n / ITEMS] = n;
    }
    return NULL;
}

/* Each item comes out once; one consumer sees a producer's in their order. */
static void many_threads(void **state)
{
    (void)state;
    static atomic_int seen[PRODUCERS * ITEMS];
    atomic_int disorder = 0;
    pthread_t threads[PRODUCERS + CONSUMERS];
    player players[PRODUCERS + CONSUMERS];
    queue *q = queue_open(7);
    for (int i = 0; i < PRODUCERS + CONSUMERS; i++) {
        players[i] = (player){q, i, seen, &disorder};
        assert_int_equal(
            pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, &players[i]), 0);
    }
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    queue_close(q);
    for (int i = PRODUCERS; i < PRODUCERS + CONSUMERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < PRODUCERS * ITEMS; i++)
        assert_int_equal(atomic_load(&seen[i]), 1);
    assert_int_equal(atomic_load(&disorder), 0);
    queue_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_bounds),
        cmocka_unit_test(nothing_fits_into_none),
        cmocka_unit_test(waits_no_longer_than_asked),
        cmocka_unit_test(closed_hands_out_the_rest),
        cmocka_unit_test(close_wakes_all),
        cmocka_unit_test(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
