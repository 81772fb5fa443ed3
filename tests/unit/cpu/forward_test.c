/*
 * tests/unit/cpu/forward_test.c - logits of small random models against a naive
 * forward pass in double precision.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "naive.h"

#define TOKENS 300 /* more than a span, and a part of a page */

/* Greatest difference of logits at a few positions, prefilled in two pieces. */
static double worst(const tiny_shape *shape, const char *options)
{
    static const size_t looked_at[] = {0, 1, 63, 64, 127, 255, 256, TOKENS - 1};
    naive n;
    char *path = tiny_write(shape);
    int32_t *tokens = tiny_tokens(7, TOKENS, shape->vocab);
    float *logits = tiny_floats((size_t)TOKENS * shape->vocab);
    double *want = calloc(shape->vocab, sizeof *want);
    pawl_engine *engine = tiny_open(path, 2, options);
    pawl_sequence *sequence = tiny_sequence(engine);
    tiny_run(engine, sequence, tokens, 70, logits, 70);
    tiny_run(engine, sequence, tokens + 70, TOKENS - 70, logits + 70 * shape->vocab, TOKENS - 70);
    naive_open(&n, path, shape);
    double most = 0;
    size_t next = 0;
    for (size_t t = 0; t < TOKENS; t++) {
        naive_step(&n, tokens[t], t, want);
        for (uint32_t v = 0; t == looked_at[next] && v < shape->vocab; v++) {
            double difference = fabs(want[v] - (double)logits[t * shape->vocab + v]);
            most = difference > most || difference != difference ? difference : most;
        }
        next += t == looked_at[next];
    }
    naive_close(&n);
    tiny_api()->sequence_close(sequence);
    tiny_api()->close(engine);
    tiny_remove(path);
    free(want);
    free(logits);
    free(tokens);
    return most;
}

static void expect_within(const tiny_shape *shape, const char *options, double tolerance,
                          const char *what)
{
    double got = worst(shape, options);
    printf("%s, %s: %.2g\n", what, options, got);
    if (!(got <= tolerance))
        fail_msg("%s, %s: logits are off by %g", what, options, got);
}

static void test_every_type(void **state)
{
    (void)state;
    static const uint32_t types[] = {GGUF_T_F32,  GGUF_T_F16,  GGUF_T_BF16, GGUF_T_Q8_0,
                                     GGUF_T_Q4_0, GGUF_T_Q4_1, GGUF_T_Q5_0, GGUF_T_Q5_1};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        tiny_shape shape = tiny_shape_default();
        shape.type = types[i];
        expect_within(&shape, "{\"numeric\":\"f32\"}", 1e-4, gguf_type_name(types[i]));
        expect_within(&shape, "{\"kv_type\":\"f32\"}", 0.5, gguf_type_name(types[i]));
    }
}

static void test_mixed_types(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_mixed();
    expect_within(&shape, "{\"numeric\":\"f32\"}", 1e-4, "mixed");
    expect_within(&shape, "{\"kv_type\":\"f32\"}", 0.5, "mixed");
}

static void test_every_instruction_set(void **state)
{
    (void)state;
    static const char *const names[] = {"reference", "avx2", "avx512"};
    tiny_shape shape = tiny_shape_default();
    for (size_t i = 0; i < 3; i++) {
        char options[64];
        snprintf(options, sizeof options, "{\"numeric\":\"f32\",\"isa\":\"%s\"}", names[i]);
        if (kernels_choose(names[i]))
            expect_within(&shape, options, 1e-4, "Q4_1");
        else
            printf("SKIP %s: this machine has no such instructions\n", names[i]);
    }
}

/* F16 keys and values round to 11 bits, Q8 to 8 of their block, BF16 to 8: close, but
 * not equal. */
static void test_kv_types(void **state)
{
    (void)state;
    static const struct {
        const char *options;
        double tolerance;
    } types[] = {{"{\"kv_type\":\"f32\"}", 1e-4},
                 {"{\"kv_type\":\"f16\"}", 0.02},
                 {"{\"kv_type\":\"q8\"}", 0.1},
                 {"{\"kv_type\":\"bf16\"}", 0.1}};
    tiny_shape shape = tiny_shape_default();
    shape.type = GGUF_T_F32;
    shape.head_size = 44; /* a block and a part of one */
    shape.heads[0] = shape.heads[1] = shape.heads[2] = 4;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        expect_within(&shape, types[i].options, types[i].tolerance, "F32");
}

static void test_variants(void **state)
{
    (void)state;
    tiny_shape shape = tiny_shape_default();
    shape.tied = true;
    shape.biases = true;
    expect_within(&shape, "{\"numeric\":\"f32\"}", 1e-4, "tied, with biases");
    shape = tiny_shape_default();
    shape.linear = 4.0f;
    shape.rope_factors = true;
    shape.rope_base = 500000.0f;
    expect_within(&shape, "{\"numeric\":\"f32\"}", 1e-4, "slowed rotation");
    shape = tiny_shape_default();
    shape.head_size = 24; /* no multiple of a register */
    shape.heads[1] = 4;
    shape.heads[2] = 8;
    expect_within(&shape, "{\"numeric\":\"f32\"}", 1e-4, "heads of 24");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_mixed_types),
        cmocka_unit_test(test_every_instruction_set),
        cmocka_unit_test(test_kv_types),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
