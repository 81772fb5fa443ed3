/*
 * tests/unit/cpu/batch_test.c - a sequence's logits do not depend on its company.
 *
 * The same tokens alone, in a batch, in chunks, one by one, on 1 to 3 threads,
 * with every instruction set, in a fork and after truncation: equal bits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>

#include "real.h"
#include "tiny.h"

#define LENGTH (TINY_SLOW ? 270u : 330u) /* two spans, five pages, more than two passes */
#define OTHERS 5u

/* What everything is compared with: one sequence, one thread, one submit. */
typedef struct expected {
    const char *path;
    uint32_t vocab;
    size_t n;
    int32_t *tokens;
    float *logits; /* [n][vocab] */
} expected;

static void expect_equal(const expected *e, const float *got, const char *what)
{
    for (size_t t = 0; t < e->n; t++)
        if (memcmp(e->logits + t * e->vocab, got + t * e->vocab, e->vocab * sizeof *got) != 0)
            fail_msg("%s: the logits of token %zu differ", what, t);
}

/* All tokens in chunks of `chunk`, with `company` other sequences in each submit. */
static void run_cut(pawl_engine *engine, const expected *e, size_t chunk, size_t company,
                    float *logits)
{
    pawl_slot slots[1 + OTHERS];
    pawl_sequence *sequences[1 + OTHERS];
    for (size_t i = 0; i <= company; i++)
        sequences[i] = tiny_sequence(engine);
    for (size_t at = 0; at < e->n; at += chunk) {
        size_t n = at + chunk < e->n ? chunk : e->n - at;
        memset(slots, 0, sizeof slots);
        for (size_t i = 0; i <= company; i++) {
            size_t place = (i + at) % (company + 1); /* another order each time */
            slots[place] = (pawl_slot){.sequence = sequences[i],
                                       .tokens = i ? e->tokens + i : e->tokens + at,
                                       .n_tokens = i ? (i * 7 + at) % 9 + 1 : n,
                                       .logits = i ? NULL : logits + at * e->vocab,
                                       .n_logits = i ? 0 : n};
        }
        assert_int_equal(PAWL_OK, tiny_submit(engine, slots, company + 1));
        for (size_t i = 0; i <= company; i++)
            assert_int_equal(PAWL_OK, slots[i].status);
    }
    for (size_t i = 0; i <= company; i++)
        tiny_api()->sequence_close(sequences[i]);
}

static void compare_cuts(const expected *e, uint32_t threads, const char *options)
{
    static const struct {
        size_t chunk;
        size_t company;
    } ways[] = {{100, 0}, {129, OTHERS}, {1, 0}, {64, 0}, {130, 0}, {1000, 3}, {7, OTHERS}};
    size_t n = TINY_SLOW ? 2 : sizeof ways / sizeof ways[0];
    float *logits = tiny_floats(e->n * e->vocab);
    pawl_engine *engine = tiny_open(e->path, threads, options);
    for (size_t i = 0; i < n; i++) {
        char what[96];
        snprintf(what, sizeof what, "%s, %u threads, chunks of %zu beside %zu others", options,
                 threads, ways[i].chunk, ways[i].company);
        run_cut(engine, e, ways[i].chunk, ways[i].company, logits);
        expect_equal(e, logits, what);
    }
    tiny_api()->close(engine);
    free(logits);
}

static void begin(expected *e, const char *path, uint32_t vocab, size_t n, const char *options)
{
    *e = (expected){path, vocab, n, tiny_tokens(3, n + OTHERS + 9, vocab), NULL};
    e->logits = tiny_floats(n * vocab);
    pawl_engine *engine = tiny_open(path, 1, options);
    pawl_sequence *sequence = tiny_sequence(engine);
    tiny_run(engine, sequence, e->tokens, n, e->logits, n);
    tiny_api()->sequence_close(sequence);
    tiny_api()->close(engine);
}

static void end(expected *e)
{
    free(e->tokens);
    free(e->logits);
}

static void test_tiny_models(void **state)
{
    (void)state;
    static const uint32_t types[] = {GGUF_T_Q4_1, GGUF_T_Q8_0, GGUF_T_F16};
    for (size_t i = 0; i < (TINY_SLOW ? 1 : 3); i++) {
        tiny_shape shape = tiny_shape_default();
        shape.type = types[i];
        char *path = tiny_write(&shape);
        expected e;
        begin(&e, path, shape.vocab, LENGTH, "{}");
        for (uint32_t threads = i || TINY_SLOW ? 2 : 1; threads <= (i ? 2 : 3); threads++)
            compare_cuts(&e, threads, "{}");
        end(&e);
        begin(&e, path, shape.vocab, LENGTH, "{\"numeric\":\"f32\"}");
        compare_cuts(&e, 2, "{\"numeric\":\"f32\"}");
        end(&e);
        tiny_remove(path);
    }
}

static void test_instruction_sets(void **state)
{
    (void)state;
    static const char *const names[] = {"reference", "avx2", "avx512"};
    tiny_shape shape = tiny_shape_default();
    char *path = tiny_write(&shape);
    expected e;
    begin(&e, path, shape.vocab, LENGTH, "{\"isa\":\"reference\"}");
    for (size_t i = 1; i < 3; i++) {
        char options[32];
        snprintf(options, sizeof options, "{\"isa\":\"%s\"}", names[i]);
        if (kernels_choose(names[i]))
            compare_cuts(&e, 2, options);
        else
            printf("SKIP %s: this machine has no such instructions\n", names[i]);
    }
    end(&e);
    tiny_remove(path);
}

