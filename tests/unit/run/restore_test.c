/*
 * unit/run/restore_test.c - the scheduler with a prefix cache: what is restored is not computed,
 * streams go on meanwhile, and whatever goes wrong costs time only.
 *
 * Every turn's tokens are compared with those that it would have had alone (driven_close).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "driven.h"
#include "fake_kv.h"

#define CHUNK 16
#define PAGES 100000

static kv *new_kv(void)
{
    return calloc(1, sizeof(kv));
}

static void free_kv(kv *k)
{
    for (size_t i = 0; i < k->n_rows; i++)
        assert_int_equal(k->rows[i].pins, 0);
    fake_kv_clear(k);
    free(k);
}

/* A prompt of n tokens; those of one seed begin alike, as far as they are alike in length. */
static const int32_t *prompt_of(unsigned seed, uint64_t n)
{
    static int32_t tokens[4096];
    tokens[0] = (int32_t)n;
    for (uint64_t i = 1; i < n; i++)
        tokens[i] = (int32_t)((seed = seed * 1103515245u + 12345u) >> 16) % 256;
    return tokens;
}

static driven_turn *ask(driven *d, unsigned seed, uint64_t n)
{
    return driven_start_with(d, "a", RUN_INTERACTIVE, prompt_of(seed, n), n, 0);
}

/* What a process leaves behind that answered these prompts once. */
static void answer_once(kv *k, bool boundary, unsigned n_prompts, uint64_t length)
{
    driven *d = driven_open_saving(PAGES, 4, 20, k, CHUNK, boundary);
    for (unsigned i = 0; i < n_prompts; i++)
        ask(d, i + 1, length);
    driven_finish(d);
    driven_close(d);
    k->reads = k->puts = 0;
}

static void test_a_restart_costs_little(void **state)
{
    (void)state;
    kv *k = new_kv();
    answer_once(k, false, 3, 300);
    driven *d = driven_open_saving(PAGES, 4, 20, k, CHUNK, false);
    for (unsigned i = 0; i < 3; i++)
        ask(d, i + 1, 300);
    driven_finish(d);
    uint64_t n = 0;
    for (int i = 0; i < 3; i++) {
        assert_string_equal(d->turns[i].status, "completed");
        assert_int_equal(d->turns[i].usage.cached_tokens, 288); /* whole chunks of 299 */
        n += d->turns[i].n_tokens - 1 - 288;
    }
    assert_int_equal(d->engine.computed, n);
    assert_int_equal(driven_measure(d, MEASURE_RESTORES), 3);
    assert_int_equal(driven_measure(d, MEASURE_STORED_HITS), 3 * 288);
    assert_int_equal(driven_measure(d, MEASURE_PREFIX_HITS), 3 * 288);
    assert_int_equal(driven_measure(d, MEASURE_STORED_QUERIES), 3 * 300);
    driven_close(d);
    assert_int_equal(k->puts, 0); /* and nothing was saved twice */
    free_kv(k);
}

/* What is live is not loaded, and of both the longer one is taken. */
static void test_the_longest_of_all_tiers(void **state)
{
    (void)state;
    kv *k = new_kv();
    answer_once(k, false, 1, 300);
    driven *d = driven_open_saving(PAGES, 4, 20, k, CHUNK, false);
    int32_t own[300];
    memcpy(own, prompt_of(1, 300), sizeof own);
    own[100] ^= 1; /* 100 tokens are shared: 96 of them saved */
    driven_start_with(d, "a", RUN_INTERACTIVE, own, 300, 0);
    driven_finish(d);
    assert_int_equal(d->turns[0].usage.cached_tokens, 96);
    ask(d, 1, 300); /* 100 are live now, 288 saved */
    driven_finish(d);
    assert_int_equal(d->turns[1].usage.cached_tokens, 288);
    ask(d, 1, 300); /* all of it is live */
    driven_finish(d);
    assert_int_equal(d->turns[2].usage.cached_tokens, 299);
    assert_int_equal(driven_measure(d, MEASURE_RESTORES), 2);
    driven_close(d);
    free_kv(k);
}

static void a_millisecond(void *arg)
{
    ((driven *)arg)->ns += 1000000;
}

