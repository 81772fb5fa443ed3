/*
 * kernels/cpu/avx2_matmul.c - matrix products with AVX2.
 *
 * The same panels as with AVX-512, each row of lanes in two registers. There is
 * no instruction that multiplies four bytes into a 32-bit lane; vpmaddubsw adds
 * two products into 16 bits, which holds for weights below 32 and activations
 * within 127. Q8_0 weights stay signed here (|w| <= 128): their signs are moved
 * to the activations, and 2 * 128 * 127 still fits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

/* Sixteen bytes of row i and of row i + 4. */
AVX2_INLINE __m256i two_rows(const uint8_t *const *rows, size_t i, size_t at)
{
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(rows[i] + at))),
        _mm_loadu_si128((const __m128i *)(const void *)(rows[i + 4] + at)), 1);
}

/* In: in[i] holds 4 words of rows i and i + 4. Out: out[g] holds word g of 8 rows. */
AVX2_INLINE void transpose(const __m256i in[4], __m256i out[4])
{
    __m256i low01 = _mm256_unpacklo_epi32(in[0], in[1]);
    __m256i low23 = _mm256_unpacklo_epi32(in[2], in[3]);
    __m256i high01 = _mm256_unpackhi_epi32(in[0], in[1]);
    __m256i high23 = _mm256_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm256_unpacklo_epi64(low01, low23);
    out[1] = _mm256_unpackhi_epi64(low01, low23);
    out[2] = _mm256_unpacklo_epi64(high01, high23);
    out[3] = _mm256_unpackhi_epi64(high01, high23);
}

AVX2_INLINE void store_groups(panel_q8 *panel, size_t b, size_t g, size_t half,
                              const __m256i words[4])
{
    for (size_t i = 0; i < 4; i++)
        _mm256_store_si256((__m256i *)(void *)panel->q[b][g + i][8 * half], words[i]);
}

/* Sixteen bits, from bit `shift` of the word at the row, as bytes 0 or 16. */
AVX2_INLINE __m256i fifth_bits(const uint8_t *const *rows, size_t i, size_t at, int shift)
{
    const __m256i pick = _mm256_set_epi64x(0x0101010101010101, 0, 0x0101010101010101, 0);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i words = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_cvtsi32_si128((int32_t)(numbers_u32(rows[i] + at) >> shift))),
        _mm_cvtsi32_si128((int32_t)(numbers_u32(rows[i + 4] + at) >> shift)), 1);
    __m256i spread = _mm256_and_si256(_mm256_shuffle_epi8(words, pick), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), _mm256_set1_epi8(16));
}

/* at: where the four-bit halves begin; fifth: where the fifth bits do, or 0. */
AVX2_INLINE void unpack_nibbles(const panel_source *source, size_t at, size_t fifth, bool five,
                                panel_q8 *panel, size_t b)
{
    const __m256i four = _mm256_set1_epi8(15);
    for (size_t half = 0; half < 2; half++) {
        const uint8_t *const *rows = source->rows + 8 * half;
        __m256i low[4], high[4], words[4];
        for (size_t i = 0; i < 4; i++) {
            __m256i raw = two_rows(rows, i, at);
            low[i] = _mm256_and_si256(raw, four);
            high[i] = _mm256_and_si256(_mm256_srli_epi16(raw, 4), four);
            if (five) {
                low[i] = _mm256_or_si256(low[i], fifth_bits(rows, i, fifth, 0));
                high[i] = _mm256_or_si256(high[i], fifth_bits(rows, i, fifth, 16));
            }
        }
        transpose(low, words);
        store_groups(panel, b, 0, half, words);
        transpose(high, words);
        store_groups(panel, b, 4, half, words);
    }
}

AVX2_INLINE void unpack_bytes(const panel_source *source, size_t at, panel_q8 *panel, size_t b)
{
    for (size_t half = 0; half < 2; half++) {
        for (size_t part = 0; part < 2; part++) {
            __m256i raw[4], words[4];
            for (size_t i = 0; i < 4; i++)
                raw[i] = two_rows(source->rows + 8 * half, i, at + 16 * part);
            transpose(raw, words);
            store_groups(panel, b, 4 * part, half, words);
        }
    }
}

AVX2_INLINE __m256 half_floats(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)from));
}

static AVX2 void unpack_scales(const panel_source *source, size_t bytes, panel_q8 *panel)
{
    _Alignas(32) uint16_t d[PANEL_BLOCKS][PANEL_ROWS];
    _Alignas(32) uint16_t m[PANEL_BLOCKS][PANEL_ROWS];
    bool minimum = panel_has_minimum(source->type);
    for (size_t b = 0; b < source->count; b++) {
        for (size_t row = 0; row < PANEL_ROWS; row++) {
            uint32_t both = numbers_u32(source->rows[row] + b * bytes);
            d[b][row] = (uint16_t)both;
            m[b][row] = (uint16_t)(both >> 16);
        }
    }
    for (size_t b = 0; b < source->count; b++) {
        for (size_t half = 0; half < PANEL_ROWS; half += 8) {
            _mm256_store_ps(panel->d[b] + half, half_floats(d[b] + half));
            if (minimum)
                _mm256_store_ps(panel->m[b] + half, half_floats(m[b] + half));
        }
    }
}

