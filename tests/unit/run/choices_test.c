/*
 * unit/run/choices_test.c - several replies to one prompt: one END, one prompt.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_model.h"
#include "run/choices.h"
#include "run/scheduler.h"

#include <pthread.h>
#include <setjmp.h>

#include <cmocka.h>

#define N 4
#define PROMPT 40

/* What the listener of all choices saw. */
typedef struct bench {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;          /* END has come                      */
    int after_end;      /* events after it                   */
    int ends[N];        /* CHOICE_END and END of each        */
    int in_progress[N]; /* IN_PROGRESS of each               */
    run_usage usage[N];
    char status[N][16];
    uint64_t n_tokens[N];
    int32_t tokens[N][4096];
    pawl_engine engine;
    run_model model;
    run_scheduler *scheduler;
    run_turn *turns[N];
} bench;

static void on_event(void *arg, run_event *event)
{
    bench *b = arg;
    uint32_t k = event->choice;
    pthread_mutex_lock(&b->lock);
    assert_true(k < N);
    b->after_end += b->over;
    b->in_progress[k] += event->type == RUN_IN_PROGRESS;
    if (event->type == RUN_END || event->type == RUN_CHOICE_END) {
        b->ends[k]++;
        b->usage[k] = event->usage;
        snprintf(b->status[k], sizeof b->status[k], "%s", event->record->status);
        b->n_tokens[k] = event->record->n_tokens;
        memcpy(b->tokens[k], event->record->tokens, b->n_tokens[k] * sizeof(int32_t));
        b->over = event->type == RUN_END;
        pthread_cond_signal(&b->ended);
    }
    pthread_mutex_unlock(&b->lock);
    run_event_free(event);
}

static bench *bench_open(uint64_t pages, int reply_length)
{
    bench *b = calloc(1, sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->ended, NULL);
    b->engine = (pawl_engine){.max_sequences = 16, .pages = pages, .reply_length = reply_length};
    b->model = fake_model(&b->engine);
    run_scheduler_config config = {.queue = 64};
    assert_int_equal(run_scheduler_open(&b->model, &config, &b->scheduler, NULL), PAWL_OK);
    return b;
}

/* As run_start_choices() does it. */
static void start(bench *b, bool cancel_first)
{
    run_request *request = run_request_new(clock_system());
    run_choices *choices = run_choices_open(N, (run_listener){on_event, b});
    request->model = &b->model;
    for (size_t k = 0; k < N; k++) {
        run_prompt prompt = {.n_tokens = PROMPT, .stop_tokens = {FAKE_END}, .n_stop_tokens = 1};
        prompt.tokens = calloc(PROMPT, sizeof *prompt.tokens);
        prompt.tokens[0] = PROMPT; /* for fake_ends() */
        assert_int_equal(run_turn_new(run_request_retain(request), &prompt,
                                      run_choices_listener(choices, k), clock_system(), NULL,
                                      &b->turns[k], NULL),
                         PAWL_OK);
        atomic_fetch_add(&b->turns[k]->references, 1);
        if (k)
            b->turns[k - 1]->next = b->turns[k];
    }
    run_request_free(request);
    assert_int_equal(run_scheduler_claim(b->scheduler, &RUN_NOBODY, N), RUN_PLACED);
    if (cancel_first)
        run_cancel(b->turns[0]);
    assert_true(run_scheduler_submit(b->scheduler, b->turns[0]));
}

static void wait_for_end(bench *b)
{
    pthread_mutex_lock(&b->lock);
    while (!b->over)
        pthread_cond_wait(&b->ended, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static void bench_close(bench *b)
{
    run_scheduler_close(b->scheduler);
    assert_int_equal(b->after_end, 0);
    for (int k = 0; k < N; k++) {
        assert_int_equal(b->ends[k], 1);
        run_turn_release(b->turns[k]);
    }
    assert_int_equal(b->engine.open_sequences, 0);
    assert_int_equal(b->engine.free_pages, b->engine.pages);
    free(b);
}

static void check_tokens(const bench *b, int k)
{
    for (uint64_t i = PROMPT; i < b->n_tokens[k]; i++) {
        bool end = fake_ends(&b->engine, b->tokens[k], i);
        assert_int_equal(b->tokens[k][i], end ? FAKE_END : fake_next(b->tokens[k], i));
    }
}

/* The later choices go on from the first one's prompt. */
static void test_one_prompt(void **state)
{
    (void)state;
    bench *b = bench_open(2000, 30);
    start(b, false);
    wait_for_end(b);
    for (int k = 0; k < N; k++) {
        assert_string_equal(b->status[k], "completed");
        assert_int_equal(b->in_progress[k], 1);
        assert_int_equal(b->usage[k].cached_tokens, k ? PROMPT - 1 : 0);
        check_tokens(b, k);
    }
    assert_int_equal(b->engine.largest_batch, N);
    bench_close(b);
}

static void test_first_is_cancelled(void **state)
{
    (void)state;
    bench *b = bench_open(2000, 30);
    start(b, true);
    wait_for_end(b);
    assert_string_equal(b->status[0], "cancelled");
    for (int k = 1; k < N; k++)
        assert_string_equal(b->status[k], "completed");
    bench_close(b);
}

/* Room for little more than one at a time. */
static void test_memory_is_short(void **state)
{
    (void)state;
    bench *b = bench_open(300, 30);
    start(b, false);
    wait_for_end(b);
    for (int k = 0; k < N; k++) {
        assert_string_equal(b->status[k], "completed");
        check_tokens(b, k);
    }
    bench_close(b);
}

/* The first one's prompt fails; the others are tried all the same. */
static void test_first_fails(void **state)
{
    (void)state;
    bench *b = bench_open(2000, 30);
    b->engine.fail_submit = 1;
    b->engine.fail_status = PAWL_E_INTERNAL;
    start(b, false);
    wait_for_end(b);
    assert_string_equal(b->status[0], "failed");
    for (int k = 1; k < N; k++)
        assert_string_equal(b->status[k], "completed");
    bench_close(b);
}

static void test_close_ends_all(void **state)
{
    (void)state;
    bench *b = bench_open(100000, 3000);
    start(b, false);
    run_scheduler_close(b->scheduler);
    b->scheduler = NULL;
    assert_true(b->over);
    bench_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_prompt),      cmocka_unit_test(test_first_is_cancelled),
        cmocka_unit_test(test_memory_is_short), cmocka_unit_test(test_first_fails),
        cmocka_unit_test(test_close_ends_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