static void test_streams_go_on_meanwhile(void **state)
{
    (void)state;
    kv *k = new_kv();
    answer_once(k, false, 2, 1600);
    driven *d = driven_open_saving(PAGES, 4, 200, k, CHUNK, false);
    driven_turn *stream = ask(d, 77, 20);
    driven_rounds(d, 3);
    k->on_read = a_millisecond;
    k->arg = d;
    driven_turn *first = ask(d, 1, 1600), *second = ask(d, 2, 1600);
    int rounds = 0;
    while (!second->usage.output_tokens && !second->ended) {
        uint64_t n = stream->turn->n_tokens;
        int loads = d->engine.loads;
        driven_rounds(d, 1);
        assert_int_equal(stream->turn->n_tokens, n + 1); /* one token each round */
        assert_true(d->engine.loads - loads <= 5);       /* half a pass */
        if (second->turn->n_tokens > 1600)
            break;
        rounds++;
    }
    assert_true(rounds >= 2 * 99 / 5 && rounds < 60);
    assert_true(first->began && second->began);
    driven_finish(d);
    assert_int_equal(first->usage.cached_tokens, 99 * CHUNK);
    k->on_read = NULL;
    driven_close(d);
    free_kv(k);
}

static void test_cancelled_while_it_is_restored(void **state)
{
    (void)state;
    for (int boundary = 0; boundary < 2; boundary++) {
        kv *k = new_kv();
        answer_once(k, boundary, 1, 3000);
        driven *d = driven_open_saving(PAGES, 4, 20, k, CHUNK, boundary);
        driven_turn *t = ask(d, 1, 3000);
        driven_rounds(d, 2);
        assert_true(d->engine.loads > 0 && d->engine.loads < 128);
        assert_int_equal(d->engine.submits, 0);
        run_cancel(t->turn);
        driven_finish(d);
        assert_string_equal(t->status, "cancelled");
        ask(d, 1, 3000); /* what was loaded is live now, or gone with its boundary missing */
        driven_finish(d);
        assert_true(d->turns[1].usage.cached_tokens >= (boundary ? 0u : 187u * CHUNK));
        driven_close(d);
        free_kv(k);
    }
}

static void test_preempted_while_it_is_restored(void **state)
{
    (void)state;
    for (int boundary = 0; boundary < 2; boundary++) {
        kv *k = new_kv();
        answer_once(k, boundary, 1, 3000);
        driven *d = driven_open_saving(PAGES, 1, 20, k, CHUNK, boundary);
        driven_turn *batch = driven_start_with(d, "a", RUN_BATCH, prompt_of(1, 3000), 3000, 0);
        driven_rounds(d, 2);
        driven_turn *urgent = ask(d, 50, 40);
        driven_finish(d);
        assert_int_equal(batch->turn->standing.preempted, 1);
        assert_true(urgent->ended < batch->ended);
        driven_close(d);
        free_kv(k);
    }
}

/* Nobody goes on from a sequence whose state is still coming: it lacks its boundary. */
static void test_two_at_once(void **state)
{
    (void)state;
    kv *k = new_kv();
    answer_once(k, true, 1, 3000);
    driven *d = driven_open_saving(PAGES, 4, 20, k, CHUNK, true);
    int32_t own[3000];
    memcpy(own, prompt_of(1, 3000), sizeof own);
    own[200] ^= 1;
    ask(d, 1, 3000);
    driven_rounds(d, 4);
    assert_true(d->engine.loads > 16); /* the first 200 tokens are there */
    ask(d, 1, 3000);
    driven_start_with(d, "a", RUN_INTERACTIVE, own, 3000, 0);
    driven_finish(d);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(d->turns[i].status, "completed");
        assert_int_equal(d->turns[i].usage.cached_tokens, i < 2 ? 2048 : 0);
    }
    driven_close(d);
    free_kv(k);
}

/* A turn that lost its sequence to others goes on from what was saved of it. */
static void test_preempted_turns_are_restored(void **state)
{
    (void)state;
    kv *k = new_kv();
    driven *d = driven_open_saving(50, 8, 250, k, CHUNK, false);
    for (int i = 0; i < 24; i++)
        driven_start(d, i % 2 ? "a" : "b", i % 3 ? RUN_INTERACTIVE : RUN_BATCH,
                     10 + (uint64_t)i * 5, 0);
    driven_finish(d);
    uint64_t timelines = 0;
    for (int i = 0; i < d->n_turns; i++) {
        assert_string_equal(d->turns[i].status, "completed");
        timelines += d->turns[i].n_tokens;
    }
    print_message("%.0f preemptions, %.0f restores; %llu tokens were computed for %llu\n",
                  driven_measure(d, MEASURE_PREEMPTIONS), driven_measure(d, MEASURE_RESTORES),
                  (unsigned long long)d->engine.computed, (unsigned long long)timelines);
    assert_true(driven_measure(d, MEASURE_PREEMPTIONS) > 0);
    assert_true(driven_measure(d, MEASURE_RESTORES) > 0);
    assert_true(d->engine.computed < timelines * 21 / 20);
    driven_close(d);
    free_kv(k);
}