static AVX2 void unpack_q8(const panel_source *source, panel_q8 *panel)
{
    size_t bytes = kernels_row_bytes(source->type, KERNELS_BLOCK);
    unpack_scales(source, bytes, panel);
    for (size_t b = 0; b < source->count; b++) {
        size_t at = b * bytes;
        panel_fetch_ahead(source, at * PANEL_ROWS, bytes * PANEL_ROWS);
        switch (source->type) {
        case KERNELS_Q4_0:
            unpack_nibbles(source, at + 2, 0, false, panel, b);
            break;
        case KERNELS_Q4_1:
            unpack_nibbles(source, at + 4, 0, false, panel, b);
            break;
        case KERNELS_Q5_0:
            unpack_nibbles(source, at + 6, at + 2, true, panel, b);
            break;
        case KERNELS_Q5_1:
            unpack_nibbles(source, at + 8, at + 4, true, panel, b);
            break;
        default:
            unpack_bytes(source, at + 2, panel, b);
            break;
        }
    }
}

/* Four products a lane, exact. */
AVX2_INLINE __m256i four_products(__m256i w, __m256i x, bool wide)
{
    __m256i pairs = wide ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                         : _mm256_maddubs_epi16(w, x);
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

/* R activation rows over the panel; sum[2 j] and acc[2 j] are lanes 0..7. */
AVX2_INLINE void dot_rows(const panel_q8 *panel, const panel_task *task, size_t row, size_t R,
                          bool minimum, bool wide, uint32_t levels)
{
    const uint8_t *x = task->x + row * task->x_stride;
    int32_t offset = wide ? 0 : panel_offset(task->type);
    _Alignas(32) float y[2][PANEL_ROWS] = {{0}};
    __m256 acc[4];
    for (size_t j = 0; j < R; j++) {
        if (!task->first)
            memcpy(y[j], task->y + (row + j) * task->y_stride, task->lanes * sizeof(float));
        acc[2 * j] = _mm256_load_ps(y[j]);
        acc[2 * j + 1] = _mm256_load_ps(y[j] + 8);
    }
    for (size_t b = 0; b < task->count; b++) {
        const uint8_t *scale = x + task->scales + b * sizeof(float);
        __m256i sum[4];
        __m256i high[4];
        for (size_t j = 0; j < R; j++) {
            int32_t xs = (int32_t)numbers_u32(scale + j * task->x_stride + 4 * task->blocks);
            sum[2 * j] = sum[2 * j + 1] = _mm256_set1_epi32(-offset * xs);
            high[2 * j] = high[2 * j + 1] = _mm256_setzero_si256();
        }
        for (size_t g = 0; g < KERNELS_BLOCK / 4; g++) {
            __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)panel->q[b][g][0]);
            __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)panel->q[b][g][8]);
            for (size_t j = 0; j < R; j++) {
                const uint8_t *four = x + j * task->x_stride + b * KERNELS_BLOCK + 4 * g;
                __m256i a = _mm256_set1_epi32((int32_t)numbers_u32(four));
                if (levels == 2) {
                    high[2 * j] = _mm256_add_epi32(high[2 * j], four_products(w0, a, wide));
                    high[2 * j + 1] = _mm256_add_epi32(high[2 * j + 1], four_products(w1, a, wide));
                    a = _mm256_set1_epi32((int32_t)numbers_u32(four + task->low));
                }
                sum[2 * j] = _mm256_add_epi32(sum[2 * j], four_products(w0, a, wide));
                sum[2 * j + 1] = _mm256_add_epi32(sum[2 * j + 1], four_products(w1, a, wide));
            }
        }
        for (size_t i = 0; levels == 2 && i < 2 * R; i++)
            sum[i] = _mm256_add_epi32(sum[i], _mm256_slli_epi32(high[i], 7));
        for (size_t i = 0; i < 2 * R; i++) {
            const uint8_t *of_row = scale + i / 2 * task->x_stride;
            float s = numbers_from_bits(numbers_u32(of_row));
            __m256 d = _mm256_load_ps(panel->d[b] + i % 2 * 8);
            acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[i]),
                                     _mm256_mul_ps(d, _mm256_set1_ps(s)), acc[i]);
            if (!minimum)
                continue;
            float scaled = numbers_from_bits(numbers_u32(of_row + 8 * task->blocks));
            acc[i] = _mm256_fmadd_ps(_mm256_load_ps(panel->m[b] + i % 2 * 8),
                                     _mm256_set1_ps(scaled), acc[i]);
        }
    }
    for (size_t j = 0; j < R; j++) {
        _mm256_store_ps(y[j], acc[2 * j]);
        _mm256_store_ps(y[j] + 8, acc[2 * j + 1]);
        memcpy(task->y + (row + j) * task->y_stride, y[j], task->lanes * sizeof(float));
    }
}

