/*
 * tests/unit/kernels/equal_test.c - every table gives the reference's bits, and a
 * result does not depend on how the work was cut.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "data.h"

static const size_t lengths[] = {32, 64, 96, 256, 576, 768, 1056};

static void same_bits(const void *a, const void *b, size_t bytes, const kernels_table *table,
                      const char *what)
{
    if (memcmp(a, b, bytes) != 0)
        fail_msg("%s of %s differs from the reference", what, table->name);
}

static void test_dequantise_and_quantise(void **state)
{
    (void)state;
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    uint64_t seed = 1;
    for (uint32_t type = 0; type < KERNELS_TYPES; type++) {
        kernels_matrix w = data_matrix(&seed, type, 1, 256);
        float *want = data_row(&seed, 256, 1);
        float *got = data_row(&seed, 256, 1);
        uint8_t *want_q8 = data_bytes(kernels_q8_bytes(256, 2));
        uint8_t *got_q8 = data_bytes(kernels_q8_bytes(256, 2));
        for (size_t t = 0; t < n_tables; t++) {
            tables[0]->dequantise(type, w.data, 0, 256, want);
            tables[t]->dequantise(type, w.data, 0, 256, got);
            same_bits(want, got, 256 * 4, tables[t], "dequantise");
            tables[t]->dequantise(type, w.data, 64, 96, got);
            same_bits(want + 64, got, 96 * 4, tables[t], "dequantise of a part");
            for (uint32_t levels = 1; levels <= 2; levels++) {
                tables[0]->quantise(want, 256, levels, want_q8);
                tables[t]->quantise(want, 256, levels, got_q8);
                same_bits(want_q8, got_q8, kernels_q8_bytes(256, levels), tables[t], "quantise");
            }
        }
        free((void *)(uintptr_t)w.data);
        free(want);
        free(got);
        free(want_q8);
        free(got_q8);
    }
}

static void test_quantise_odd_values(void **state)
{
    (void)state;
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    float x[96] = {0};
    x[3] = 0x1p-140f; /* a block of almost nothing */
    x[32] = NAN;
    x[33] = 1.0f;
    x[64] = INFINITY;
    x[65] = -2.0f;
    uint8_t *want = data_bytes(kernels_q8_bytes(96, 2));
    uint8_t *got = data_bytes(kernels_q8_bytes(96, 2));
    for (uint32_t levels = 1; levels <= 2; levels++) {
        tables[0]->quantise(x, 96, levels, want);
        for (size_t i = 0; i < 32; i++)
            assert_int_equal(0, want[i]);
        for (size_t t = 1; t < n_tables; t++) {
            tables[t]->quantise(x, 96, levels, got);
            same_bits(want, got, 96 * levels + 9 * 4, tables[t], "quantise of odd values");
        }
    }
    free(want);
    free(got);
}

/* All rows at once with the reference; then in pieces with the table. levels 0: F32. */
static void compare_matmul(const kernels_table *reference, const kernels_table *table,
                           uint32_t type, size_t rows, size_t columns, size_t r, uint32_t levels)
{
    if (kernels_row_bytes(type, columns) == 0)
        return; /* not a length of this type */
    uint64_t seed = type * 1000 + rows + columns + r;
    kernels_matrix w = data_matrix(&seed, type, rows, columns);
    float *x = data_row(&seed, r * columns, 1);
    size_t q8_bytes = kernels_q8_bytes(columns, levels);
    uint8_t *quantised = data_bytes(r * q8_bytes + 64);
    float *want = data_row(&seed, r * rows, 1);
    float *got = data_row(&seed, r * rows, 1);
    for (size_t j = 0; levels && j < r; j++)
        reference->quantise(x + j * columns, columns, levels, quantised + j * q8_bytes);
    if (levels)
        reference->matmul_q8(&w, 0, rows, quantised, levels, r, want, rows);
    else
        reference->matmul_f32(&w, 0, rows, x, columns, r, want, rows);
    size_t cut = rows / 2; /* not always a multiple of a panel */
    for (size_t part = 0; part < 2; part++) {
        size_t begin = part ? cut : 0;
        size_t end = part ? rows : cut;
        size_t first = r / 3; /* the first activation rows alone, then the others */
        for (size_t j = 0; j < r; j += first ? first : r) {
            size_t count = first && j + first <= r ? first : r - j;
            if (levels)
                table->matmul_q8(&w, begin, end, quantised + j * q8_bytes, levels, count,
                                 got + j * rows, rows);
            else
                table->matmul_f32(&w, begin, end, x + j * columns, columns, count, got + j * rows,
                                  rows);
        }
    }
    same_bits(want, got, r * rows * 4, table, kernels_type_name(type));
    free((void *)(uintptr_t)w.data);
    free(x);
    free(quantised);
    free(want);
    free(got);
}

