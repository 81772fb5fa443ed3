/*
 * tests/unit/cpu/sample_test.c - choosing tokens: rules, masks, chance.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tiny.h"

#include "cpu/sample.h"

#define VOCAB 100u

/* A row of logits, and scratch for one worker. */
typedef struct bench {
    float logits[VOCAB];
    float adjusted[VOCAB];
    int32_t ids[VOCAB];
    uint32_t seen[VOCAB];
} bench;

static int32_t draw(bench *b, pawl_sampling *s, const uint32_t *allow, const int32_t *history,
                    uint64_t n_history)
{
    forward_worker scratch = {.adjusted = b->adjusted, .ids = b->ids, .seen = b->seen};
    sample_input in = {.kernels = kernels_choose("auto"),
                       .logits = b->logits,
                       .vocab = VOCAB,
                       .sampling = s,
                       .allow = allow,
                       .history = history,
                       .n_history = n_history};
    int32_t token = -1;
    if (s)
        s->struct_size = sizeof *s;
    assert_int_equal(PAWL_OK, sample_check(s, allow, VOCAB));
    assert_int_equal(PAWL_OK, sample_token(&in, &scratch, &token));
    assert_true(token >= 0 && token < (int32_t)VOCAB);
    return token;
}

static bench make_bench(uint64_t seed)
{
    bench b = {0};
    for (uint32_t i = 0; i < VOCAB; i++)
        b.logits[i] = 3 * tiny_float(&seed);
    return b;
}

static void test_greedy(void **state)
{
    (void)state;
    bench b = make_bench(1);
    pawl_sampling s = {.temperature = 0};
    b.logits[70] = b.logits[20] = 9; /* ties go to the lower id */
    b.logits[90] = NAN;
    assert_int_equal(20, draw(&b, NULL, NULL, NULL, 0));
    assert_int_equal(20, draw(&b, &s, NULL, NULL, 0));
    uint32_t allow[4] = {~0u & ~(1u << 20), ~0u, ~0u, ~0u};
    assert_int_equal(70, draw(&b, &s, allow, NULL, 0));
    s.bias_ids = (const int32_t[]){5};
    s.bias = (const float[]){50};
    s.n_bias = 1;
    assert_int_equal(5, draw(&b, &s, NULL, NULL, 0));
}

/* How often each token comes, against its probability. */
static void test_distribution(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    bench b = make_bench(2);
    double p[VOCAB], total = 0;
    uint32_t count[VOCAB] = {0};
    pawl_sampling s = {.temperature = 1.5f, .seed = 42};
    for (uint32_t i = 0; i < VOCAB; i++)
        total += p[i] = exp((double)b.logits[i] / 1.5);
    for (uint32_t n = 0; n < DRAWS; n++)
        count[draw(&b, &s, NULL, NULL, n)]++;
    for (uint32_t i = 0; i < VOCAB; i++) {
        double want = p[i] / total * DRAWS;
        if (fabs(count[i] - want) > 5 * sqrt(want) + 3)
            fail_msg("token %u came %u times, expected %.1f", i, count[i], want);
    }
}

/* Which tokens come at all, against the definition of each cut. */
static void test_cuts(void **state)
{
    (void)state;
    bench b = make_bench(3);
    int32_t order[VOCAB];
    double total = 0, best;
    kernels_top_k(b.logits, VOCAB, VOCAB, order);
    for (uint32_t i = 0; i < VOCAB; i++)
        total += exp((double)b.logits[i]);
    best = exp((double)b.logits[order[0]]);
    uint32_t keep_p = 0, keep_min = 0;
    for (double sum = 0; sum < 0.5 * total; keep_p++)
        sum += exp((double)b.logits[order[keep_p]]);
    while (exp((double)b.logits[order[keep_min]]) >= 0.3 * best)
        keep_min++;
    struct {
        pawl_sampling s;
        uint32_t kept;
    } cases[] = {
        {{.temperature = 1, .top_k = 1}, 1},
        {{.temperature = 1, .top_k = 7}, 7},
        {{.temperature = 1, .top_p = 0.5f}, keep_p},
        {{.temperature = 1, .min_p = 0.3f}, keep_min},
        {{.temperature = 1, .top_p = 1e-6f}, 1},
        {{.temperature = 1, .top_k = 90, .top_p = 1}, 90},
        {{.temperature = 1, .top_k = 1000}, VOCAB},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t seen[VOCAB] = {0};
        uint32_t distinct = 0;
        for (uint64_t n = 0; n < 8000; n++)
            seen[draw(&b, &cases[i].s, NULL, NULL, n)] = 1;
        for (uint32_t k = 0; k < VOCAB; k++) {
            distinct += seen[order[k]];
            if (k >= cases[i].kept && seen[order[k]])
                fail_msg("case %zu: token of rank %u was drawn", i, k);
        }
        if (distinct < cases[i].kept * 8 / 10)
            fail_msg("case %zu: only %u tokens of %u were drawn", i, distinct, cases[i].kept);
    }
}

static void test_seed_and_position(void **state)
{
    (void)state;
    bench b = make_bench(4);
    pawl_sampling s = {.temperature = 2, .seed = 7};
    pawl_sampling other = {.temperature = 2, .seed = 8};
    int32_t first[200];
    uint32_t differ = 0;
    for (uint64_t n = 0; n < 200; n++)
        first[n] = draw(&b, &s, NULL, NULL, n);
    for (uint64_t n = 200; n-- > 0;) { /* in another order: a pure function */
        assert_int_equal(first[n], draw(&b, &s, NULL, NULL, n));
        differ += first[n] != draw(&b, &other, NULL, NULL, n);
    }
    assert_true(differ > 100);
    for (uint64_t n = 0; n < 1000; n++)
        assert_true(sample_random(n, n) >= 0 && sample_random(n, n) < 1);
}

