/*
 * kernels/cpu/avx2.h - what the AVX2 files share.
 *
 * Sixteen lanes are two YMM registers here: lanes 0..7 and 8..15.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_CPU_AVX2_H
#define KERNELS_CPU_AVX2_H

#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels/kernels.h"
#include "kernels/panel.h"
#include "kernels/reference/numbers.h"

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX2_INLINE static inline AVX2 __attribute__((always_inline))

/* Eight F16 as F32. */
AVX2_INLINE __m256 avx2_load_f16(const void *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

/* exp() with the very steps of numbers_exp(). */
AVX2_INLINE __m256 avx2_exp(__m256 x)
{
    const __m256 least = _mm256_set1_ps(NUMBERS_EXP_LOW);
    __m256 low = _mm256_min_ps(x, _mm256_set1_ps(NUMBERS_EXP_HIGH));
    __m256 in = _mm256_max_ps(low, least);
    __m256 n = _mm256_round_ps(_mm256_mul_ps(in, _mm256_set1_ps(NUMBERS_LOG2E)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-NUMBERS_LN2_HIGH), in);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-NUMBERS_LN2_LOW), r);
    __m256 p = _mm256_fmadd_ps(r, _mm256_set1_ps(NUMBERS_EXP_6), _mm256_set1_ps(NUMBERS_EXP_5));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(NUMBERS_EXP_4));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(NUMBERS_EXP_3));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i power = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    __m256 result = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(power, 23)));
    return _mm256_and_ps(result, _mm256_cmp_ps(low, least, _CMP_NLT_UQ));
}

/* numbers_fold() of 16 lanes. */
AVX2_INLINE float avx2_fold(__m256 low, __m256 high)
{
    __m256 eight = _mm256_add_ps(low, high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

AVX2_INLINE float avx2_greatest(__m256 x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* Eight integers in [-most, most]; NAN becomes -most. */
AVX2_INLINE __m256i avx2_rounded(__m256 x, __m256 inverse, float most)
{
    __m256 low = _mm256_max_ps(_mm256_mul_ps(x, inverse), _mm256_set1_ps(-most));
    return _mm256_cvtps_epi32(_mm256_min_ps(low, _mm256_set1_ps(most)));
}

/* Four registers of eight integers within int8, as 32 bytes. */
AVX2_INLINE void avx2_store_bytes(const __m256i r[4], int8_t *to)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(r[0], r[1]), _mm256_packs_epi32(r[2], r[3]));
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permutevar8x32_epi32(bytes, order));
}

/* The greatest |x| of 32. */
AVX2_INLINE float avx2_greatest_of_32(const __m256 x[4])
{
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    __m256 most = _mm256_setzero_ps();
    for (size_t i = 0; i < 4; i++)
        most = _mm256_max_ps(_mm256_and_ps(x[i], no_sign), most);
    return avx2_greatest(most);
}

/* avx2_matmul.c */
void avx2_matmul_q8(const kernels_matrix *w, size_t begin, size_t end, const void *x,
                    uint32_t levels, size_t r, float *y, size_t y_stride);
void avx2_matmul_f32(const kernels_matrix *w, size_t begin, size_t end, const float *x,
                     size_t x_stride, size_t r, float *y, size_t y_stride);

/* avx2_kv.c */
void avx2_pack_kv(uint32_t kv, const float *x, size_t n, void *y, uint16_t *scales);

/* avx2_attention.c */
void avx2_attention_span(const kernels_span *span);
void avx2_attention_merge(float *running, const float *partial, size_t head_size);
void avx2_attention_finish(const float *running, size_t head_size, float *out);

/* avx2.c */
void avx2_dequantise(uint32_t type, const void *row, size_t begin, size_t count, float *out);
size_t avx2_argmax(const float *x, size_t n);
float avx2_sum_exp(const float *x, size_t n, float maximum);
float avx2_softmax_exp(const float *x, size_t n, float maximum, float *p);

#endif
#endif /* KERNELS_CPU_AVX2_H */
