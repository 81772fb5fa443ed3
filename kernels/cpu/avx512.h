/*
 * kernels/cpu/avx512.h - what the AVX-512 files share.
 *
 * Functions carry their target themselves, so the folder needs no compiler
 * flags and the rest of the program keeps running on any processor.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_CPU_AVX512_H
#define KERNELS_CPU_AVX512_H

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/kernels.h"
#include "kernels/panel.h"
#include "kernels/reference/numbers.h"

#define AVX512                                                                                     \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")))
#define AVX512_INLINE static inline AVX512 __attribute__((always_inline))

/* The first n of 16 lanes. */
AVX512_INLINE __mmask16 avx512_first(size_t n)
{
    return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1);
}

/* exp() with the very steps of numbers_exp(). */
AVX512_INLINE __m512 avx512_exp(__m512 x)
{
    const __m512 least = _mm512_set1_ps(NUMBERS_EXP_LOW);
    __m512 low = _mm512_min_ps(x, _mm512_set1_ps(NUMBERS_EXP_HIGH));
    __m512 in = _mm512_max_ps(low, least);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(in, _mm512_set1_ps(NUMBERS_LOG2E)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-NUMBERS_LN2_HIGH), in);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-NUMBERS_LN2_LOW), r);
    __m512 p = _mm512_fmadd_ps(r, _mm512_set1_ps(NUMBERS_EXP_6), _mm512_set1_ps(NUMBERS_EXP_5));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(NUMBERS_EXP_4));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(NUMBERS_EXP_3));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    __m512i power = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    __m512 result = _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(power, 23)));
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(low, least, _CMP_NLT_UQ), result);
}

/* Sixteen integers in [-most, most]; NAN becomes -most. */
AVX512_INLINE __m512i avx512_rounded(__m512 x, __m512 inverse, __m512 most)
{
    __m512 minus = _mm512_sub_ps(_mm512_setzero_ps(), most);
    __m512 low = _mm512_max_ps(_mm512_mul_ps(x, inverse), minus);
    return _mm512_cvtps_epi32(_mm512_min_ps(low, most));
}

/* numbers_fold() of 16 lanes. */
AVX512_INLINE float avx512_fold(__m512 lanes)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* avx512_matmul.c */
void avx512_dequantise(uint32_t type, const void *row, size_t begin, size_t count, float *out);
void avx512_matmul_q8(const kernels_matrix *w, size_t begin, size_t end, const void *x,
                      uint32_t levels, size_t r, float *y, size_t y_stride);
void avx512_matmul_f32(const kernels_matrix *w, size_t begin, size_t end, const float *x,
                       size_t x_stride, size_t r, float *y, size_t y_stride);

/* avx512_kv.c */
void avx512_pack_kv(uint32_t kv, const float *x, size_t n, void *y, uint16_t *scales);

/* avx512_attention.c */
void avx512_attention_span(const kernels_span *span);
void avx512_attention_merge(float *running, const float *partial, size_t head_size);
void avx512_attention_finish(const float *running, size_t head_size, float *out);
float avx512_sum_exp(const float *x, size_t n, float maximum);
float avx512_softmax_exp(const float *x, size_t n, float maximum, float *p);

#endif
#endif /* KERNELS_CPU_AVX512_H */
