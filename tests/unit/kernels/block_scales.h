/*
 * tests/unit/kernels/block_scales.h - moderate scales for blocks of random bits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_UNIT_KERNELS_BLOCK_SCALES_H
#define TESTS_UNIT_KERNELS_BLOCK_SCALES_H

#include <string.h>

#include "kernels/kernels.h"

/* Sets the scales of one block of a type behind Q5_1 so that its weights are about
 * as wide as 0.3 * x and stand around zero; false: a type of another kind. */
static inline bool block_scales(uint32_t type, uint8_t *block, float x)
{
    static const struct {
        int d; /* where the F16 scale stands, -1: none   */
        int m; /* where that of the minima stands        */
        float scale;
        float minimum; /* in scales: the mean integer */
    } facts[KERNELS_TYPES] = {
        [KERNELS_Q2_K] = {80, 82, 0.006f, 1.5f}, [KERNELS_Q3_K] = {108, -1, 0.003f, 0},
        [KERNELS_Q4_K] = {0, 2, 0.0005f, 7.5f},  [KERNELS_Q5_K] = {0, 2, 0.00025f, 15.5f},
        [KERNELS_Q6_K] = {208, -1, 0.0001f, 0},  [KERNELS_IQ4_NL] = {0, -1, 0.002f, 0},
        [KERNELS_IQ4_XS] = {0, -1, 0.0001f, 0},
    };
    if (type == KERNELS_MXFP4)
        block[0] = x > 0 ? 122 : 121;
    if (type == KERNELS_MXFP4)
        return true;
    if (type <= KERNELS_Q5_1 || type >= KERNELS_TYPES)
        return false;
    uint16_t d = kernels_f16_from_f32(facts[type].scale * x);
    uint16_t m = kernels_f16_from_f32(facts[type].minimum * facts[type].scale * x);
    memcpy(block + facts[type].d, &d, 2);
    if (facts[type].m >= 0)
        memcpy(block + facts[type].m, &m, 2);
    return true;
}

#endif /* TESTS_UNIT_KERNELS_BLOCK_SCALES_H */