static void test_penalties(void **state)
{
    (void)state;
    bench b = {0};
    const int32_t history[] = {9, 1, 1, 1, 2};
    b.logits[1] = 5;
    b.logits[2] = 4.5f;
    b.logits[3] = 4;
    b.logits[9] = 6;
    pawl_sampling s = {.presence_penalty = 1};
    assert_int_equal(9, draw(&b, &s, NULL, history, 0));
    assert_int_equal(9, draw(&b, &s, NULL, history, 5)); /* 6 - 1 */
    s.presence_penalty = 3;
    assert_int_equal(3, draw(&b, &s, NULL, history, 5));
    s.penalty_begin = 1; /* 9 is before */
    assert_int_equal(9, draw(&b, &s, NULL, history, 5));
    b.logits[9] = 0;
    s = (pawl_sampling){.frequency_penalty = 0.3f};
    assert_int_equal(2, draw(&b, &s, NULL, history, 5)); /* 5 - 0.9, 4.5 - 0.3 */
    s = (pawl_sampling){.repetition_penalty = 2};
    assert_int_equal(3, draw(&b, &s, NULL, history, 5));
    for (uint32_t i = 0; i < VOCAB; i++)
        assert_int_equal(0, b.seen[i]);
    b.logits[3] = -1;
    for (uint32_t i = 4; i < VOCAB; i++)
        b.logits[i] = -3;
    b.logits[0] = b.logits[1] = b.logits[2] = -2; /* negative ones become more so */
    assert_int_equal(3, draw(&b, &s, NULL, (const int32_t[]){4}, 1));
    s.repetition_penalty = 4;
    assert_int_equal(0, draw(&b, &s, NULL, (const int32_t[]){3}, 1));
}

static void test_masks(void **state)
{
    (void)state;
    bench b = make_bench(5);
    uint64_t seed = 6;
    for (int round = 0; round < 300; round++) {
        uint32_t allow[4];
        for (size_t i = 0; i < 4; i++)
            allow[i] = (uint32_t)(tiny_next(&seed) & tiny_next(&seed) & tiny_next(&seed));
        allow[0] |= 2;
        pawl_sampling s = {.temperature = 1,
                           .seed = seed,
                           .top_k = (uint32_t)(round % 3 * 4),
                           .top_p = round % 2 ? 0.9f : 0};
        int32_t token = draw(&b, &s, allow, NULL, 1);
        assert_true(allow[token / 32] >> token % 32 & 1);
    }
    const uint32_t beyond[4] = {0, 0, 0, 0xfffffff0u}; /* ids 100 and up do not exist */
    assert_int_equal(PAWL_E_ARGUMENT, sample_check(NULL, beyond, VOCAB));
}

static void test_refusals(void **state)
{
    (void)state;
    const int32_t outside[] = {(int32_t)VOCAB};
    const float one[] = {1};
    const float undefined[] = {NAN};
    const pawl_sampling bad[] = {
        {.temperature = -1},
        {.temperature = NAN},
        {.top_p = 1.5f},
        {.min_p = -0.1f},
        {.repetition_penalty = -1},
        {.presence_penalty = INFINITY},
        {.n_bias = 1},
        {.n_bias = 1, .bias_ids = outside, .bias = one},
        {.n_bias = 1, .bias_ids = (const int32_t[]){1}, .bias = undefined},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(PAWL_E_ARGUMENT, sample_check(&bad[i], NULL, VOCAB));
}

/* Through the engine: top log-probabilities are of the plain distribution. */
static void test_top(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_default();
    char *path = tiny_write(&shape);
    pawl_engine *engine = tiny_open(path, 2, "{}");
    pawl_sequence *sequence = tiny_sequence(engine);
    float *logits = tiny_floats(shape.vocab);
    struct pawl_top top[10];
    int32_t out = -1;
    float logprob = 1;
    uint32_t only[8] = {1u << 5};
    pawl_sampling s = {.struct_size = sizeof s, .temperature = 0.7f, .top_k = 3};
    pawl_slot slot = {.sequence = sequence,
                      .tokens = (const int32_t[]){3, 1, 4},
                      .n_tokens = 3,
                      .flags = PAWL_SLOT_SAMPLE,
                      .sampling = &s,
                      .allow = only,
                      .allow_stride = 7,
                      .out_tokens = &out,
                      .out_logprobs = &logprob,
                      .n_top = 10,
                      .top = top,
                      .logits = logits,
                      .n_logits = 1};
    assert_int_equal(PAWL_OK, tiny_submit(engine, &slot, 1));
    assert_int_equal(PAWL_OK, slot.status);
    assert_int_equal(1, slot.n_out);
    assert_int_equal(10, slot.n_top);
    assert_int_equal(5, out);
    double sum = 0;
    for (uint32_t v = 0; v < shape.vocab; v++)
        sum += exp((double)logits[v]);
    assert_true(fabs((double)logprob - ((double)logits[5] - log(sum))) < 1e-4);
    int32_t want[10];
    kernels_top_k(logits, shape.vocab, 10, want);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(want[i], top[i].token);
        assert_true(fabs((double)top[i].logprob - ((double)logits[want[i]] - log(sum))) < 1e-4);
    }
    tiny_api()->sequence_close(sequence);
    tiny_api()->close(engine);
    free(logits);
    tiny_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),    cmocka_unit_test(test_distribution),
        cmocka_unit_test(test_cuts),      cmocka_unit_test(test_seed_and_position),
        cmocka_unit_test(test_penalties), cmocka_unit_test(test_masks),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_top),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