/* The logits of one more token after the whole trunk, which stays as it is. */
static void probe(pawl_engine *engine, const pawl_sequence *trunk, float *logits)
{
    pawl_sequence *twig;
    const int32_t token = 7;
    assert_int_equal(PAWL_OK, tiny_api()->fork(trunk, LENGTH, &twig, NULL));
    tiny_run(engine, twig, &token, 1, logits, 1);
    tiny_api()->sequence_close(twig);
}

/* Forks at many places, then both go on; and truncation, then the same again. */
static void test_fork_and_truncate(void **state)
{
    (void)state;
    static const size_t places[] = {0, 1, 63, 64, 100, 255, 256, 257, SIZE_MAX};
    tiny_shape shape = tiny_shape_default();
    char *path = tiny_write(&shape);
    const pawl_engine_api *api = tiny_api();
    expected e;
    begin(&e, path, shape.vocab, LENGTH, "{}");
    float *logits = tiny_floats(LENGTH * shape.vocab);
    pawl_engine *engine = tiny_open(path, 2, "{}");
    pawl_sequence *trunk = tiny_sequence(engine);
    int32_t *other = tiny_tokens(99, LENGTH, shape.vocab);
    tiny_run(engine, trunk, e.tokens, LENGTH, NULL, 0);
    float *before = tiny_floats(shape.vocab);
    float *after = tiny_floats(shape.vocab);
    probe(engine, trunk, before);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        pawl_sequence *branch, *twig;
        size_t n = places[i] < LENGTH ? places[i] : LENGTH;
        memcpy(logits, e.logits, LENGTH * shape.vocab * sizeof *logits);
        assert_int_equal(PAWL_OK, api->fork(trunk, n, &branch, NULL));
        assert_int_equal(n, api->length(branch));
        tiny_run(engine, branch, other, 70, NULL, 0); /* must not show in the trunk */
        probe(engine, trunk, after);
        assert_memory_equal(before, after, shape.vocab * sizeof *before);
        assert_int_equal(PAWL_OK, api->fork(trunk, n, &twig, NULL));
        if (n < LENGTH) {
            tiny_run(engine, twig, e.tokens + n, LENGTH - n, logits + n * shape.vocab, LENGTH - n);
            expect_equal(&e, logits, "after a fork");
            memset(logits + n * shape.vocab, 0, (LENGTH - n) * shape.vocab * sizeof *logits);
            assert_int_equal(PAWL_OK, api->truncate(trunk, n, NULL));
            assert_int_equal(n, api->length(trunk));
            tiny_run(engine, trunk, e.tokens + n, LENGTH - n, logits + n * shape.vocab, LENGTH - n);
            expect_equal(&e, logits, "after truncation");
        }
        api->sequence_close(branch);
        api->sequence_close(twig);
    }
    uint64_t total, left;
    api->sequence_close(trunk);
    api->capacity(engine, &total, &left);
    assert_int_equal(total, left);
    api->close(engine);
    end(&e);
    free(before);
    free(after);
    free(logits);
    free(other);
    tiny_remove(path);
}

static void test_real_model(void **state)
{
    (void)state;
    char buffer[512];
    const char *path = real_model(buffer, sizeof buffer);
    if (!path) {
        skip();
        return;
    }
    expected e;
    begin(&e, path, 49152, TINY_SLOW ? 20 : 140, "{}");
    for (uint32_t threads = 1; threads <= 2; threads++) {
        float *logits = tiny_floats(e.n * e.vocab);
        pawl_engine *engine = tiny_open(path, threads, "{}");
        run_cut(engine, &e, 1, 0, logits);
        expect_equal(&e, logits, "SmolLM2 token by token");
        run_cut(engine, &e, 50, OTHERS, logits);
        expect_equal(&e, logits, "SmolLM2 in company");
        tiny_api()->close(engine);
        free(logits);
    }
    end(&e);
}

/* Two engines at once: nothing is shared between them. */
static void *use_engine(void *arg)
{
    const expected *e = arg;
    float *logits = tiny_floats(e->n * e->vocab);
    pawl_engine *engine = tiny_open(e->path, 2, "{}");
    for (int i = 0; i < (TINY_SLOW ? 1 : 3); i++) {
        run_cut(engine, e, 90, 2, logits);
        expect_equal(e, logits, "beside another engine");
    }
    tiny_api()->close(engine);
    free(logits);
    return NULL;
}

static void test_two_engines(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_default();
    char *path = tiny_write(&shape);
    expected e;
    pthread_t other;
    begin(&e, path, shape.vocab, LENGTH, "{}");
    assert_int_equal(0, pthread_create(&other, NULL, use_engine, &e));
    use_engine(&e);
    pthread_join(other, NULL);
    end(&e);
    tiny_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_models),       cmocka_unit_test(test_instruction_sets),
        cmocka_unit_test(test_fork_and_truncate), cmocka_unit_test(test_real_model),
        cmocka_unit_test(test_two_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
