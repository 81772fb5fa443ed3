/*
 * kv_sum_test.c - the checksum of chunks: splits, sizes, single bits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "store/kv_sum.h"

enum { SIZE = 300 };

static uint64_t sum_of(const uint8_t *data, size_t size)
{
    kv_sum sum;
    kv_sum_begin(&sum);
    kv_sum_add(&sum, data, size);
    return kv_sum_end(&sum);
}

static void fill(uint8_t data[SIZE])
{
    for (int i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
}

/* The format: these never change. */
static void known_sums(void **state)
{
    uint8_t data[SIZE];
    (void)state;
    fill(data);
    assert_true(sum_of(data, 0) == UINT64_C(0xa87ae9644158eb89));
    assert_true(sum_of(data, 1) == UINT64_C(0xeae583a5282fbfc3));
    assert_true(sum_of(data, SIZE) == UINT64_C(0xa18001377214739e));
}

static void any_split_is_the_same(void **state)
{
    uint8_t data[SIZE];
    unsigned seed = 1;
    (void)state;
    fill(data);
    for (int round = 0; round < 2000; round++) {
        size_t size = (size_t)rand_r(&seed) % SIZE, at = 0;
        kv_sum sum;
        kv_sum_begin(&sum);
        while (at < size) {
            size_t n = (size_t)rand_r(&seed) % 70;
            n = n < size - at ? n : size - at;
            kv_sum_add(&sum, data + at, n);
            at += n;
        }
        assert_true(kv_sum_end(&sum) == sum_of(data, size));
    }
}

static void every_bit_and_end_counts(void **state)
{
    uint8_t data[SIZE], zeros[SIZE] = {0};
    (void)state;
    fill(data);
    uint64_t whole = sum_of(data, SIZE);
    for (int bit = 0; bit < SIZE * 8; bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_true(sum_of(data, SIZE) != whole);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < SIZE; n++)
        assert_true(sum_of(data, n) != whole && sum_of(zeros, n) != sum_of(zeros, n + 1));
}

/* Blocks that change places, as lost and torn writes make them. */
static void order_counts(void **state)
{
    uint8_t data[SIZE], other[SIZE];
    (void)state;
    fill(data);
    for (size_t a = 0; a + 16 <= 256; a += 8) {
        memcpy(other, data, SIZE);
        memcpy(other + a, data + a + 8, 8);
        memcpy(other + a + 8, data + a, 8);
        assert_true(sum_of(other, SIZE) != sum_of(data, SIZE));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_sums),
        cmocka_unit_test(any_split_is_the_same),
        cmocka_unit_test(every_bit_and_end_counts),
        cmocka_unit_test(order_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
