/*
 * kernels/reference/groups.c - the block types whose scales are not one F16 each.
 *
 * The K types and IQ4_XS hold 256 weights: eight groups of 32, whose small
 * integer scales share one or two F16. All types here open up, group by group,
 * into the same thing: 32 integers and a scale and a minimum for each half.
 *
 *   Q2_K   [scale | minimum << 4: 16][q: 64][d.][dmin.]
 *   Q3_K   [third bit of q: 32][q: 64][scales: 12][d.]
 *   Q4_K   [d.][dmin.][scales, minima: 12][q: 128]
 *   Q5_K   [d.][dmin.][scales, minima: 12][fifth bit of q: 32][q: 128]
 *   Q6_K   [low four bits of q: 128][high two: 64][int8 scales: 16][d.]
 *   IQ4_XS [d.][high two bits of the scales: 2][low four: 4][q: 128]
 *   IQ4_NL [d.][q: 16]             MXFP4  [exponent: 1][q: 16]
 *
 * A byte serves several groups: in Q2_K byte i of a run of 32 holds number i of
 * four groups, two bits each; a mask of 32 bytes holds one bit for each group.
 * IQ4_* and MXFP4 store four bits that choose from a table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/reference/blocks.h"

#include "kernels/reference/numbers.h"

#define HALF (KERNELS_BLOCK / 2)

/* w[i] = d[i / 16] * q[i] - m[i / 16], each operation rounded. */
typedef struct open_group {
    float d[2];
    float m[2];
    int32_t q[KERNELS_BLOCK]; /* wide, so that loops over it stay vector code */
} open_group;

static const int8_t curved_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

/* E2M1: sign, two bits of exponent, one of fraction; twice the value. */
static const int8_t e2m1_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static float half_at(const uint8_t *at)
{
    return numbers_from_f16(numbers_u16(at));
}

static void open_q2_k(const uint8_t *block, size_t g, open_group *open)
{
    const uint8_t *q = block + 16 + g / 4 * KERNELS_BLOCK;
    for (size_t half = 0; half < 2; half++) {
        uint8_t both = block[2 * g + half];
        open->d[half] = half_at(block + 80) * (float)(both & 15);
        open->m[half] = half_at(block + 82) * (float)(both >> 4);
    }
    for (size_t i = 0; i < KERNELS_BLOCK; i++)
        open->q[i] = q[i] >> 2 * (g % 4) & 3;
}

/* Scale j has its low four bits in one of eight bytes, its high two in one of four. */
static int32_t q3_k_scale(const uint8_t *scales, size_t j)
{
    int32_t low = scales[j % 8] >> 4 * (j / 8) & 15;
    int32_t high = scales[8 + j % 4] >> 2 * (j / 4) & 3;
    return (low | high << 4) - 32;
}

static void open_q3_k(const uint8_t *block, size_t g, open_group *open)
{
    const uint8_t *q = block + 32 + g / 4 * KERNELS_BLOCK;
    for (size_t half = 0; half < 2; half++)
        open->d[half] = half_at(block + 108) * (float)q3_k_scale(block + 96, 2 * g + half);
    for (size_t i = 0; i < KERNELS_BLOCK; i++) {
        int32_t third = block[i] >> g & 1; /* set: nothing is taken off */
        open->q[i] = (q[i] >> 2 * (g % 4) & 3) - (third ? 0 : 4);
    }
}

/* Six bits each: groups 0 to 3 in the bytes 0 to 7; of the groups 4 to 7 four bits
 * in the bytes 8 to 11, the high two on top of the bytes 0 to 7. */
static void open_six_bits(const uint8_t *block, size_t g, open_group *open)
{
    const uint8_t *scales = block + 4;
    int32_t scale, minimum;
    if (g < 4) {
        scale = scales[g] & 63;
        minimum = scales[g + 4] & 63;
    } else {
        scale = (scales[g + 4] & 15) | scales[g - 4] >> 6 << 4;
        minimum = scales[g + 4] >> 4 | scales[g] >> 6 << 4;
    }
    open->d[0] = open->d[1] = half_at(block) * (float)scale;
    open->m[0] = open->m[1] = half_at(block + 2) * (float)minimum;
}

