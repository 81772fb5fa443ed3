/*
 * queues_test.c - the out-queue of a connection and the inbox of the loop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "net/inbox.h"
#include "net/outq.h"

static void out_in_order(void **state)
{
    (void)state;
    outq q;
    size_t size;
    outq_init(&q);
    assert_null(outq_first(&q, &size));
    outq_pop(&q);
    assert_true(outq_push(&q, "one", 3));
    assert_true(outq_push(&q, "", 0));
    assert_true(outq_push(&q, "three", 5));
    assert_int_equal(q.bytes, 8);
    unsigned char *data = outq_first(&q, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(data, "one", 3);
    memset(data - OUTQ_HEADROOM, 'x', OUTQ_HEADROOM);
    outq_pop(&q);
    outq_first(&q, &size);
    assert_int_equal(size, 0);
    outq_pop(&q);
    assert_memory_equal(outq_first(&q, &size), "three", 5);
    outq_pop(&q);
    assert_null(outq_first(&q, &size));
    assert_int_equal(q.bytes, 0);
    assert_true(outq_push(&q, "again", 5));
    outq_clear(&q);
    assert_int_equal(q.bytes, 0);
}

static void out_has_a_limit(void **state)
{
    (void)state;
    outq q;
    size_t size = OUTQ_MAX + 10;
    char *large = calloc(1, size);
    outq_init(&q);
    assert_true(outq_push(&q, "x", 1));
    assert_true(outq_push(&q, large, size)); /* one may be larger than all */
    assert_false(outq_push(&q, "x", 1));
    outq_pop(&q);
    assert_false(outq_push(&q, "x", 1));
    outq_pop(&q);
    assert_true(outq_push(&q, "x", 1));
    outq_clear(&q);
    free(large);
}

typedef struct parcel {
    inbox_item item;
    int from;
    int number;
} parcel;

static int next_of[2];   /* the number that is due of each sender; loop only */
static int n_delivered;  /* loop only                                        */
static atomic_int wakes; /* how often the loop was woken                     */

static void wake(void *arg)
{
    (void)arg;
    atomic_fetch_add(&wakes, 1);
}

static void deliver(inbox_item *item)
{
    parcel *p = (parcel *)item;
    assert_int_equal(p->number, next_of[p->from]);
    next_of[p->from]++;
    n_delivered++;
    free(p);
}

typedef struct sender {
    inbox *box;
    int number;
    int count;
} sender;

static void *send_all(void *arg)
{
    sender *s = arg;
    for (int i = 0; i < s->count; i++) {
        parcel *p = calloc(1, sizeof *p);
        *p = (parcel){.item.deliver = deliver, .from = s->number, .number = i};
        if (!inbox_push(s->box, &p->item, true))
            free(p);
    }
    return NULL;
}

static void in_from_two_threads(void **state)
{
    (void)state;
    inbox box;
    pthread_t threads[2];
    sender senders[2];
    inbox_init(&box, wake, NULL);
    for (int i = 0; i < 2; i++) {
        senders[i] = (sender){&box, i, 20000};
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    }
    while (n_delivered < 40000)
        inbox_drain(&box);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&wakes) >= 1);
    inbox_clear(&box);
}

static void in_wakes_once_and_has_a_limit(void **state)
{
    (void)state;
    inbox box;
    size_t taken = 0;
    inbox_init(&box, wake, NULL);
    atomic_store(&wakes, 0);
    next_of[0] = 0;
    for (int i = 0; i < (int)INBOX_MAX + 1; i++) {
        parcel *p = calloc(1, sizeof *p);
        *p = (parcel){.item.deliver = deliver, .number = i};
        if (inbox_push(&box, &p->item, false))
            taken++;
        else
            free(p);
    }
    assert_int_equal(taken, INBOX_MAX);
    assert_int_equal(atomic_load(&wakes), 1);
    parcel *last = calloc(1, sizeof *last);
    *last = (parcel){.item.deliver = deliver, .number = (int)INBOX_MAX};
    assert_true(inbox_push(&box, &last->item, true));
    n_delivered = 0;
    inbox_drain(&box);
    assert_int_equal(n_delivered, INBOX_MAX + 1);
    inbox_clear(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_in_order),
        cmocka_unit_test(out_has_a_limit),
        cmocka_unit_test(in_from_two_threads),
        cmocka_unit_test(in_wakes_once_and_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
