/*
 * unit/run/scheduling_test.c - who is served before whom: classes, keys, ageing, marks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "driven.h"
#include "run/chunk.h"

static void test_interactive_before_batch(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 20);
    driven_turn *running = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 1);
    driven_turn *batch = driven_start(d, "a", RUN_BATCH, 20, 0);
    driven_turn *second = driven_start(d, "b", RUN_BATCH, 20, 0);
    driven_turn *interactive = driven_start(d, "c", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 1);
    assert_int_equal(driven_measure(d, MEASURE_WAITING_INTERACTIVE), 1);
    assert_int_equal(driven_measure(d, MEASURE_WAITING_BATCH), 2);
    assert_int_equal(run_scheduler_waiting(d->scheduler, NULL), 3);
    driven_finish(d);
    assert_true(running->ended < interactive->began);
    assert_true(interactive->ended < batch->began);
    assert_true(batch->ended < second->began);
    driven_close(d);
}

/* One key floods, another asks as well: each gets half of what is served. */
static void test_keys_share(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 20);
    driven_turn *flood[60], *other[20];
    for (int i = 0; i < 60; i++)
        flood[i] = driven_start(d, "flood", RUN_INTERACTIVE, 50, 0);
    driven_rounds(d, 100);
    for (int i = 0; i < 20; i++)
        other[i] = driven_start(d, "other", RUN_INTERACTIVE, 50, 0);
    int before = 0, between = 0;
    for (int i = 0; i < 60; i++)
        before += flood[i]->began > 0;
    driven_finish(d);
    for (int i = 0; i < 60; i++)
        between += flood[i]->began > 0 && flood[i]->began < other[19]->began;
    between -= before;
    print_message("while 20 turns of one key were served, %d of the other were\n", between);
    assert_in_range(between, 17, 23);
    driven_close(d);
}

/* What counts is tokens, not turns. */
static void test_tokens_count(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 0);
    driven_turn *large[20], *small[60];
    for (int i = 0; i < 20; i++)
        large[i] = driven_start(d, "large", RUN_INTERACTIVE, 1000, 1);
    for (int i = 0; i < 60; i++)
        small[i] = driven_start(d, "small", RUN_INTERACTIVE, 100, 1);
    driven_finish(d);
    int between = 0;
    for (int i = 0; i < 20; i++)
        between += large[i]->began < small[59]->began;
    print_message("while 60 small turns were served, %d large ones were\n", between);
    assert_in_range(between, 5, 7);
    driven_close(d);
}

/* Who was away has no credit for it. */
static void test_idle_key_has_no_credit(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 20);
    driven_turn *away = driven_start(d, "away", RUN_INTERACTIVE, 50, 0);
    driven_finish(d);
    for (int i = 0; i < 100; i++)
        driven_start(d, "busy", RUN_INTERACTIVE, 50, 0);
    while (!d->turns[50].ended)
        driven_rounds(d, 1);
    driven_turn *back[20];
    for (int i = 0; i < 20; i++)
        back[i] = driven_start(d, "away", RUN_INTERACTIVE, 50, 0);
    driven_finish(d);
    int between = 0;
    for (int i = 51; i <= 100; i++)
        between += d->turns[i].ended < back[9]->ended;
    print_message("before the 10th turn of the key that was away, %d of the busy one ended\n",
                  between);
    assert_true(away->ended && between >= 8 && between <= 12);
    driven_close(d);
}

/* Prompts share a step's budget by key: a long one does not keep a short one waiting. */
static void test_short_prompt_beside_long(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 4, 20);
    driven_turn *streaming = driven_start(d, "c", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 2);
    driven_turn *large = driven_start(d, "a", RUN_INTERACTIVE, 3500, 0);
    driven_rounds(d, 2);
    driven_turn *small = driven_start(d, "b", RUN_INTERACTIVE, 200, 0);
    driven_rounds(d, 2);
    assert_true(small->turn->n_tokens > 200);
    uint64_t before = streaming->turn->n_tokens;
    for (uint64_t i = 1; i < 4; i++) { /* while the long one goes on, every step brings a token */
        driven_rounds(d, 1);
        assert_int_equal(large->turn->n_tokens, 3500);
        assert_int_equal(streaming->turn->n_tokens, before + i);
    }
    driven_finish(d);
    driven_close(d);
}