static void open_q4_k(const uint8_t *block, size_t g, open_group *open)
{
    const uint8_t *q = block + 16 + g / 2 * KERNELS_BLOCK;
    open_six_bits(block, g, open);
    for (size_t i = 0; i < KERNELS_BLOCK; i++)
        open->q[i] = q[i] >> 4 * (g % 2) & 15;
}

static void open_q5_k(const uint8_t *block, size_t g, open_group *open)
{
    const uint8_t *fifth = block + 16;
    const uint8_t *q = block + 48 + g / 2 * KERNELS_BLOCK;
    open_six_bits(block, g, open);
    for (size_t i = 0; i < KERNELS_BLOCK; i++)
        open->q[i] = (q[i] >> 4 * (g % 2) & 15) | (fifth[i] >> g & 1) << 4;
}

static void open_q6_k(const uint8_t *block, size_t g, open_group *open)
{
    const uint8_t *low = block + g / 4 * 64 + g % 2 * KERNELS_BLOCK;
    const uint8_t *high = block + 128 + g / 4 * KERNELS_BLOCK;
    for (size_t half = 0; half < 2; half++)
        open->d[half] = half_at(block + 208) * (float)(int8_t)block[192 + 2 * g + half];
    for (size_t i = 0; i < KERNELS_BLOCK; i++) {
        int32_t four = low[i] >> 4 * (g % 4 / 2) & 15;
        int32_t two = high[i] >> 2 * (g % 4) & 3;
        open->q[i] = (four | two << 4) - 32;
    }
}

static void open_table(const uint8_t *q, const int8_t *values, float d, open_group *open)
{
    open->d[0] = open->d[1] = d;
    for (size_t i = 0; i < HALF; i++) {
        open->q[i] = values[q[i] & 15];
        open->q[i + HALF] = values[q[i] >> 4];
    }
}

static void open_iq4_xs(const uint8_t *block, size_t g, open_group *open)
{
    int32_t low = block[4 + g / 2] >> 4 * (g % 2) & 15;
    int32_t high = numbers_u16(block + 2) >> 2 * g & 3;
    float d = half_at(block) * (float)((low | high << 4) - 32);
    open_table(block + 8 + g * HALF, curved_values, d, open);
}

/* Half of 2^(e - 127), since the table holds twice the value; subnormal below 2. */
static float e8m0_half(uint8_t e)
{
    return numbers_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

static void group_open(uint32_t type, const uint8_t *block, size_t g, open_group *open)
{
    open->m[0] = open->m[1] = 0.0f;
    switch (type) {
    case KERNELS_Q2_K:
        open_q2_k(block, g, open);
        break;
    case KERNELS_Q3_K:
        open_q3_k(block, g, open);
        break;
    case KERNELS_Q4_K:
        open_q4_k(block, g, open);
        break;
    case KERNELS_Q5_K:
        open_q5_k(block, g, open);
        break;
    case KERNELS_Q6_K:
        open_q6_k(block, g, open);
        break;
    case KERNELS_IQ4_XS:
        open_iq4_xs(block, g, open);
        break;
    case KERNELS_IQ4_NL:
        open_table(block + 2, curved_values, half_at(block), open);
        break;
    default: /* MXFP4 */
        open_table(block + 1, e2m1_values, e8m0_half(block[0]), open);
        break;
    }
}

void reference_dequantise_groups(uint32_t type, const void *row, size_t begin, size_t count,
                                 float *out)
{
    size_t elements = kernels_block_elements(type);
    size_t bytes = kernels_row_bytes(type, elements);
    for (size_t at = begin; at < begin + count; at += KERNELS_BLOCK, out += KERNELS_BLOCK) {
        open_group open;
        const uint8_t *block = (const uint8_t *)row + at / elements * bytes;
        group_open(type, block, at % elements / KERNELS_BLOCK, &open);
        for (size_t i = 0; i < HALF; i++) {
            float first = open.d[0] * (float)open.q[i];
            float second = open.d[1] * (float)open.q[i + HALF];
            out[i] = first - open.m[0];
            out[i + HALF] = second - open.m[1];
        }
    }
}
