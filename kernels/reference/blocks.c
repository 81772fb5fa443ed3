/*
 * kernels/reference/blocks.c - quantised blocks of weights and activations.
 *
 * One block holds 32 numbers. In the 4-bit types byte i of `qs` holds number i
 * in its low half and number i + 16 in its high half; the 5-bit types keep the
 * fifth bit of number i as bit i of `qh`:
 *
 *   Q4_0  [d.d.][qs * 16]              Q5_0  [d.d.][qh * 4][qs * 16]
 *   Q4_1  [d.d.][m.m.][qs * 16]        Q5_1  [d.d.][m.m.][qh * 4][qs * 16]
 *   Q8_0  [d.d.][q * 32]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/reference/blocks.h"

#include "kernels/reference/numbers.h"

/* A block opened up: w[i] = d * ((int)q[i] - offset) + m. */
typedef struct open_block {
    float d;
    float m;
    uint8_t q[KERNELS_BLOCK];
} open_block;

static void block_open(uint32_t type, const uint8_t *block, open_block *open)
{
    bool minimum = panel_has_minimum(type);
    bool fifth = type == KERNELS_Q5_0 || type == KERNELS_Q5_1;
    open->d = numbers_from_f16(numbers_u16(block));
    open->m = minimum ? numbers_from_f16(numbers_u16(block + 2)) : 0.0f;
    block += minimum ? 4 : 2;
    if (type == KERNELS_Q8_0) {
        for (size_t i = 0; i < KERNELS_BLOCK; i++)
            open->q[i] = block[i] ^ 0x80; /* int8 + 128 */
        return;
    }
    uint32_t high = fifth ? numbers_u32(block) : 0;
    block += fifth ? 4 : 0;
    for (size_t i = 0; i < KERNELS_BLOCK / 2; i++) {
        open->q[i] = (uint8_t)((block[i] & 15) | (high >> i & 1) << 4);
        open->q[i + 16] = (uint8_t)(block[i] >> 4 | (high >> (i + 16) & 1) << 4);
    }
}

static void dequantise_block(uint32_t type, const uint8_t *block, float *out)
{
    open_block open;
    int32_t offset = panel_offset(type);
    block_open(type, block, &open);
    for (size_t i = 0; i < KERNELS_BLOCK; i++) {
        float q = (float)(open.q[i] - offset);
        out[i] = panel_has_minimum(type) ? fmaf(open.d, q, open.m) : open.d * q;
    }
}

void reference_dequantise(uint32_t type, const void *row, size_t begin, size_t count, float *out)
{
    const uint8_t *at = (const uint8_t *)row + kernels_row_bytes(type, begin);
    if (type == KERNELS_F32) {
        memcpy(out, at, count * sizeof *out);
    } else if (type == KERNELS_F16) {
        for (size_t i = 0; i < count; i++)
            out[i] = numbers_from_f16(numbers_u16(at + 2 * i));
    } else if (type == KERNELS_BF16) {
        for (size_t i = 0; i < count; i++)
            out[i] = numbers_from_bf16(numbers_u16(at + 2 * i));
    } else if (!kernels_type_has_blocks(type)) {
        reference_dequantise_groups(type, row, begin, count, out);
    } else {
        size_t bytes = kernels_row_bytes(type, KERNELS_BLOCK);
        for (size_t b = 0; b < count / KERNELS_BLOCK; b++)
            dequantise_block(type, at + b * bytes, out + b * KERNELS_BLOCK);
    }
}

/* An infinite or undefined block becomes defined integers: NAN counts as -most. */
static int32_t rounded(float x, float most)
{
    float low = x > -most ? x : -most;
    float in = low < most ? low : most;
    return (int32_t)rintf(in);
}

void reference_quantise(const float *x, size_t n, uint32_t levels, void *row)
{
    size_t blocks = n / KERNELS_BLOCK;
    float most = levels == 2 ? NUMBERS_TWO_LEVELS : NUMBERS_ONE_LEVEL;
    int8_t *q = row;
    float *scales = (float *)(void *)((uint8_t *)row + n * levels);
    for (size_t b = 0; b < blocks; b++) {
        const float *in = x + b * KERNELS_BLOCK;
        float greatest = 0.0f;
        for (size_t i = 0; i < KERNELS_BLOCK; i++) {
            float size = fabsf(in[i]);
            greatest = size > greatest ? size : greatest;
        }
        float scale = greatest / most;
        float inverse = greatest > NUMBERS_TINY ? most / greatest : 0.0f;
        int32_t sum = 0;
        for (size_t i = 0; i < KERNELS_BLOCK; i++) {
            int32_t r = rounded(in[i] * inverse, most);
            int32_t high = levels == 2 ? (r + 64) >> 7 : r;
            q[b * KERNELS_BLOCK + i] = (int8_t)high;
            if (levels == 2)
                q[n + b * KERNELS_BLOCK + i] = (int8_t)(r - high * 128);
            sum += r;
        }
        float scaled = scale * (float)sum;
        scales[b] = scale;
        memcpy(&scales[blocks + b], &sum, sizeof sum);
        scales[2 * blocks + b] = scaled;
    }
}

void reference_unpack_q8(const panel_source *source, panel_q8 *panel)
{
    size_t bytes = kernels_row_bytes(source->type, KERNELS_BLOCK);
    for (size_t b = 0; b < source->count; b++) {
        for (size_t row = 0; row < PANEL_ROWS; row++) {
            open_block open;
            block_open(source->type, source->rows[row] + b * bytes, &open);
            panel->d[b][row] = open.d;
            panel->m[b][row] = open.m;
            for (size_t g = 0; g < KERNELS_BLOCK / 4; g++)
                memcpy(panel->q[b][g][row], open.q + 4 * g, 4);
        }
    }
}

void reference_unpack_f32(const panel_source *source, panel_f32 *panel)
{
    float row[PANEL_COLUMNS];
    for (size_t i = 0; i < PANEL_ROWS; i++) {
        reference_dequantise(source->type, source->rows[i], source->begin, source->count, row);
        for (size_t c = 0; c < source->count; c++)
            panel->w[c][i] = row[c];
    }
}
