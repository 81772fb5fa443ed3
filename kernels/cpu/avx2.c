/*
 * kernels/cpu/avx2.c - the AVX2 table, and its work along single rows.
 *
 * What is left over of a row (fewer than 16 or 32 elements) goes through the
 * same steps one by one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

#include "kernels/reference/blocks.h"
#include "kernels/tables.h"

static AVX2 void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static AVX2 void rmsnorm(const float *x, const float *weight, size_t n, float epsilon, float *y)
{
    _Alignas(32) float lane[NUMBERS_LANES];
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_loadu_ps(x + i);
        __m256 b = _mm256_loadu_ps(x + i + 8);
        low = _mm256_fmadd_ps(a, a, low);
        high = _mm256_fmadd_ps(b, b, high);
    }
    _mm256_store_ps(lane, low);
    _mm256_store_ps(lane + 8, high);
    for (; i < n; i++)
        lane[i % NUMBERS_LANES] = fmaf(x[i], x[i], lane[i % NUMBERS_LANES]);
    float mean = numbers_fold(lane) / (float)n;
    float scale = 1.0f / sqrtf(mean + epsilon);
    for (i = 0; i < n; i++)
        y[i] = x[i] * scale * weight[i];
}

static AVX2 void silu_mul(const float *gate, const float *up, size_t n, float *y)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 g = _mm256_loadu_ps(gate + i);
        __m256 e = avx2_exp(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
        __m256 silu = _mm256_div_ps(g, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
        _mm256_storeu_ps(y + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
    }
    for (; i < n; i++)
        y[i] = gate[i] / (1.0f + numbers_exp(-gate[i])) * up[i];
}

AVX2_INLINE int32_t total(__m256i x)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

static AVX2 void quantise(const float *x, size_t n, uint32_t levels, void *row)
{
    size_t blocks = n / KERNELS_BLOCK;
    float range = levels == 2 ? NUMBERS_TWO_LEVELS : NUMBERS_ONE_LEVEL;
    int8_t *q = row;
    float *scales = (float *)(void *)((uint8_t *)row + n * levels);
    for (size_t b = 0; b < blocks; b++) {
        __m256 in[4];
        for (size_t i = 0; i < 4; i++)
            in[i] = _mm256_loadu_ps(x + b * KERNELS_BLOCK + 8 * i);
        float greatest = avx2_greatest_of_32(in);
        float scale = greatest / range;
        __m256 inverse = _mm256_set1_ps(greatest > NUMBERS_TINY ? range / greatest : 0.0f);
        __m256i r[4], high[4];
        __m256i sums = _mm256_setzero_si256();
        for (size_t i = 0; i < 4; i++) {
            r[i] = avx2_rounded(in[i], inverse, range);
            sums = _mm256_add_epi32(sums, r[i]);
            high[i] = _mm256_srai_epi32(_mm256_add_epi32(r[i], _mm256_set1_epi32(64)), 7);
        }
        for (size_t i = 0; levels == 2 && i < 4; i++)
            r[i] = _mm256_sub_epi32(r[i], _mm256_slli_epi32(high[i], 7));
        avx2_store_bytes(levels == 2 ? high : r, q + b * KERNELS_BLOCK);
        if (levels == 2)
            avx2_store_bytes(r, q + n + b * KERNELS_BLOCK);
        int32_t sum = total(sums);
        float scaled = scale * (float)sum;
        scales[b] = scale;
        memcpy(&scales[blocks + b], &sum, sizeof sum);
        scales[2 * blocks + b] = scaled;
    }
}

AVX2_INLINE void dequantise_block(uint32_t type, const uint8_t *block, float *out)
{
    bool minimum = panel_has_minimum(type);
    const uint8_t *q = block + (minimum ? 4 : 2);
    __m256 d = _mm256_set1_ps(_cvtsh_ss(numbers_u16(block)));
    __m256 m = _mm256_set1_ps(minimum ? _cvtsh_ss(numbers_u16(block + 2)) : 0.0f);
    __m256 offset = _mm256_set1_ps((float)panel_offset(type));
    for (size_t i = 0; i < 4; i++) {
        const uint8_t *from = type == KERNELS_Q8_0 ? q + 8 * i : q + i % 2 * 8;
        __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)from);
        __m256 value;
        if (type == KERNELS_Q8_0) {
            value = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
        } else {
            __m256i wide = _mm256_cvtepu8_epi32(eight);
            wide =
                i < 2 ? _mm256_and_si256(wide, _mm256_set1_epi32(15)) : _mm256_srli_epi32(wide, 4);
            value = _mm256_sub_ps(_mm256_cvtepi32_ps(wide), offset);
        }
        _mm256_storeu_ps(out + 8 * i,
                         minimum ? _mm256_fmadd_ps(d, value, m) : _mm256_mul_ps(d, value));
    }
}

AVX2 void avx2_dequantise(uint32_t type, const void *row, size_t begin, size_t count, float *out)
{
    const uint8_t *at = (const uint8_t *)row + kernels_row_bytes(type, begin);
    if (type == KERNELS_F16) {
        size_t i = 0;
        for (; i + 8 <= count; i += 8)
            _mm256_storeu_ps(out + i, avx2_load_f16(at + 2 * i));
        for (; i < count; i++)
            out[i] = numbers_from_f16(numbers_u16(at + 2 * i));
    } else if (type == KERNELS_Q8_0 || type == KERNELS_Q4_0 || type == KERNELS_Q4_1) {
        size_t bytes = kernels_row_bytes(type, KERNELS_BLOCK);
        for (size_t b = 0; b < count / KERNELS_BLOCK; b++)
            dequantise_block(type, at + b * bytes, out + b * KERNELS_BLOCK);
    } else {
        reference_dequantise(type, row, begin, count, out);
    }
}

AVX2 size_t avx2_argmax(const float *x, size_t n)
{
    __m256 most = _mm256_set1_ps(-INFINITY);
    size_t whole = n / 8 * 8;
    for (size_t i = 0; i < whole; i += 8)
        most = _mm256_max_ps(_mm256_loadu_ps(x + i), most);
    float greatest = avx2_greatest(most);
    for (size_t i = whole; i < n; i++)
        greatest = x[i] > greatest ? x[i] : greatest;
    for (size_t i = 0; i < whole && greatest > -INFINITY; i += 8) {
        __m256 equal = _mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(greatest), _CMP_EQ_OQ);
        unsigned found = (unsigned)_mm256_movemask_ps(equal);
        if (found)
            return i + (size_t)__builtin_ctz(found);
    }
    for (size_t i = whole; i < n && greatest > -INFINITY; i++)
        if (x[i] == greatest)
            return i;
    return 0;
}

AVX2 float avx2_softmax_exp(const float *x, size_t n, float maximum, float *p)
{
    _Alignas(32) float lane[NUMBERS_LANES];
    const __m256 most = _mm256_set1_ps(maximum);
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 a = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(x + i), most));
        __m256 b = avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), most));
        _mm256_storeu_ps(p + i, a);
        _mm256_storeu_ps(p + i + 8, b);
        low = _mm256_add_ps(low, a);
        high = _mm256_add_ps(high, b);
    }
    _mm256_store_ps(lane, low);
    _mm256_store_ps(lane + 8, high);
    for (; i < n; i++) {
        p[i] = numbers_exp(x[i] - maximum);
        lane[i % NUMBERS_LANES] += p[i];
    }
    return numbers_fold(lane);
}

AVX2 float avx2_sum_exp(const float *x, size_t n, float maximum)
{
    _Alignas(32) float lane[NUMBERS_LANES];
    const __m256 most = _mm256_set1_ps(maximum);
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        low = _mm256_add_ps(low, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(x + i), most)));
        high = _mm256_add_ps(high, avx2_exp(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), most)));
    }
    _mm256_store_ps(lane, low);
    _mm256_store_ps(lane + 8, high);
    for (; i < n; i++)
        lane[i % NUMBERS_LANES] += numbers_exp(x[i] - maximum);
    return numbers_fold(lane);
}

const kernels_table kernels_avx2 = {
    .name = "avx2",
    .dequantise = avx2_dequantise,
    .quantise = quantise,
    .matmul_q8 = avx2_matmul_q8,
    .matmul_f32 = avx2_matmul_f32,
    .add = add,
    .rmsnorm = rmsnorm,
    .silu_mul = silu_mul,
    .pack_kv = avx2_pack_kv,
    .attention_span = avx2_attention_span,
    .attention_merge = avx2_attention_merge,
    .attention_finish = avx2_attention_finish,
    .argmax = avx2_argmax,
    .sum_exp = avx2_sum_exp,
    .softmax_exp = avx2_softmax_exp,
};

#endif