static void test_matmul(void **state)
{
    (void)state;
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    static const size_t r[] = {1, 2, 3, 7, 19};
    for (size_t t = 0; t < n_tables; t++) {
        for (uint32_t type = 0; type < KERNELS_TYPES; type++) {
            for (size_t i = 0; i < sizeof r / sizeof r[0]; i++) {
                for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
                    compare_matmul(tables[0], tables[t], type, 37, lengths[l], r[i], 0);
                    for (uint32_t levels = 1; kernels_type_has_blocks(type) && levels <= 2;
                         levels++)
                        compare_matmul(tables[0], tables[t], type, 37, lengths[l], r[i], levels);
                }
            }
            compare_matmul(tables[0], tables[t], type, 5, 77, 3, 0);
        }
    }
}

/* The largest products: no vector path may saturate. */
static void test_extreme_blocks(void **state)
{
    (void)state;
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    for (uint32_t type = KERNELS_Q8_0; kernels_type_has_blocks(type); type++) {
        uint64_t seed = 5;
        kernels_matrix w = data_matrix(&seed, type, 16, 64);
        size_t block = kernels_row_bytes(type, 32);
        for (size_t i = 0; i < 32; i++)
            memset((uint8_t *)(uintptr_t)w.data + i * block + 4, type == KERNELS_Q8_0 ? 0x80 : 0xff,
                   block - 4);
        float x[64];
        for (size_t i = 0; i < 64; i++)
            x[i] = -1.0f;
        uint8_t *quantised = data_bytes(kernels_q8_bytes(64, 2));
        float want[16], got[16];
        for (uint32_t levels = 1; levels <= 2; levels++) {
            tables[0]->quantise(x, 64, levels, quantised);
            tables[0]->matmul_q8(&w, 0, 16, quantised, levels, 1, want, 16);
            for (size_t t = 1; t < n_tables; t++) {
                tables[t]->matmul_q8(&w, 0, 16, quantised, levels, 1, got, 16);
                same_bits(want, got, sizeof want, tables[t], "matmul of extremes");
            }
        }
        free((void *)(uintptr_t)w.data);
        free(quantised);
    }
}

static void compare_rows(const kernels_table *reference, const kernels_table *table, size_t n)
{
    uint64_t seed = n;
    float *x = data_row(&seed, n, 9);
    float *w = data_row(&seed, n, 2);
    float *want = data_row(&seed, n, 1);
    float *got = data_row(&seed, n, 1);
    reference->rmsnorm(x, w, n, 1e-5f, want);
    table->rmsnorm(x, w, n, 1e-5f, got);
    same_bits(want, got, n * 4, table, "rmsnorm");
    reference->silu_mul(x, w, n, want);
    table->silu_mul(x, w, n, got);
    same_bits(want, got, n * 4, table, "silu_mul");
    reference->add(want, x, n);
    table->add(got, x, n);
    same_bits(want, got, n * 4, table, "add");
    float a = reference->softmax_exp(x, n, 9.0f, want);
    float b = table->softmax_exp(x, n, 9.0f, got);
    same_bits(&a, &b, 4, table, "softmax_exp");
    same_bits(want, got, n * 4, table, "softmax_exp");
    b = table->sum_exp(x, n, 9.0f);
    same_bits(&a, &b, 4, table, "sum_exp");
    x[n / 2] = NAN;
    x[n - 1] = x[n / 3] = 10.0f;
    assert_int_equal(n / 3, reference->argmax(x, n));
    assert_int_equal(n / 3, table->argmax(x, n));
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
    assert_int_equal(0, table->argmax(x, n));
    free(x);
    free(w);
    free(want);
    free(got);
}

static void test_rows(void **state)
{
    (void)state;
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    static const size_t n[] = {3, 8, 15, 16, 17, 33, 100, 576, 1531};
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
            compare_rows(tables[0], tables[t], n[i]);
}

enum { QUERIES = 7 };

static void run_span(const kernels_table *table, kernels_span *span, float *out)
{
    float *partial[QUERIES];
    for (size_t i = 0; i < QUERIES; i++)
        partial[i] = out + i * kernels_partial_size(span->head_size);
    span->partial = partial;
    table->attention_span(span);
}

/* Eight halves of a page: random elements, and scales where there are any. */
static uint8_t *random_halves(const kernels_table *reference, uint64_t *seed, uint32_t kv,
                              size_t head)
{
    size_t bytes = kernels_kv_bytes(kv, head);
    size_t n = head * KERNELS_PAGE;
    size_t scales = kernels_kv_blocks(kv, head) * KERNELS_PAGE;
    uint8_t *halves = data_bytes(8 * bytes);
    uint16_t *ignored = data_bytes((n / KERNELS_BLOCK + 1) * sizeof *ignored);
    for (size_t i = 0; i < 8; i++) {
        float *x = data_row(seed, n, 1);
        float *of = data_row(seed, scales, 0.01f);
        reference->pack_kv(kv, x, n, halves + i * bytes, ignored);
        reference->pack_kv(KERNELS_KV_F16, of, scales,
                           halves + i * bytes + n * kernels_kv_element(kv), NULL);
        free(x);
        free(of);
    }
    free(ignored);
    return halves;
}