/* Where a prompt's tokens are dear, a long one is taken in small parts while an interactive
 * reply is generated, and in large ones while only a batch turn waits for its tokens. */
static void test_stream_beside_long_prompt(void **state)
{
    (void)state;
    for (int batch = 0; batch < 2; batch++) {
        driven *d = driven_open(10000, 4, 300);
        d->token_ns = PASS_NS / 40;
        driven_turn *stream = driven_start(d, "a", batch ? RUN_BATCH : RUN_INTERACTIVE, 20, 0);
        driven_rounds(d, 5);
        driven_turn *large = driven_start(d, "b", RUN_INTERACTIVE, 3500, 0);
        int64_t longest = 0;
        int n_passes = 0;
        for (; large->turn->n_tokens == 3500; n_passes++) {
            int64_t before = d->ns;
            uint64_t n_tokens = stream->turn->n_tokens;
            driven_rounds(d, 1);
            assert_int_equal(stream->turn->n_tokens, n_tokens + 1);
            if (n_passes > 0 && d->ns - before > longest) /* the first is where it learns */
                longest = d->ns - before;
        }
        print_message("%d passes, the longest took %lld passes' time\n", n_passes,
                      (long long)(longest / PASS_NS));
        if (batch)
            assert_int_equal(n_passes, 8); /* of 511 tokens, one of 4 up to the save point */
        else
            assert_true(longest <= RUN_STRETCH * PASS_NS && n_passes < 3500 / 32);
        driven_finish(d);
        driven_close(d);
    }
}

/* However much of the other class comes, a batch turn ends one day. */
static void test_batch_is_not_starved(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 2, 40);
    driven_turn *batch = NULL;
    int n = 0;
    for (; (!batch || !batch->ended) && n < DRIVEN_TURNS - 1; n++) {
        driven_start(d, n % 2 ? "a" : "b", RUN_INTERACTIVE, 50, 0);
        if (n == 10)
            batch = driven_start(d, "c", RUN_BATCH, 50, 0);
        d->ns += RUN_STARVED_NS / 100;
        driven_rounds(d, 20); /* as much comes as is served */
    }
    print_message("the batch turn ended when %d others had come\n", n);
    assert_true(n > 50 && n < DRIVEN_TURNS - 1);
    assert_true(batch->turn->standing.raised);
    driven_finish(d);
    driven_close(d);
}

/* Time in which nobody was there is no time of waiting. */
static void test_batch_does_not_starve_before_it_comes(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 20);
    driven_start(d, "a", RUN_BATCH, 20, 0);
    driven_finish(d);
    d->ns += 2 * RUN_STARVED_NS;
    driven_turn *batch = driven_start(d, "a", RUN_BATCH, 20, 0);
    driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_finish(d);
    assert_false(batch->turn->standing.raised);
    driven_close(d);
}

/* Choices that are cancelled together need no pass, although one of them waits for the other. */
static void test_cancelled_choices_run_nothing(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 2, 20);
    driven_turn *first = driven_make(d, "a", RUN_INTERACTIVE, 20, 0, NULL);
    driven_turn *second = driven_make(d, "a", RUN_INTERACTIVE, 20, 0, NULL);
    first->turn->next = second->turn;
    run_cancel(first->turn);
    run_cancel(second->turn);
    assert_true(run_scheduler_submit(d->scheduler, first->turn));
    driven_finish(d);
    assert_true(first->ended && second->ended && !second->began);
    assert_int_equal(d->engine.submits, 0);
    driven_close(d);
}

/* Those that gave way hold no place in the queue; they are bounded nevertheless. */
static void test_demoted_turns_do_not_pile_up(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 200);
    uint32_t most = 0;
    for (int i = 0; i < 60; i++) {
        driven_turn *t = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
        for (int k = 0; k < 400 && !t->began; k++) {
            driven_rounds(d, 1);
            uint32_t waiting = run_scheduler_waiting(d->scheduler, NULL);
            most = waiting > most ? waiting : most;
        }
        run_demote(t->turn); /* it has begun, and whoever asked is gone */
    }
    assert_in_range(most, 2, 4); /* 3 that gave way, of one sequence, and a new one */
    driven_finish(d);
    driven_close(d);
}

