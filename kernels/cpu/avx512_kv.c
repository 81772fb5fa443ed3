/*
 * kernels/cpu/avx512_kv.c - keys and values into their kept form with AVX-512.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx512.h"

#if defined(__x86_64__)

static AVX512 void to_f16(const float *x, size_t n, uint16_t *y)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __m256i half = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(mask, x + i),
                                       _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_mask_storeu_epi16(y + i, mask, half);
    }
}

/* numbers_to_bf16(): the processor's own conversion would flush tiny numbers. */
static AVX512 void to_bf16(const float *x, size_t n, uint16_t *y)
{
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __m512 in = _mm512_maskz_loadu_ps(mask, x + i);
        __m512i bits = _mm512_castps_si512(in);
        __m512i half = _mm512_srli_epi32(bits, 16);
        __m512i odd = _mm512_and_si512(half, _mm512_set1_epi32(1));
        __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
        __m512i rounded = _mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16),
                                               _mm512_cmp_ps_mask(in, in, _CMP_UNORD_Q), half,
                                               _mm512_set1_epi32(0x40));
        _mm256_mask_storeu_epi16(y + i, mask, _mm512_cvtepi32_epi16(rounded));
    }
}

AVX512_INLINE uint16_t pack_block(const float *x, size_t n, int8_t *q)
{
    __mmask16 low = avx512_first(n);
    __mmask16 high = n > 16 ? avx512_first(n - 16) : 0;
    __m512 first = _mm512_maskz_loadu_ps(low, x);
    __m512 second = _mm512_maskz_loadu_ps(high, x + 16);
    __m512 most = _mm512_max_ps(_mm512_abs_ps(first), _mm512_setzero_ps());
    most = _mm512_max_ps(_mm512_abs_ps(second), most);
    float greatest = _mm512_reduce_max_ps(most);
    greatest = greatest < NUMBERS_KV_MOST ? greatest : NUMBERS_KV_MOST;
    uint16_t scale = numbers_to_f16(greatest / NUMBERS_ONE_LEVEL);
    __m512 inverse = _mm512_set1_ps(scale ? 1.0f / numbers_from_f16(scale) : 0.0f);
    __m512 range = _mm512_set1_ps(NUMBERS_ONE_LEVEL);
    __m512i r0 = avx512_rounded(first, inverse, range);
    __m512i r1 = avx512_rounded(second, inverse, range);
    _mm_mask_storeu_epi8(q, low, _mm512_cvtepi32_epi8(r0));
    _mm_mask_storeu_epi8(q + 16, high, _mm512_cvtepi32_epi8(r1));
    return scale;
}

AVX512 void avx512_pack_kv(uint32_t kv, const float *x, size_t n, void *y, uint16_t *scales)
{
    switch (kv) {
    case KERNELS_KV_F16:
        to_f16(x, n, y);
        break;
    case KERNELS_KV_BF16:
        to_bf16(x, n, y);
        break;
    case KERNELS_KV_Q8:
        for (size_t i = 0; i < n; i += KERNELS_BLOCK)
            scales[i / KERNELS_BLOCK] = pack_block(x + i, n - i, (int8_t *)y + i);
        break;
    default:
        memcpy(y, x, n * sizeof *x);
    }
}

#endif
