/*
 * tests/unit/kernels/reference_test.c - the reference table against arithmetic in
 * double precision, and what needs no table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "data.h"

static void near(double want, double got, double tolerance, const char *what)
{
    if (!(fabs(want - got) <= tolerance))
        fail_msg("%s: %.9g instead of %.9g", what, got, want);
}

/* Every F16 there is comes back from F32, and halfway values go to even. */
static void test_f16(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float wide = kernels_f32_from_f16((uint16_t)bits);
        uint16_t back = kernels_f16_from_f32(wide);
        if (wide == wide)
            assert_int_equal(bits, back);
        else
            assert_int_equal(bits | 0x200, back);
    }
    assert_int_equal(0x3c00, kernels_f16_from_f32(1.0f + 0x1p-11f)); /* tie: even below */
    assert_int_equal(0x3c02, kernels_f16_from_f32(1.0f + 3 * 0x1p-11f));
    assert_int_equal(0x3c01, kernels_f16_from_f32(1.0f + 0x1.2p-11f));
    assert_int_equal(0x7bff, kernels_f16_from_f32(65519.0f));
    assert_int_equal(0x7c00, kernels_f16_from_f32(65520.0f));
    assert_int_equal(0x0001, kernels_f16_from_f32(0x1.8p-25f));
    assert_int_equal(0x8000, kernels_f16_from_f32(-0x1p-25f));
}

static void test_exponential(void **state)
{
    (void)state;
    const kernels_table *table = kernels_choose("reference");
    for (int i = -8600; i <= 0; i++) {
        float x = (float)i / 100.0f;
        double want = exp((double)x);
        near(want, (double)table->sum_exp(&x, 1, 0.0f), 4e-7 * want, "exp");
    }
    assert_true(table->sum_exp(&(float){-88.0f}, 1, 0.0f) == 0.0f);
    assert_true(table->sum_exp(&(float){-INFINITY}, 1, 0.0f) == 0.0f);
}

/* Hand-made blocks of each type. */
static void test_block_layouts(void **state)
{
    (void)state;
    const kernels_table *table = kernels_choose("reference");
    float out[32];
    uint8_t q4_1[20] = {0x00, 0x38, 0x00, 0x3c}; /* d 0.5, m 1 */
    q4_1[4] = 0xf3;                              /* number 0 is 3, number 16 is 15 */
    table->dequantise(KERNELS_Q4_1, q4_1, 0, 32, out);
    near(2.5, (double)out[0], 0, "Q4_1 number 0");
    near(8.5, (double)out[16], 0, "Q4_1 number 16");
    near(1.0, (double)out[1], 0, "Q4_1 number 1");
    uint8_t q4_0[18] = {0x00, 0x40, 0x1a}; /* d 2 */
    table->dequantise(KERNELS_Q4_0, q4_0, 0, 32, out);
    near(4.0, (double)out[0], 0, "Q4_0 number 0");
    near(-14.0, (double)out[16], 0, "Q4_0 number 16");
    uint8_t q5_0[22] = {0x00, 0x3c, 0x01, 0x00, 0x02, 0x00, 0x05, 0x70}; /* d 1 */
    table->dequantise(KERNELS_Q5_0, q5_0, 0, 32, out);
    near(5.0, (double)out[0], 0, "Q5_0 number 0");
    near(7.0, (double)out[17], 0, "Q5_0 number 17");
    near(-16.0, (double)out[1], 0, "Q5_0 number 1");
    uint8_t q5_1[24] = {0x00, 0x3c, 0x00, 0xbc, 0x00, 0x00, 0x00, 0x80}; /* d 1, m -1 */
    q5_1[8 + 15] = 0x12;
    table->dequantise(KERNELS_Q5_1, q5_1, 0, 32, out);
    near(1.0, (double)out[15], 0, "Q5_1 number 15");
    near(16.0, (double)out[31], 0, "Q5_1 number 31");
    uint8_t q8_0[34] = {0x00, 0x3c, 0x80, 0x7f};
    table->dequantise(KERNELS_Q8_0, q8_0, 0, 32, out);
    near(-128.0, (double)out[0], 0, "Q8_0 number 0");
    near(127.0, (double)out[1], 0, "Q8_0 number 1");
    uint8_t bf16[4] = {0x80, 0x3f, 0x00, 0xc0};
    table->dequantise(KERNELS_BF16, bf16, 0, 2, out);
    near(1.0, (double)out[0], 0, "BF16");
    near(-2.0, (double)out[1], 0, "BF16");
}

