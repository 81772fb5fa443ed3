/*
 * kernels/reference/kv.c - keys and values as they are kept, and read again.
 *
 * A kept element becomes F32 by itself, before anything is done with it: exactly
 * from F16, BF16 and F32, with one rounded product from Q8. Attention is then the
 * same chain of operations whatever the type.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/reference/blocks.h"

#include "kernels/reference/numbers.h"

/* A block of 32 channels or fewer. The scale is rounded first and the integers are
 * rounded by what it has become. */
static uint16_t pack_block(const float *x, size_t n, int8_t *q)
{
    float greatest = 0.0f;
    for (size_t i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        greatest = size > greatest ? size : greatest;
    }
    greatest = greatest < NUMBERS_KV_MOST ? greatest : NUMBERS_KV_MOST;
    uint16_t scale = numbers_to_f16(greatest / NUMBERS_ONE_LEVEL);
    float inverse = scale ? 1.0f / numbers_from_f16(scale) : 0.0f;
    for (size_t i = 0; i < n; i++) {
        float whole = x[i] * inverse;
        whole = whole > -NUMBERS_ONE_LEVEL ? whole : -NUMBERS_ONE_LEVEL;
        whole = whole < NUMBERS_ONE_LEVEL ? whole : NUMBERS_ONE_LEVEL;
        q[i] = (int8_t)rintf(whole);
    }
    return scale;
}

void reference_pack_kv(uint32_t kv, const float *x, size_t n, void *y, uint16_t *scales)
{
    switch (kv) {
    case KERNELS_KV_F16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)y)[i] = numbers_to_f16(x[i]);
        break;
    case KERNELS_KV_BF16:
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)y)[i] = numbers_to_bf16(x[i]);
        break;
    case KERNELS_KV_Q8:
        for (size_t i = 0; i < n; i += KERNELS_BLOCK)
            scales[i / KERNELS_BLOCK] =
                pack_block(x + i, n - i < KERNELS_BLOCK ? n - i : KERNELS_BLOCK, (int8_t *)y + i);
        break;
    default:
        memcpy(y, x, n * sizeof *x);
    }
}

float reference_kv(uint32_t kv, const void *half, size_t head_size, size_t i, size_t scale)
{
    switch (kv) {
    case KERNELS_KV_F16:
        return numbers_from_f16(((const uint16_t *)half)[i]);
    case KERNELS_KV_BF16:
        return numbers_from_bf16(((const uint16_t *)half)[i]);
    case KERNELS_KV_Q8:
        return (float)((const int8_t *)half)[i] *
               numbers_from_f16(kernels_kv_scales(half, head_size)[scale]);
    default:
        return ((const float *)half)[i];
    }
}
