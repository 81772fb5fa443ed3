/*
 * unit/run/preemption_test.c - pages: who gets them, who gives them up and goes on later.
 *
 * Each test ends with driven_close(), which compares every turn's tokens with those that
 * it would have had alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "driven.h"
#include "run/admission.h"
#include "run/plan.h"

/* What a turn could come to need is not set aside: as many run as have pages now. */
static void test_admission_by_need(void **state)
{
    (void)state;
    /* Each may come to 16 + 2000 tokens, 126 pages, and has 10 pages when it ends. */
    driven *d = driven_open(60, 4, 140);
    for (int i = 0; i < 4; i++)
        driven_start(d, "a", RUN_INTERACTIVE, 16, 2000);
    driven_finish(d);
    assert_int_equal(d->engine.largest_batch, 4);
    assert_int_equal(driven_measure(d, MEASURE_PREEMPTIONS), 0);
    driven_close(d);
}

/* The margin keeps one from starting that would be thrown out at once. */
static void test_admission_keeps_a_margin(void **state)
{
    (void)state;
    /* 100 tokens and the one to come: 7 pages, and 8 for growth; of 25 pages. */
    driven *d = driven_open(25, 4, 100);
    driven_turn *first = driven_start(d, "a", RUN_INTERACTIVE, 100, 0);
    driven_turn *second = driven_start(d, "a", RUN_INTERACTIVE, 100, 0);
    driven_rounds(d, 3);
    assert_true(first->began && !second->began);
    driven_finish(d);
    assert_true(first->ended < second->began);
    assert_int_equal(driven_measure(d, MEASURE_PREEMPTIONS), 0);
    driven_close(d);
}

/* Four that came at once with one prompt: the first computes it, the others go over to it. */
static void test_those_who_came_together_share(void **state)
{
    (void)state;
    enum { N = 4, PROMPT = 1600 };
    driven *d = driven_open(500, N, 180);
    driven_turn *all[N] = {NULL};
    for (int i = 0; i < N; i++) {
        all[i] = driven_make(d, "a", RUN_INTERACTIVE, PROMPT, 0, all[0]);
        assert_true(run_scheduler_submit(d->scheduler, all[i]->turn));
    }
    driven_finish(d);
    assert_int_equal(all[0]->usage.cached_tokens, 0);
    /* The second one began with what the first one's last pass had left of the budget. */
    for (int i = 2; i < N; i++)
        assert_int_equal(all[i]->usage.cached_tokens, PROMPT - 1);
    driven_close(d);
}

/* What a live sequence has already needs no pages: a follow-up begins where a stranger with as
 * long a prompt would have to wait. */
static void test_shared_pages_count_once(void **state)
{
    (void)state;
    driven *d = driven_open(34, 4, 300);
    driven_turn *first = driven_start(d, "a", RUN_INTERACTIVE, 300, 2);
    driven_finish(d);
    driven_turn *running = driven_start(d, "a", RUN_INTERACTIVE, 20, 0);
    driven_rounds(d, 2);
    driven_turn *follow_up = driven_start(d, "a", RUN_INTERACTIVE, first->n_tokens, 10);
    memcpy(follow_up->turn->tokens, first->tokens, first->n_tokens * sizeof(int32_t));
    driven_rounds(d, 1);
    assert_true(follow_up->began && !running->ended);
    driven_finish(d);
    assert_int_equal(follow_up->usage.cached_tokens, first->n_tokens - 1);
    driven_close(d);
}

/* The youngest gives way, a batch turn before it; the first goes on to its end. */
static void test_who_gives_way(void **state)
{
    (void)state;
    /* Prompts of 7 pages, replies of 19: three of them start in 45 pages, one ends there. */
    driven *d = driven_open(46, 4, 300);
    driven_turn *batch = driven_start(d, "a", RUN_BATCH, 10, 0);
    driven_rounds(d, 1);
    driven_turn *oldest = driven_start(d, "a", RUN_INTERACTIVE, 10, 0);
    driven_rounds(d, 1);
    driven_turn *youngest = driven_start(d, "a", RUN_INTERACTIVE, 10, 0);
    driven_rounds(d, 1);
    assert_true(batch->began && oldest->began && youngest->began);
    while (!youngest->turn->standing.preempted && !youngest->ended) {
        if (batch->turn->standing.preempted)
            break;
        driven_rounds(d, 1);
    }
    assert_int_equal(batch->turn->standing.preempted, 1);
    assert_int_equal(youngest->turn->standing.preempted, 0);
    driven_finish(d);
    assert_int_equal(oldest->turn->standing.preempted, 0);
    assert_true(oldest->ended < batch->ended && youngest->ended < batch->ended);
    driven_close(d);
}