/* Against the dequantised matrix: F32 closely, int8 within its rounding. */
static void test_matmul(void **state)
{
    (void)state;
    enum { ROWS = 21, COLUMNS = 1280, R = 2 };
    const kernels_table *table = kernels_choose("reference");
    for (uint32_t type = 0; type < KERNELS_TYPES; type++) {
        uint64_t seed = type;
        kernels_matrix w = data_matrix(&seed, type, ROWS, COLUMNS);
        float *x = data_row(&seed, R * COLUMNS, 1);
        uint8_t *q8 = data_bytes(R * kernels_q8_bytes(COLUMNS, 2));
        float exact[R * ROWS], fast[2][R * ROWS], row[COLUMNS];
        table->matmul_f32(&w, 0, ROWS, x, COLUMNS, R, exact, ROWS);
        for (uint32_t levels = 1; levels <= 2; levels++) {
            size_t stride = kernels_q8_bytes(COLUMNS, levels);
            for (size_t j = 0; j < R; j++)
                table->quantise(x + j * COLUMNS, COLUMNS, levels, q8 + j * stride);
            if (kernels_type_has_blocks(type))
                table->matmul_q8(&w, 0, ROWS, q8, levels, R, fast[levels - 1], ROWS);
        }
        for (size_t i = 0; i < R * ROWS; i++) {
            size_t stride = kernels_row_bytes(type, COLUMNS);
            double want = 0, size = 0;
            table->dequantise(type, (const uint8_t *)w.data + i % ROWS * stride, 0, COLUMNS, row);
            for (size_t c = 0; c < COLUMNS; c++) {
                want += (double)row[c] * (double)x[i / ROWS * COLUMNS + c];
                size += fabs((double)row[c]);
            }
            near(want, (double)exact[i], 1e-5 * size, "matmul_f32");
            if (!kernels_type_has_blocks(type))
                continue;
            near(want, (double)fast[0][i], 0.3 * size / 127, "matmul_q8"); /* half a step, ... */
            near(want, (double)fast[1][i], 0.3 * size / 16256 + 1e-5 * size, "two levels");
        }
        free((void *)(uintptr_t)w.data);
        free(x);
        free(q8);
    }
}

static void test_rows(void **state)
{
    (void)state;
    const kernels_table *table = kernels_choose("reference");
    uint64_t seed = 3;
    float *x = data_row(&seed, 100, 6);
    float *w = data_row(&seed, 100, 2);
    float y[100];
    double squares = 0;
    for (size_t i = 0; i < 100; i++)
        squares += (double)x[i] * (double)x[i];
    table->rmsnorm(x, w, 100, 1e-5f, y);
    for (size_t i = 0; i < 100; i++)
        near((double)x[i] * (double)w[i] / sqrt(squares / 100 + 1e-5), (double)y[i], 2e-6,
             "rmsnorm");
    table->silu_mul(x, w, 100, y);
    for (size_t i = 0; i < 100; i++)
        near((double)x[i] / (1 + exp(-(double)x[i])) * (double)w[i], (double)y[i], 4e-6, "silu");
    free(x);
    free(w);
}