static void test_demoted_turn_waits(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 20);
    driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 1);
    driven_turn *first = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_turn *second = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 1);
    run_demote(first->turn);
    driven_finish(d);
    assert_true(second->ended < first->began);
    driven_close(d);
}

/* A running turn that is demoted gives its sequence to an interactive one. */
static void test_demoted_turn_gives_way(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 50);
    driven_turn *first = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 5);
    driven_turn *second = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 5);
    assert_int_equal(second->began, 0);
    run_demote(first->turn);
    driven_rounds(d, 1);
    assert_true(second->began);
    driven_finish(d);
    assert_true(second->ended < first->ended);
    assert_int_equal(first->turn->standing.preempted, 1);
    driven_close(d);
}

static void test_cancelled_anywhere(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 1, 50);
    driven_turn *batch = driven_start(d, "a", RUN_BATCH, 20, 0);
    driven_rounds(d, 5);
    driven_turn *running = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_turn *waiting[4];
    for (int i = 0; i < 4; i++)
        waiting[i] = driven_start(d, i % 2 ? "a" : "b", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 5);
    assert_int_equal(batch->turn->standing.preempted, 1);
    run_cancel(waiting[2]->turn);
    driven_rounds(d, 1);
    assert_string_equal(waiting[2]->status, "cancelled");
    assert_int_equal(waiting[2]->began, 0);
    run_cancel(batch->turn);
    driven_rounds(d, 1);
    assert_string_equal(batch->status, "cancelled");
    assert_true(batch->n_tokens > 20); /* with what it had */
    assert_int_equal(running->ended, 0);
    assert_int_equal(run_scheduler_waiting(d->scheduler, NULL), 3);
    driven_finish(d);
    assert_string_equal(running->status, "completed");
    assert_int_equal(run_scheduler_waiting(d->scheduler, NULL), 0);
    driven_close(d);
}

static void test_many_keys(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 4, 3);
    for (int i = 0; i < DRIVEN_TURNS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        driven_start(d, key, i % 3 ? RUN_INTERACTIVE : RUN_BATCH, 10, 0);
    }
    driven_finish(d);
    driven_close(d);
}

static uint64_t play(void)
{
    driven *d = driven_open(60, 3, 30);
    unsigned seed = 7;
    for (int i = 0; i < 120; i++) {
        unsigned r = (seed = seed * 1664525u + 1013904223u) >> 8;
        char key[2] = {(char)('a' + r % 5), '\0'};
        driven_turn *t =
            driven_start(d, key, r % 3 ? RUN_INTERACTIVE : RUN_BATCH, 10 + r % 200, 1 + r % 90);
        if (r % 11 == 0)
            run_cancel(t->turn);
        if (r % 7 == 0)
            run_demote(t->turn);
        driven_rounds(d, (int)(r % 9));
    }
    driven_finish(d);
    assert_true(driven_measure(d, MEASURE_PREEMPTIONS) > 0);
    uint64_t log = d->log;
    driven_close(d);
    return log;
}

static void test_same_again(void **state)
{
    (void)state;
    uint64_t first = play();
    void *moved = malloc(100000); /* addresses differ, the schedule does not */
    assert_int_equal(play(), first);
    free(moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interactive_before_batch),
        cmocka_unit_test(test_keys_share),
        cmocka_unit_test(test_tokens_count),
        cmocka_unit_test(test_idle_key_has_no_credit),
        cmocka_unit_test(test_short_prompt_beside_long),
        cmocka_unit_test(test_stream_beside_long_prompt),
        cmocka_unit_test(test_batch_is_not_starved),
        cmocka_unit_test(test_batch_does_not_starve_before_it_comes),
        cmocka_unit_test(test_cancelled_choices_run_nothing),
        cmocka_unit_test(test_demoted_turns_do_not_pile_up),
        cmocka_unit_test(test_demoted_turn_waits),
        cmocka_unit_test(test_demoted_turn_gives_way),
        cmocka_unit_test(test_cancelled_anywhere),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_same_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