/* What was reused is known when the first pass takes a turn's tokens: one that has to give way
 * before finds more, or less, when it comes back. */
static void test_cached_when_it_is_computed(void **state)
{
    (void)state;
    driven *d = driven_open(1000, 2, 20);
    driven_turn *first = driven_start(d, "a", RUN_INTERACTIVE, 1000, 0);
    driven_turn *same = driven_make(d, "a", RUN_BATCH, 1000, 0, first);
    assert_true(run_scheduler_submit(d->scheduler, same->turn));
    driven_rounds(d, 1); /* both begin; the pass has room for the first one alone */
    driven_start(d, "a", RUN_INTERACTIVE, 10, 0);
    driven_rounds(d, 1);
    assert_int_equal(same->turn->standing.preempted, 1);
    driven_finish(d);
    assert_int_equal(first->usage.cached_tokens, 0);
    assert_int_equal(same->usage.cached_tokens, 999);
    assert_int_equal(driven_measure(d, MEASURE_CACHED_TOKENS), 999);
    driven_close(d);
}

/* A pass that fails for memory fails nobody: those who gave way make room for the last. */
static void test_pass_without_memory(void **state)
{
    (void)state;
    driven *d = driven_open(1000, 3, 20);
    for (int i = 0; i < 3; i++)
        driven_start(d, "a", RUN_INTERACTIVE, 30, 0);
    d->engine.fail_submit = 6;
    d->engine.fail_status = PAWL_E_MEMORY;
    driven_finish(d);
    for (int i = 0; i < 3; i++)
        assert_string_equal(d->turns[i].status, "completed");
    driven_close(d);
}

/* Memory for a part of what wants to run: all end, with their own tokens. */
static void test_preempted_turns_go_on(void **state)
{
    (void)state;
    driven *d = driven_open(50, 8, 250);
    for (int i = 0; i < 24; i++)
        driven_start(d, i % 2 ? "a" : "b", i % 3 ? RUN_INTERACTIVE : RUN_BATCH,
                     10 + (uint64_t)i * 5, 0);
    driven_finish(d);
    double preemptions = driven_measure(d, MEASURE_PREEMPTIONS);
    uint64_t timelines = 0;
    for (int i = 0; i < d->n_turns; i++) {
        assert_string_equal(d->turns[i].status, "completed");
        timelines += d->turns[i].n_tokens;
    }
    print_message("%.0f preemptions of 24 turns; %llu tokens were computed for %llu\n", preemptions,
                  (unsigned long long)d->engine.computed, (unsigned long long)timelines);
    assert_true(preemptions > 0);
    assert_true(preemptions < 24 * 4); /* no thrashing */
    assert_true(d->engine.computed < timelines * 5 / 2);
    driven_close(d);
}

/* All sequences are taken by batch turns: an interactive one gets one at once. The other's
 * state stays: nothing is computed twice. */
static void test_interactive_takes_a_slot(void **state)
{
    (void)state;
    driven *d = driven_open(10000, 2, 100);
    driven_turn *first = driven_start(d, "a", RUN_BATCH, 50, 0);
    driven_turn *second = driven_start(d, "a", RUN_BATCH, 50, 0);
    driven_rounds(d, 10);
    driven_turn *interactive = driven_start(d, "b", RUN_INTERACTIVE, 50, 0);
    driven_rounds(d, 1);
    assert_true(interactive->began);
    assert_int_equal(first->turn->standing.preempted, 0);
    assert_int_equal(second->turn->standing.preempted, 1);
    driven_finish(d);
    assert_true(interactive->ended < second->ended);
    uint64_t timelines = 0;
    for (int i = 0; i < 3; i++)
        timelines += d->turns[i].n_tokens - 1; /* the last token needs no state */
    assert_int_equal(d->engine.computed, timelines);
    driven_close(d);
}

