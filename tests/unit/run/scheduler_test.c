/*
 * unit/run/scheduler_test.c - many turns at once: each gets its own tokens and one END.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_model.h"
#include "run/scheduler.h"

#include <pthread.h>
#include <setjmp.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_TURNS 600

/* What a listener saw of one turn. */
typedef struct seen {
    pthread_mutex_t *lock;
    pthread_cond_t *ended;
    int *n_ended;
    int ends;        /* END events                */
    int in_progress; /* IN_PROGRESS events        */
    int after_end;   /* events after END          */
    run_usage usage;
    char status[16];
    int32_t tokens[4096];
    uint64_t n_tokens, n_prompt;
} seen;

static void on_event(void *arg, run_event *event)
{
    seen *s = arg;
    pthread_mutex_lock(s->lock);
    s->after_end += s->ends;
    s->in_progress += event->type == RUN_IN_PROGRESS;
    if (event->type == RUN_END) {
        s->ends++;
        snprintf(s->status, sizeof s->status, "%s", event->record->status);
        s->usage = event->usage;
        s->n_tokens = event->record->n_tokens;
        s->n_prompt = event->record->n_prompt;
        memcpy(s->tokens, event->record->tokens, s->n_tokens * sizeof *s->tokens);
        ++*s->n_ended;
        pthread_cond_signal(s->ended);
    }
    pthread_mutex_unlock(s->lock);
    run_event_free(event);
}

typedef struct bench {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    int n_ended;
    pawl_engine engine;
    run_model model;
    run_scheduler *scheduler;
    seen *seen; /* MAX_TURNS */
    run_turn *turns[MAX_TURNS];
} bench;

static bench *bench_open(uint64_t pages, int reply_length, uint32_t queue)
{
    bench *b = calloc(1, sizeof *b);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->ended, NULL);
    b->seen = calloc(MAX_TURNS, sizeof *b->seen);
    b->engine = (pawl_engine){.max_sequences = 16, .pages = pages, .reply_length = reply_length};
    b->model = fake_model(&b->engine);
    run_scheduler_config config = {.queue = queue};
    assert_int_equal(run_scheduler_open(&b->model, &config, &b->scheduler, NULL), PAWL_OK);
    return b;
}

static void bench_close(bench *b)
{
    run_scheduler_close(b->scheduler);
    assert_int_equal(b->engine.open_sequences, 0);
    assert_int_equal(b->engine.free_pages, b->engine.pages);
    free(b->seen);
    free(b);
}

static run_turn *new_turn(bench *b, int i, const int32_t *tokens, uint64_t n, uint64_t max_tokens)
{
    run_request *request = run_request_new(clock_system());
    run_prompt prompt = {.n_tokens = n, .stop_tokens = {FAKE_END}, .n_stop_tokens = 1};
    run_turn *turn = NULL;
    prompt.tokens = malloc((n + 1) * sizeof *tokens);
    memcpy(prompt.tokens, tokens, n * sizeof *tokens);
    request->model = &b->model;
    request->max_tokens = max_tokens;
    b->seen[i].lock = &b->lock;
    b->seen[i].ended = &b->ended;
    b->seen[i].n_ended = &b->n_ended;
    run_listener listener = {on_event, &b->seen[i]};
    assert_int_equal(run_turn_new(request, &prompt, listener, clock_system(), NULL, &turn, NULL),
                     PAWL_OK);
    atomic_fetch_add(&turn->references, 1);
    b->turns[i] = turn;
    return turn;
}

static bool start(bench *b, int i, const int32_t *tokens, uint64_t n, uint64_t max_tokens)
{
    if (run_scheduler_claim(b->scheduler, &RUN_NOBODY, 1) != RUN_PLACED)
        return false;
    assert_true(run_scheduler_submit(b->scheduler, new_turn(b, i, tokens, n, max_tokens)));
    return true;
}

