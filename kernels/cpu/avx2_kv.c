/*
 * kernels/cpu/avx2_kv.c - keys and values into their kept form with AVX2.
 *
 * What fills no register, or no block, goes through the reference.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

#include "kernels/reference/blocks.h"

static AVX2 size_t to_f16(const float *x, size_t n, uint16_t *y)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

/* Eight numbers as BF16 in 32-bit lanes: the steps of numbers_to_bf16(). */
AVX2_INLINE __m256i bf16_words(const float *x)
{
    __m256 in = _mm256_loadu_ps(x);
    __m256i bits = _mm256_castps_si256(in);
    __m256i half = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(half, _mm256_set1_epi32(1));
    __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(half, _mm256_set1_epi32(0x40));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(in, in, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
}

static AVX2 size_t to_bf16(const float *x, size_t n, uint16_t *y)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i mixed = _mm256_packus_epi32(bf16_words(x + i), bf16_words(x + i + 8));
        _mm256_storeu_si256((__m256i *)(void *)(y + i), _mm256_permute4x64_epi64(mixed, 0xd8));
    }
    return i;
}

AVX2_INLINE uint16_t pack_block(const float *x, int8_t *q)
{
    __m256 in[4];
    __m256i r[4];
    for (size_t i = 0; i < 4; i++)
        in[i] = _mm256_loadu_ps(x + 8 * i);
    float greatest = avx2_greatest_of_32(in);
    greatest = greatest < NUMBERS_KV_MOST ? greatest : NUMBERS_KV_MOST;
    uint16_t scale = numbers_to_f16(greatest / NUMBERS_ONE_LEVEL);
    __m256 inverse = _mm256_set1_ps(scale ? 1.0f / numbers_from_f16(scale) : 0.0f);
    for (size_t i = 0; i < 4; i++)
        r[i] = avx2_rounded(in[i], inverse, NUMBERS_ONE_LEVEL);
    avx2_store_bytes(r, q);
    return scale;
}

static AVX2 size_t to_q8(const float *x, size_t n, int8_t *y, uint16_t *scales)
{
    size_t i = 0;
    for (; i + KERNELS_BLOCK <= n; i += KERNELS_BLOCK)
        scales[i / KERNELS_BLOCK] = pack_block(x + i, y + i);
    return i;
}

AVX2 void avx2_pack_kv(uint32_t kv, const float *x, size_t n, void *y, uint16_t *scales)
{
    size_t done = kv == KERNELS_KV_F16    ? to_f16(x, n, y)
                  : kv == KERNELS_KV_BF16 ? to_bf16(x, n, y)
                  : kv == KERNELS_KV_Q8   ? to_q8(x, n, y, scales)
                                          : 0;
    if (done < n)
        reference_pack_kv(kv, x + done, n - done, (uint8_t *)y + done * kernels_kv_element(kv),
                          kv == KERNELS_KV_Q8 ? scales + done / KERNELS_BLOCK : NULL);
}

#endif