/* Memory is what batch turns hold: an interactive one gets it. */
static void test_interactive_takes_memory(void **state)
{
    (void)state;
    driven *d = driven_open(50, 4, 300);
    driven_turn *batch = driven_start(d, "a", RUN_BATCH, 400, 0);
    driven_rounds(d, 3);
    driven_turn *interactive = driven_start(d, "b", RUN_INTERACTIVE, 300, 0);
    driven_rounds(d, 1);
    assert_true(interactive->began);
    assert_int_equal(batch->turn->standing.preempted, 1);
    driven_turn *other = driven_start(d, "b", RUN_INTERACTIVE, 300, 0);
    driven_rounds(d, 3);
    assert_false(other->began); /* but not another interactive one's */
    driven_finish(d);
    driven_close(d);
}

/* Idle sequences go before anybody is preempted. */
static void test_idle_state_goes_first(void **state)
{
    (void)state;
    driven *d = driven_open(60, 4, 60);
    for (int i = 0; i < 8; i++) {
        driven_start(d, "a", RUN_INTERACTIVE, 200, 0);
        driven_finish(d);
    }
    assert_int_equal(driven_measure(d, MEASURE_PREEMPTIONS), 0);
    assert_true(driven_measure(d, MEASURE_EVICTIONS) > 0);
    driven_close(d);
}

/* A turn that is alone and needs more than there is ends, and says so. */
static void test_alone_and_too_large(void **state)
{
    (void)state;
    driven *d = driven_open(10, 4, 1000);
    driven_turn *large = driven_start(d, "a", RUN_INTERACTIVE, 500, 0);
    driven_turn *grows = driven_start(d, "a", RUN_INTERACTIVE, 100, 0);
    driven_turn *small = driven_start(d, "a", RUN_INTERACTIVE, 20, 30);
    driven_finish(d);
    assert_string_equal(large->status, "failed");
    assert_string_equal(grows->status, "failed");
    assert_int_equal(grows->n_tokens, 10 * FAKE_PAGE + 1); /* as far as it goes */
    assert_string_equal(small->status, "incomplete");
    driven_close(d);
}

/* ----------------------------------------------------------- save points -- */

typedef struct ends {
    uint64_t at[64]; /* lengths after the passes of one sequence */
    int n;
} ends;

static void note_end(void *arg, const pawl_slot *slots, uint64_t n)
{
    ends *e = arg;
    assert_int_equal(n, 1);
    if (e->n < 64)
        e->at[e->n++] = slots[0].sequence->n_tokens;
}

static void test_prompts_are_cut(void **state)
{
    (void)state;
    driven *d = driven_open(1000, 1, 2);
    static const uint64_t want[] = {100, 612, 700, 1212, 1724, RUN_SAVE_TOKENS, 2560, 3000};
    ends seen = {.n = 0};
    d->engine.on_pass = note_end;
    d->engine.arg = &seen;
    driven_turn *t = driven_start(d, "a", RUN_INTERACTIVE, 3000, 2);
    t->turn->prompt.cuts[0] = 100;
    t->turn->prompt.cuts[1] = 700;
    t->turn->prompt.cuts[2] = 3000;
    t->turn->prompt.n_cuts = 3;
    driven_finish(d);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        assert_int_equal(seen.at[i], want[i]);
    assert_int_equal(driven_measure(d, MEASURE_SAVE_POINTS), 4);
    driven_close(d);
}

static void test_save_points_fit_chunks(void **state)
{
    (void)state;
    driven *d = driven_open(1000, 1, 2);
    driven_turn *t = driven_start(d, "a", RUN_INTERACTIVE, 50, 2);
    d->model.info.state_chunk = 1500; /* no engine's; 2048 is rounded up to a multiple */
    assert_false(run_is_save_point(t->turn, 2048));
    assert_true(run_is_save_point(t->turn, 3000));
    d->model.info.state_chunk = 64;
    assert_true(run_is_save_point(t->turn, 2048));
    assert_false(run_is_save_point(t->turn, 0));
    driven_finish(d);
    driven_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admission_by_need),
        cmocka_unit_test(test_admission_keeps_a_margin),
        cmocka_unit_test(test_those_who_came_together_share),
        cmocka_unit_test(test_shared_pages_count_once),
        cmocka_unit_test(test_who_gives_way),
        cmocka_unit_test(test_cached_when_it_is_computed),
        cmocka_unit_test(test_pass_without_memory),
        cmocka_unit_test(test_preempted_turns_go_on),
        cmocka_unit_test(test_interactive_takes_a_slot),
        cmocka_unit_test(test_interactive_takes_memory),
        cmocka_unit_test(test_idle_state_goes_first),
        cmocka_unit_test(test_alone_and_too_large),
        cmocka_unit_test(test_prompts_are_cut),
        cmocka_unit_test(test_save_points_fit_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