static void wait_for(bench *b, int n)
{
    pthread_mutex_lock(&b->lock);
    while (b->n_ended < n)
        pthread_cond_wait(&b->ended, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

/* The timeline that the fake engine gives to a prompt that runs alone. */
static uint64_t expected(const pawl_engine *e, int32_t *tokens, uint64_t n, uint64_t max_tokens)
{
    uint64_t limit = max_tokens ? n + max_tokens : 4096;
    while (n < limit) {
        bool end = fake_ends(e, tokens, n);
        tokens[n] = end ? FAKE_END : fake_next(tokens, n);
        n++;
        if (end)
            break;
    }
    return n;
}

static void check_tokens(bench *b, int i)
{
    static int32_t want[4096];
    seen *s = &b->seen[i];
    memcpy(want, s->tokens, s->n_prompt * sizeof *want);
    uint64_t n = expected(&b->engine, want, s->n_prompt, 0);
    assert_int_equal(s->n_tokens, n);
    assert_memory_equal(s->tokens, want, n * sizeof *want);
    assert_int_equal(s->usage.input_tokens, s->n_prompt);
    assert_int_equal(s->usage.output_tokens, n - s->n_prompt);
}

static uint64_t make_prompt(int32_t *tokens, unsigned seed, uint64_t n)
{
    tokens[0] = (int32_t)n; /* for fake_ends() */
    for (uint64_t i = 1; i < n; i++)
        tokens[i] = (int32_t)((seed = seed * 1103515245u + 12345u) >> 16) % 256;
    return n;
}

static void test_batch_equals_alone(void **state)
{
    (void)state;
    bench *b = bench_open(100000, 40, 256);
    for (int i = 0; i < 40; i++) {
        int32_t tokens[600];
        uint64_t n = make_prompt(tokens, (unsigned)i, 5 + (uint64_t)i * 13 % 550);
        assert_true(start(b, i, tokens, n, 0));
    }
    wait_for(b, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(b->seen[i].ends, 1);
        assert_int_equal(b->seen[i].in_progress, 1);
        assert_string_equal(b->seen[i].status, "completed");
        check_tokens(b, i);
        run_turn_release(b->turns[i]);
    }
    assert_true(b->engine.largest_batch > 1);
    bench_close(b);
}

static void test_follow_up_continues(void **state)
{
    (void)state;
    bench *b = bench_open(100000, 20, 256);
    int32_t tokens[4096];
    uint64_t n = make_prompt(tokens, 7, 100);
    assert_true(start(b, 0, tokens, n, 0));
    wait_for(b, 1);
    n = b->seen[0].n_tokens;
    memcpy(tokens, b->seen[0].tokens, n * sizeof *tokens);
    for (int i = 0; i < 10; i++)
        tokens[n++] = 'x';
    assert_true(start(b, 1, tokens, n, 0));
    wait_for(b, 2);
    /* all but the last generated token, whose state nobody needed before */
    assert_int_equal(b->seen[1].usage.cached_tokens, b->seen[0].n_tokens - 1);
    /* a second child of the same parent shares its beginning, too */
    tokens[n - 1] = 'y';
    assert_true(start(b, 2, tokens, n, 0));
    wait_for(b, 3);
    assert_int_equal(b->seen[2].usage.cached_tokens, n - 1);
    for (int i = 0; i < 3; i++) {
        check_tokens(b, i);
        run_turn_release(b->turns[i]);
    }
    bench_close(b);
}

static void test_memory_is_short(void **state)
{
    (void)state;
    /* 40 pages of 16 tokens; each turn wants 15 of them: two at once, the rest waits */
    bench *b = bench_open(40, 100, 256);
    for (int i = 0; i < 30; i++) {
        int32_t tokens[120];
        uint64_t n = make_prompt(tokens, (unsigned)i + 99, 100);
        assert_true(start(b, i, tokens, n, 130));
    }
    wait_for(b, 30);
    for (int i = 0; i < 30; i++) {
        assert_string_equal(b->seen[i].status, "completed");
        check_tokens(b, i);
        run_turn_release(b->turns[i]);
    }
    bench_close(b);
}

static void test_length_limit(void **state)
{
    (void)state;
    bench *b = bench_open(1000, 1000, 256);
    int32_t tokens[64];
    assert_true(start(b, 0, tokens, make_prompt(tokens, 3, 50), 17));
    wait_for(b, 1);
    assert_string_equal(b->seen[0].status, "incomplete");
    assert_int_equal(b->seen[0].usage.output_tokens, 17);
    run_turn_release(b->turns[0]);
    bench_close(b);
}

static void test_failures_hit_one_step(void **state)
{
    (void)state;
    bench *b = bench_open(100000, 20, 256);
    b->engine.fail_submit = 5;
    b->engine.fail_status = PAWL_E_INTERNAL;
    int32_t tokens[64];
    assert_true(start(b, 0, tokens, make_prompt(tokens, 1, 50), 0));
    wait_for(b, 1);
    assert_string_equal(b->seen[0].status, "failed");
    assert_true(start(b, 1, tokens, make_prompt(tokens, 1, 50), 0));
    wait_for(b, 2);
    assert_string_equal(b->seen[1].status, "completed");
    check_tokens(b, 1);
    run_turn_release(b->turns[0]);
    run_turn_release(b->turns[1]);
    bench_close(b);
}

static void test_queue_is_bounded(void **state)
{
    (void)state;
    bench *b = bench_open(100000, 3000, 8);
    int32_t tokens[64];
    int started = 0;
    for (int i = 0; i < 100; i++)
        started += start(b, started, tokens, make_prompt(tokens, (unsigned)i, 50), 0);
    assert_true(started >= 8 && started < 100);
    for (int i = 0; i < started; i++)
        run_cancel(b->turns[i]);
    wait_for(b, started);
    for (int i = 0; i < started; i++) {
        assert_int_equal(b->seen[i].ends, 1);
        run_turn_release(b->turns[i]);
    }
    bench_close(b);
}

/* Random prompts, lengths, cancels and short memory: one END each, right tokens. */
static void test_random_schedules(void **state)
{
    (void)state;
    const char *from_env = getenv("PAWL_SEED");
    unsigned seed = from_env ? (unsigned)strtoul(from_env, NULL, 10) : 20261130;
    print_message("seed %u\n", seed);
    bench *b = bench_open(200, 30, 1000);
    int n_turns = 300;
    for (int i = 0; i < n_turns; i++) {
        int32_t tokens[512];
        unsigned r = (seed = seed * 1664525u + 1013904223u) >> 8;
        uint64_t n = make_prompt(tokens, r % 7, 20 + r % 400);
        assert_true(start(b, i, tokens, n, 1 + r % 90));
        if (r % 4 == 0)
            run_cancel(b->turns[i]);
        if (r % 16 == 0)
            usleep(500);
    }
    wait_for(b, n_turns);
    int cancelled = 0;
    for (int i = 0; i < n_turns; i++) {
        seen *s = &b->seen[i];
        static int32_t want[4096];
        assert_int_equal(s->ends, 1);
        assert_int_equal(s->after_end, 0);
        memcpy(want, s->tokens, s->n_prompt * sizeof *want);
        cancelled += strcmp(s->status, "cancelled") == 0;
        assert_true(expected(&b->engine, want, s->n_prompt, 0) >= s->n_tokens);
        assert_memory_equal(s->tokens, want, s->n_tokens * sizeof *want);
        run_turn_release(b->turns[i]);
    }
    assert_true(cancelled > 0 && cancelled < n_turns);
    bench_close(b);
}

static void test_close_ends_everything(void **state)
{
    (void)state;
    bench *b = bench_open(100000, 3000, 64);
    int32_t tokens[64];
    for (int i = 0; i < 20; i++)
        assert_true(start(b, i, tokens, make_prompt(tokens, (unsigned)i, 50), 0));
    run_scheduler_close(b->scheduler);
    b->scheduler = NULL;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(b->seen[i].ends, 1);
        run_turn_release(b->turns[i]);
    }
    bench_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_equals_alone),    cmocka_unit_test(test_follow_up_continues),
        cmocka_unit_test(test_memory_is_short),       cmocka_unit_test(test_length_limit),
        cmocka_unit_test(test_failures_hit_one_step), cmocka_unit_test(test_queue_is_bounded),
        cmocka_unit_test(test_random_schedules),      cmocka_unit_test(test_close_ends_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