/* Three spans of one query, the last one partly visible. */
static void test_attention(void **state)
{
    (void)state;
    enum { HEAD = 20, VISIBLE = 2 * KERNELS_SPAN + 70 };
    const kernels_table *table = kernels_choose("reference");
    uint64_t seed = 11;
    float *keys = data_row(&seed, 12 * KERNELS_PAGE * HEAD, 2);
    float *values = data_row(&seed, 12 * KERNELS_PAGE * HEAD, 1);
    float *q = data_row(&seed, HEAD, 3);
    float scores[KERNELS_SPAN], running[HEAD + 2], next[HEAD + 2], out[HEAD];
    for (uint32_t s = 0; s < 3; s++) {
        uint32_t visible = s < 2 ? KERNELS_SPAN : VISIBLE % KERNELS_SPAN;
        float *partial = s ? next : running;
        kernels_span span = {.kv = KERNELS_KV_F32,
                             .head_size = HEAD,
                             .scale = 0.5f,
                             .queries = 1,
                             .q = (const float *const[]){q},
                             .visible = &visible,
                             .scores = scores,
                             .partial = &partial};
        for (size_t i = 0; i < KERNELS_SPAN_PAGES; i++) {
            span.keys[i] = keys + (4 * s + i) * KERNELS_PAGE * HEAD;
            span.values[i] = values + (4 * s + i) * KERNELS_PAGE * HEAD;
        }
        table->attention_span(&span);
        if (s)
            table->attention_merge(running, next, HEAD);
    }
    table->attention_finish(running, HEAD, out);
    double sum = 0, want[HEAD] = {0};
    for (size_t t = 0; t < VISIBLE; t++) {
        double score = 0;
        for (size_t c = 0; c < HEAD; c++)
            score += (double)q[c] * (double)keys[(t / 64 * HEAD + c) * 64 + t % 64];
        double p = exp(0.5 * score);
        sum += p;
        for (size_t c = 0; c < HEAD; c++)
            want[c] += p * (double)values[t * HEAD + c];
    }
    for (size_t c = 0; c < HEAD; c++)
        near(want[c] / sum, (double)out[c], 2e-6, "attention");
    free(keys);
    free(values);
    free(q);
}

static void test_rope(void **state)
{
    (void)state;
    const float angles[4] = {0.0f, 1.0f, 1.0f, 0.0f}; /* a quarter turn, no turn */
    float pairs[4] = {1, 2, 3, 4};
    float halves[4] = {1, 2, 3, 4};
    kernels_rope(KERNELS_ROPE_PAIRS, pairs, angles, 2);
    kernels_rope(KERNELS_ROPE_HALVES, halves, angles, 2);
    const float want_pairs[4] = {-2, 1, 3, 4};
    const float want_halves[4] = {-3, 2, 1, 4};
    assert_memory_equal(want_pairs, pairs, sizeof pairs);
    assert_memory_equal(want_halves, halves, sizeof halves);
}

static void test_top_k(void **state)
{
    (void)state;
    uint64_t seed = 17;
    float x[300];
    int32_t ids[300];
    for (size_t i = 0; i < 300; i++)
        x[i] = (float)(data_next(&seed) % 40); /* many equals */
    x[7] = NAN;
    for (size_t k = 0; k <= 301; k += 43) {
        size_t got = kernels_top_k(x, 300, k, ids);
        assert_int_equal(k < 300 ? k : 300, got);
        for (size_t i = 1; i < got; i++) {
            float a = x[ids[i - 1]];
            float b = x[ids[i]];
            assert_true(a > b || (a == b && ids[i - 1] < ids[i]) || b != b);
        }
        size_t better = 0; /* nothing outside may beat the last one inside */
        for (size_t i = 0; got && got < 300 && i < 300; i++)
            better +=
                x[i] > x[ids[got - 1]] || (x[i] == x[ids[got - 1]] && (int32_t)i < ids[got - 1]);
        assert_int_equal(got && got < 300 ? got - 1 : 0, better);
    }
    assert_int_equal(300, kernels_top_k(x, 300, 300, ids));
    assert_int_equal(7, ids[299]);
}

static void test_choice(void **state)
{
    (void)state;
    assert_null(kernels_choose("sse9"));
    assert_non_null(kernels_choose("auto"));
    assert_string_equal("reference", kernels_choose("reference")->name);
    assert_int_equal(0, kernels_row_bytes(KERNELS_Q4_1, 33));
    assert_int_equal(360, kernels_row_bytes(KERNELS_Q4_1, 576));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),           cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_block_layouts), cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_rows),          cmocka_unit_test(test_attention),
        cmocka_unit_test(test_rope),          cmocka_unit_test(test_top_k),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