/* Chunks without their boundary are of no use: the next best is looked for. */
static void test_a_damaged_boundary(void **state)
{
    (void)state;
    kv *k = new_kv();
    answer_once(k, true, 1, 3000);
    size_t n_boundaries = 0;
    for (size_t i = 0; i < k->n_rows; i++)
        n_boundaries += k->rows[i].chunk.part == PAWL_STATE_BOUNDARY;
    assert_true(n_boundaries >= 2); /* at 2,048, and at the end */
    driven *d = driven_open_saving(PAGES, 4, 20, k, CHUNK, true);
    ask(d, 1, 3000);
    driven_finish(d);
    assert_int_equal(d->turns[0].usage.cached_tokens, 2048); /* the end is beyond the prompt */
    driven_close(d);
    for (size_t i = 0; i < k->n_rows; i++)
        k->rows[i].damaged = k->rows[i].chunk.part == PAWL_STATE_BOUNDARY;
    d = driven_open_saving(PAGES, 4, 20, k, CHUNK, true);
    ask(d, 1, 3000);
    driven_finish(d);
    assert_int_equal(d->turns[0].usage.cached_tokens, 0);
    assert_string_equal(d->turns[0].status, "completed");
    driven_close(d);
    free_kv(k);
}

/* A cache that promises and never gives: the turn is computed in the end. */
static void test_a_cache_that_lies(void **state)
{
    (void)state;
    kv *k = new_kv();
    answer_once(k, true, 1, 3000);
    driven *d = driven_open_saving(PAGES, 4, 20, k, CHUNK, true);
    k->missing_part = PAWL_STATE_BOUNDARY;
    ask(d, 1, 3000);
    driven_finish(d);
    assert_int_equal(d->turns[0].usage.cached_tokens, 0);
    assert_string_equal(d->turns[0].status, "completed");
    driven_close(d);
    free_kv(k);
}

/* Many turns that share beginnings, little memory, a cache that loses, damages, refuses. */
static void play(unsigned seed, bool boundary)
{
    unsigned random = seed;
    kv *k = new_kv();
    uint64_t cached = 0;
    for (int life = 0; life < 3; life++) {
        driven *d = driven_open_saving(120, 3, 30, k, CHUNK, boundary);
        d->cut = 85;
        for (int i = 0; i < 60; i++) {
            random = random * 1103515245u + 12345u;
            unsigned r = random >> 8;
            int32_t tokens[400];
            uint64_t n = 100 + 100 * (uint64_t)(r % 4);
            memcpy(tokens, prompt_of(r / 4 % 3, n), n * sizeof *tokens);
            if (r / 16 % 3 == 0)
                tokens[n / 2 + r / 64 % (n / 2)] ^= 1; /* a fork */
            driven_turn *t =
                driven_start_with(d, r / 128 % 2 ? "a" : "b",
                                  r / 256 % 3 ? RUN_INTERACTIVE : RUN_BATCH, tokens, n, 0);
            driven_rounds(d, (int)(r / 1024 % 20));
            if (k->n_rows && r / 32768 % 4 == 0) {
                size_t row = r % k->n_rows;
                if (r / 131072 % 2)
                    k->rows[row].damaged = true;
                else if (!k->rows[row].pins)
                    fake_kv_lose(k, row);
            }
            k->refuse_put = r / 65536 % 8 == 0 ? PAWL_E_BUSY : PAWL_OK;
            if (r / 4096 % 16 == 0)
                run_cancel(t->turn);
        }
        driven_finish(d);
        for (int i = 0; i < d->n_turns; i++) {
            assert_string_not_equal(d->turns[i].status, "failed");
            cached += d->turns[i].usage.cached_tokens;
        }
        k->refuse_put = PAWL_OK;
        driven_close(d);
    }
    assert_true(cached > 0);
    assert_true(k->reads > 100);
    free_kv(k);
}

static void test_anything_may_happen(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++)
        play(seed, seed % 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_restart_costs_little),
        cmocka_unit_test(test_the_longest_of_all_tiers),
        cmocka_unit_test(test_streams_go_on_meanwhile),
        cmocka_unit_test(test_cancelled_while_it_is_restored),
        cmocka_unit_test(test_preempted_while_it_is_restored),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_preempted_turns_are_restored),
        cmocka_unit_test(test_a_damaged_boundary),
        cmocka_unit_test(test_a_cache_that_lies),
        cmocka_unit_test(test_anything_may_happen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
