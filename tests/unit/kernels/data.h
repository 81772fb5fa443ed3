/*
 * tests/unit/kernels/data.h - random rows and matrices for the kernel tests.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_UNIT_KERNELS_DATA_H
#define TESTS_UNIT_KERNELS_DATA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block_scales.h"
#include "kernels/kernels.h"

static inline uint64_t data_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* In (-1, 1). */
static inline float data_float(uint64_t *state)
{
    return (float)((double)(data_next(state) >> 11) * 0x1p-52 - 1.0);
}

static inline float *data_row(uint64_t *state, size_t n, float scale)
{
    float *row = malloc(n * sizeof *row);
    assert_non_null(row);
    for (size_t i = 0; i < n; i++)
        row[i] = scale * data_float(state);
    return row;
}

/* 64-byte aligned and zeroed, to be freed. */
static inline void *data_bytes(size_t size)
{
    void *bytes = aligned_alloc(64, (size + 63) / 64 * 64);
    assert_non_null(bytes);
    memset(bytes, 0, (size + 63) / 64 * 64);
    return bytes;
}

/* A matrix of any type: random bits, with scales that stay moderate. */
static inline kernels_matrix data_matrix(uint64_t *state, uint32_t type, size_t rows,
                                         size_t columns)
{
    size_t bytes = rows * kernels_row_bytes(type, columns);
    size_t block = kernels_row_bytes(type, kernels_block_elements(type));
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)data_next(state);
    for (size_t i = 0; type == KERNELS_F32 && i < rows * columns; i++)
        memcpy(data + 4 * i, &(float){data_float(state)}, 4);
    for (size_t i = 0; type == KERNELS_BF16 && i < rows * columns; i++)
        memcpy(data + 2 * i, (uint8_t *)&(float){data_float(state)} + 2, 2);
    for (size_t i = 0; type == KERNELS_F16 && i < rows * columns; i++)
        memcpy(data + 2 * i, &(uint16_t){kernels_f16_from_f32(data_float(state))}, 2);
    for (size_t i = 0; kernels_block_elements(type) > 1 && i < bytes; i += block) {
        if (block_scales(type, data + i, data_float(state)))
            continue;
        uint16_t d = kernels_f16_from_f32(0.02f * data_float(state));
        uint16_t m = kernels_f16_from_f32(0.1f * data_float(state));
        memcpy(data + i, &d, 2);
        if (type == KERNELS_Q4_1 || type == KERNELS_Q5_1)
            memcpy(data + i + 2, &m, 2);
    }
    return (kernels_matrix){data, type, rows, columns};
}

/* The tables that this machine can run; says which it cannot. */
static inline size_t data_tables(const kernels_table *tables[3])
{
    static const char *const names[] = {"reference", "avx2", "avx512"};
    size_t count = 0;
    for (size_t i = 0; i < 3; i++) {
        tables[count] = kernels_choose(names[i]);
        if (tables[count])
            count++;
        else
            printf("SKIP %s: this machine has no such instructions\n", names[i]);
    }
    return count;
}

#endif /* TESTS_UNIT_KERNELS_DATA_H */