AVX2_INLINE void dot_all(const panel_q8 *panel, const panel_task *task, bool minimum, bool wide,
                         uint32_t levels)
{
    size_t row = 0;
    for (; row + 2 <= task->r; row += 2)
        dot_rows(panel, task, row, 2, minimum, wide, levels);
    if (row < task->r)
        dot_rows(panel, task, row, 1, minimum, wide, levels);
}

AVX2_INLINE void dot_levels(const panel_q8 *panel, const panel_task *task, bool minimum, bool wide)
{
    if (task->levels == 2)
        dot_all(panel, task, minimum, wide, 2);
    else
        dot_all(panel, task, minimum, wide, 1);
}

static AVX2 void dot_q8(const panel_q8 *panel, const panel_task *task)
{
    if (panel_has_minimum(task->type))
        dot_levels(panel, task, true, false);
    else if (task->type == KERNELS_Q8_0)
        dot_levels(panel, task, false, true);
    else
        dot_levels(panel, task, false, false);
}

static AVX2 void unpack_f32(const panel_source *source, panel_f32 *panel)
{
    float rows[PANEL_ROWS][PANEL_COLUMNS];
    const uint8_t *starts[PANEL_ROWS];
    size_t rest = source->count % 4;
    size_t bytes = kernels_row_bytes(source->type, source->count);
    for (size_t i = 0; i < PANEL_ROWS; i++) {
        panel_fetch_ahead(source, i * bytes, bytes);
        avx2_dequantise(source->type, source->rows[i], 0, source->count, rows[i]);
        starts[i] = (const uint8_t *)rows[i];
        for (size_t c = 0; rest && c < 4 - rest; c++) /* whole words of four */
            rows[i][source->count + c] = 0.0f;
    }
    for (size_t c = 0; c < source->count; c += 4) {
        for (size_t half = 0; half < 2; half++) {
            __m256i raw[4], words[4];
            for (size_t i = 0; i < 4; i++)
                raw[i] = two_rows(starts + 8 * half, i, c * sizeof(float));
            transpose(raw, words);
            for (size_t i = 0; i < 4; i++)
                _mm256_store_si256((__m256i *)(void *)(panel->w[c + i] + 8 * half), words[i]);
        }
    }
}

AVX2_INLINE void dot_rows_f32(const panel_f32 *panel, const panel_task *task, size_t row, size_t R)
{
    const uint8_t *x = task->x + row * task->x_stride;
    _Alignas(32) float y[4][PANEL_ROWS] = {{0}};
    __m256 acc[8];
    for (size_t j = 0; j < R; j++) {
        if (!task->first)
            memcpy(y[j], task->y + (row + j) * task->y_stride, task->lanes * sizeof(float));
        acc[2 * j] = _mm256_load_ps(y[j]);
        acc[2 * j + 1] = _mm256_load_ps(y[j] + 8);
    }
    for (size_t c = 0; c < task->count; c++) {
        __m256 w0 = _mm256_load_ps(panel->w[c]);
        __m256 w1 = _mm256_load_ps(panel->w[c] + 8);
        for (size_t j = 0; j < R; j++) {
            const float *a = (const float *)(const void *)(x + j * task->x_stride);
            __m256 all = _mm256_set1_ps(a[c]);
            acc[2 * j] = _mm256_fmadd_ps(w0, all, acc[2 * j]);
            acc[2 * j + 1] = _mm256_fmadd_ps(w1, all, acc[2 * j + 1]);
        }
    }
    for (size_t j = 0; j < R; j++) {
        _mm256_store_ps(y[j], acc[2 * j]);
        _mm256_store_ps(y[j] + 8, acc[2 * j + 1]);
        memcpy(task->y + (row + j) * task->y_stride, y[j], task->lanes * sizeof(float));
    }
}

static AVX2 void dot_f32(const panel_f32 *panel, const panel_task *task)
{
    size_t row = 0;
    for (; row + 4 <= task->r; row += 4)
        dot_rows_f32(panel, task, row, 4);
    for (; row < task->r; row++)
        dot_rows_f32(panel, task, row, 1);
}

static const panel_ops ops = {unpack_q8, dot_q8, unpack_f32, dot_f32};

void avx2_matmul_q8(const kernels_matrix *w, size_t begin, size_t end, const void *x,
                    uint32_t levels, size_t r, float *y, size_t y_stride)
{
    panel_matmul_q8(&ops, w, begin, end, x, levels, r, y, y_stride);
}

void avx2_matmul_f32(const kernels_matrix *w, size_t begin, size_t end, const float *x,
                     size_t x_stride, size_t r, float *y, size_t y_stride)
{
    panel_matmul_f32(&ops, w, begin, end, x, x_stride, r, y, y_stride);
}

#endif
