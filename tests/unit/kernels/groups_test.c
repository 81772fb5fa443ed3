/*
 * tests/unit/kernels/groups_test.c - the K types, IQ4 and MXFP4 against golden
 * numbers (tests/golden/kernels), bit for bit, on every table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "data.h"

enum { WEIGHTS = 1024 };

/* Numbers and blocks of a golden file. */
typedef struct golden {
    float numbers[WEIGHTS];
    uint8_t row[WEIGHTS * 2];
} golden;

static void golden_read(uint32_t type, golden *g)
{
    char path[512];
    size_t bytes = kernels_row_bytes(type, WEIGHTS);
    assert_true(bytes > 0 && bytes < sizeof g->row);
    snprintf(path, sizeof path, "%s/tests/golden/kernels/%s.bin", PAWL_SOURCE_DIR,
             kernels_type_name(type));
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    assert_int_equal(WEIGHTS, fread(g->numbers, sizeof(float), WEIGHTS, file));
    assert_int_equal(bytes, fread(g->row, 1, bytes, file));
    assert_int_equal(EOF, fgetc(file));
    fclose(file);
}

static void expect_bits(const kernels_table *table, uint32_t type, const golden *g, size_t begin,
                        size_t count)
{
    float got[WEIGHTS + 1];
    got[count] = 42.0f;
    table->dequantise(type, g->row, begin, count, got);
    for (size_t i = 0; i < count; i++)
        if (memcmp(&got[i], &g->numbers[begin + i], sizeof got[i]) != 0)
            fail_msg("%s of %s: number %zu is %.9g, expected %.9g", kernels_type_name(type),
                     table->name, begin + i, (double)got[i], (double)g->numbers[begin + i]);
    assert_true(got[count] == 42.0f);
}

static void test_golden(void **state)
{
    (void)state;
    const kernels_table *tables[3];
    size_t n_tables = data_tables(tables);
    for (uint32_t type = KERNELS_Q5_1 + 1; type < KERNELS_TYPES; type++) {
        golden g;
        golden_read(type, &g);
        for (size_t t = 0; t < n_tables; t++) {
            expect_bits(tables[t], type, &g, 0, WEIGHTS);
            expect_bits(tables[t], type, &g, 256, 256);
            expect_bits(tables[t], type, &g, 32, 64);  /* within a block */
            expect_bits(tables[t], type, &g, 224, 96); /* over its end */
        }
    }
}

static void test_blocks(void **state)
{
    (void)state;
    for (uint32_t type = KERNELS_Q5_1 + 1; type < KERNELS_TYPES; type++) {
        size_t elements = kernels_block_elements(type);
        bool narrow = type == KERNELS_IQ4_NL || type == KERNELS_MXFP4;
        assert_int_equal(narrow ? 32 : 256, elements);
        assert_int_equal(0, kernels_row_bytes(type, elements + elements / 2));
        assert_false(kernels_type_has_blocks(type));
    }
    assert_true(kernels_type_has_blocks(KERNELS_Q5_1));
    assert_int_equal(210 * 3, kernels_row_bytes(KERNELS_Q6_K, 768));
    assert_int_equal(1, kernels_block_elements(KERNELS_BF16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
