/*
 * kernels/reference/numbers.h - small floats, and an exponential whose every
 * step is fixed, so that vector code can take the same steps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_REFERENCE_NUMBERS_H
#define KERNELS_REFERENCE_NUMBERS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float numbers_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t numbers_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* F16 has 5 bits of exponent and 10 of fraction; exponent 0 means fraction * 2^-24. */
static inline float numbers_from_f16(uint16_t x)
{
    uint32_t sign = (uint32_t)(x & 0x8000) << 16;
    uint32_t exponent = (x >> 10) & 31;
    uint32_t fraction = x & 1023;
    if (exponent == 0) {
        float tiny = (float)fraction * 0x1p-24f;
        return numbers_from_bits(sign | numbers_bits(tiny));
    }
    if (exponent == 31)
        return numbers_from_bits(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    return numbers_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Rounds to nearest even; too large becomes infinity. */
static inline uint16_t numbers_to_f16(float x)
{
    uint32_t bits = numbers_bits(x);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) /* NAN, made quiet */
        return (uint16_t)(sign | 0x7e00 | (size >> 13 & 0x3ff));
    if (size >= 0x477ff000) /* 65520 and more */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) { /* below 2^-14: let the float adder round at 2^-24 */
        float aligned = numbers_from_bits(size) + 0.5f;
        return (uint16_t)(sign | (numbers_bits(aligned) - numbers_bits(0.5f)));
    }
    uint32_t rounded = size + 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

static inline float numbers_from_bf16(uint16_t x)
{
    return numbers_from_bits((uint32_t)x << 16);
}

/* Rounds to nearest even; NAN stays NAN. */
static inline uint16_t numbers_to_bf16(float x)
{
    uint32_t bits = numbers_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Of bytes that need not be aligned. */
static inline uint16_t numbers_u16(const uint8_t *at)
{
    uint16_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

static inline uint32_t numbers_u32(const uint8_t *at)
{
    uint32_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* exp(x) = 2^n * exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2. Relative
 * error below 3e-7; 0 below -87; x above 88 (and NAN) count as 88. */
#define NUMBERS_EXP_LOW -87.0f
#define NUMBERS_EXP_HIGH 88.0f
#define NUMBERS_LOG2E 0x1.715476p+0f
#define NUMBERS_LN2_HIGH 0x1.62e400p-1f
#define NUMBERS_LN2_LOW 0x1.7f7d1cp-20f
#define NUMBERS_EXP_6 0x1.6c16c2p-10f /* 1 / 6! */
#define NUMBERS_EXP_5 0x1.111112p-7f
#define NUMBERS_EXP_4 0x1.555556p-5f
#define NUMBERS_EXP_3 0x1.555556p-3f

/* The greatest integer of a quantised activation: 127, or 127 * 128 in two int8. */
#define NUMBERS_ONE_LEVEL 127.0f
#define NUMBERS_TWO_LEVELS 16256.0f

/* The greatest |x| of a block of keys or values in Q8: its scale is still finite. */
#define NUMBERS_KV_MOST (127.0f * 65504.0f)

/* Blocks of activations whose greatest is no more than this count as zero. */
#define NUMBERS_TINY 0x1p-100f

static inline float numbers_exp(float x)
{
    float low = x < NUMBERS_EXP_HIGH ? x : NUMBERS_EXP_HIGH;
    float in = low > NUMBERS_EXP_LOW ? low : NUMBERS_EXP_LOW;
    float n = rintf(in * NUMBERS_LOG2E);
    float r = fmaf(n, -NUMBERS_LN2_LOW, fmaf(n, -NUMBERS_LN2_HIGH, in));
    float p = fmaf(r, NUMBERS_EXP_6, NUMBERS_EXP_5);
    p = fmaf(p, r, NUMBERS_EXP_4);
    p = fmaf(p, r, NUMBERS_EXP_3);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float power = numbers_from_bits((uint32_t)((int32_t)n + 127) << 23);
    return low < NUMBERS_EXP_LOW ? 0.0f : p * power;
}

/* The fixed order of every sum over a row's elements: element i is added to lane
 * i mod 16 in ascending i, then the lanes are folded in halves. */
#define NUMBERS_LANES 16

static inline float numbers_fold(const float lane[NUMBERS_LANES])
{
    float sum[NUMBERS_LANES];
    memcpy(sum, lane, sizeof sum);
    for (size_t half = NUMBERS_LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            sum[i] += sum[i + half];
    return sum[0];
}

#endif /* KERNELS_REFERENCE_NUMBERS_H */