static void compare_attention(const kernels_table *reference, const kernels_table *table,
                              size_t head, uint32_t kv)
{
    uint64_t seed = head;
    size_t half = kernels_kv_bytes(kv, head);
    uint8_t *pool = random_halves(reference, &seed, kv, head);
    float *q = data_row(&seed, QUERIES * head, 1);
    const float *rows[QUERIES];
    uint32_t visible[QUERIES] = {256, 1, 200, 64, 65, 128, 9};
    float *scores = data_row(&seed, QUERIES * KERNELS_SPAN, 0);
    size_t partial = kernels_partial_size(head);
    float *want = data_row(&seed, QUERIES * partial, 0);
    float *got = data_row(&seed, QUERIES * partial, 0);
    float *alone = data_row(&seed, QUERIES * partial, 0);
    kernels_span span = {.kv = kv,
                         .head_size = head,
                         .scale = 0.3f,
                         .queries = QUERIES,
                         .q = rows,
                         .visible = visible,
                         .scores = scores};
    for (size_t i = 0; i < 4; i++) {
        span.keys[i] = pool + i * half;
        span.values[i] = pool + (4 + i) * half;
    }
    for (size_t i = 0; i < QUERIES; i++)
        rows[i] = q + i * head;
    run_span(reference, &span, want);
    run_span(table, &span, got);
    same_bits(want, got, QUERIES * partial * 4, table, "attention_span");
    span.queries = 1;
    for (size_t i = 0; i < QUERIES; i++) {
        span.q = rows + i;
        span.visible = visible + i;
        run_span(table, &span, alone + i * partial);
    }
    same_bits(want, alone, QUERIES * partial * 4, table, "attention_span of one query");
    reference->attention_merge(want, want + partial, head);
    table->attention_merge(got, got + partial, head);
    same_bits(want, got, partial * 4, table, "attention_merge");
    reference->attention_finish(want, head, scores);
    table->attention_finish(want, head, alone);
    same_bits(scores, alone, head * 4, table, "attention_finish");
    free(pool);
    free(q);
    free(scores);
    free(want);
    free(got);
    free(alone);
}

static void test_attention(void **state)
{
    (void)state;
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    static const size_t heads[] = {4, 16, 20, 44, 64, 80, 128};
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
            for (uint32_t kv = 0; kv < KERNELS_KV_TYPES; kv++)
                compare_attention(tables[0], tables[t], heads[i], kv);
}

/* Numbers of all sizes, and those that are none. */
static void test_pack_kv(void **state)
{
    (void)state;
    enum { N = 300 };
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    uint64_t seed = 23;
    float x[N];
    uint8_t *want = data_bytes(4 * N);
    uint8_t *got = data_bytes(4 * N);
    uint16_t want_scales[N / KERNELS_BLOCK + 1], got_scales[N / KERNELS_BLOCK + 1];
    for (size_t i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)data_next(&seed);
        if (i < N / 2 && (bits >> 23 & 255) == 255)
            bits ^= 1u << 30; /* finite in the first half */
        memcpy(&x[i], &bits, 4);
    }
    x[40] = INFINITY;
    x[80] = 65519.0f;
    x[81] = 65520.0f;
    for (size_t i = 96; i < 128; i++)
        x[i] = 1e-9f * data_float(&seed); /* its scale is nothing */
    for (size_t i = 128; i < 160; i++)
        x[i] = 3e-6f * data_float(&seed); /* its scale is tiny, and coarse */
    x[170] = NAN;
    for (uint32_t kv = 0; kv < KERNELS_KV_TYPES; kv++) {
        for (size_t n = 1; n <= N; n += n < 70 ? 1 : 23) {
            for (size_t t = 1; t < n_tables; t++) {
                memset(want, 0x55, 4 * N);
                memset(got, 0x55, 4 * N);
                memset(want_scales, 0, sizeof want_scales);
                memset(got_scales, 0, sizeof got_scales);
                tables[0]->pack_kv(kv, x, n, want, want_scales);
                tables[t]->pack_kv(kv, x, n, got, got_scales);
                same_bits(want, got, 4 * N, tables[t], "pack_kv");
                same_bits(want_scales, got_scales, sizeof want_scales, tables[t], "its scales");
            }
        }
    }
    free(want);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dequantise_and_quantise),
        cmocka_unit_test(test_quantise_odd_values),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_extreme_blocks),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_pack_kv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
