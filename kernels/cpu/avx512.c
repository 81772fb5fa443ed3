/*
 * kernels/cpu/avx512.c - the AVX-512 table, and its work along single rows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx512.h"

#if defined(__x86_64__)

#include "kernels/tables.h"

static AVX512 void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __m512 sum =
            _mm512_add_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_maskz_loadu_ps(mask, y + i));
        _mm512_mask_storeu_ps(x + i, mask, sum);
    }
}

static AVX512 void rmsnorm(const float *x, const float *weight, size_t n, float epsilon, float *y)
{
    __m512 lanes = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        __m512 in = _mm512_maskz_loadu_ps(avx512_first(n - i), x + i);
        lanes = _mm512_fmadd_ps(in, in, lanes);
    }
    float mean = avx512_fold(lanes) / (float)n;
    __m512 scale = _mm512_set1_ps(1.0f / sqrtf(mean + epsilon));
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __m512 in = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), scale);
        _mm512_mask_storeu_ps(y + i, mask,
                              _mm512_mul_ps(in, _mm512_maskz_loadu_ps(mask, weight + i)));
    }
}

static AVX512 void silu_mul(const float *gate, const float *up, size_t n, float *y)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __m512 g = _mm512_maskz_loadu_ps(mask, gate + i);
        __m512 minus = _mm512_xor_ps(g, _mm512_set1_ps(-0.0f));
        __m512 silu = _mm512_div_ps(g, _mm512_add_ps(one, avx512_exp(minus)));
        _mm512_mask_storeu_ps(y + i, mask,
                              _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + i)));
    }
}

AVX512_INLINE void store_levels(__m512i r, int8_t *high, size_t low, uint32_t levels)
{
    __m512i h = r;
    if (levels == 2) {
        h = _mm512_srai_epi32(_mm512_add_epi32(r, _mm512_set1_epi32(64)), 7);
        __m512i l = _mm512_sub_epi32(r, _mm512_slli_epi32(h, 7));
        _mm_storeu_si128((__m128i *)(void *)(high + low), _mm512_cvtepi32_epi8(l));
    }
    _mm_storeu_si128((__m128i *)(void *)high, _mm512_cvtepi32_epi8(h));
}

static AVX512 void quantise(const float *x, size_t n, uint32_t levels, void *row)
{
    size_t blocks = n / KERNELS_BLOCK;
    float range = levels == 2 ? NUMBERS_TWO_LEVELS : NUMBERS_ONE_LEVEL;
    int8_t *q = row;
    float *scales = (float *)(void *)((uint8_t *)row + n * levels);
    for (size_t b = 0; b < blocks; b++) {
        __m512 first = _mm512_loadu_ps(x + b * KERNELS_BLOCK);
        __m512 second = _mm512_loadu_ps(x + b * KERNELS_BLOCK + 16);
        __m512 most = _mm512_max_ps(_mm512_abs_ps(first), _mm512_setzero_ps());
        most = _mm512_max_ps(_mm512_abs_ps(second), most);
        float greatest = _mm512_reduce_max_ps(most);
        float scale = greatest / range;
        float inverse = greatest > NUMBERS_TINY ? range / greatest : 0.0f;
        __m512i r0 = avx512_rounded(first, _mm512_set1_ps(inverse), _mm512_set1_ps(range));
        __m512i r1 = avx512_rounded(second, _mm512_set1_ps(inverse), _mm512_set1_ps(range));
        store_levels(r0, q + b * KERNELS_BLOCK, n, levels);
        store_levels(r1, q + b * KERNELS_BLOCK + 16, n, levels);
        int32_t sum = _mm512_reduce_add_epi32(_mm512_add_epi32(r0, r1));
        float scaled = scale * (float)sum;
        scales[b] = scale;
        memcpy(&scales[blocks + b], &sum, sizeof sum);
        scales[2 * blocks + b] = scaled;
    }
}

static AVX512 size_t argmax(const float *x, size_t n)
{
    __m512 best = _mm512_set1_ps(-INFINITY);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        best = _mm512_mask_max_ps(best, mask, _mm512_maskz_loadu_ps(mask, x + i), best);
    }
    __m512 greatest = _mm512_set1_ps(_mm512_reduce_max_ps(best));
    if (_mm512_cvtss_f32(greatest) == -INFINITY)
        return 0;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __mmask16 equal =
            _mm512_mask_cmp_ps_mask(mask, _mm512_maskz_loadu_ps(mask, x + i), greatest, _CMP_EQ_OQ);
        if (equal)
            return i + (size_t)__builtin_ctz(equal);
    }
    return 0;
}

const kernels_table kernels_avx512 = {
    .name = "avx512",
    .dequantise = avx512_dequantise,
    .quantise = quantise,
    .matmul_q8 = avx512_matmul_q8,
    .matmul_f32 = avx512_matmul_f32,
    .add = add,
    .rmsnorm = rmsnorm,
    .silu_mul = silu_mul,
    .pack_kv = avx512_pack_kv,
    .attention_span = avx512_attention_span,
    .attention_merge = avx512_attention_merge,
    .attention_finish = avx512_attention_finish,
    .argmax = argmax,
    .sum_exp = avx512_sum_exp,
    .softmax_exp = avx512_softmax_exp,
};

#endif
