/*
 * kernels/cpu/avx512_matmul.c - matrix products with AVX-512 and VNNI.
 *
 * A ZMM register holds 16 lanes of 4 bytes: the same four columns of the 16 rows
 * of a panel. vpdpbusd multiplies them with four activations of one row, sent to
 * all lanes, and adds the four products into each lane: 64 multiplications that
 * end where they belong, one output a lane.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx512.h"

#if defined(__x86_64__)

#include "kernels/reference/blocks.h"

/* Sixteen bytes of rows i, i + 4, i + 8, i + 12, one in each quarter. */
AVX512_INLINE __m512i four_rows(const uint8_t *const *rows, size_t i, size_t at)
{
    __m512i z = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(rows[i] + at)));
    z = _mm512_mask_broadcast_i32x4(z, 0x00f0,
                                    _mm_loadu_si128((const __m128i *)(rows[i + 4] + at)));
    z = _mm512_mask_broadcast_i32x4(z, 0x0f00,
                                    _mm_loadu_si128((const __m128i *)(rows[i + 8] + at)));
    return _mm512_mask_broadcast_i32x4(z, 0xf000,
                                       _mm_loadu_si128((const __m128i *)(rows[i + 12] + at)));
}

/* In: in[i] holds 4 words of rows i, i + 4, i + 8, i + 12. Out: out[g] holds word
 * g of rows 0..15. */
AVX512_INLINE void transpose(const __m512i in[4], __m512i out[4])
{
    __m512i low01 = _mm512_unpacklo_epi32(in[0], in[1]);
    __m512i low23 = _mm512_unpacklo_epi32(in[2], in[3]);
    __m512i high01 = _mm512_unpackhi_epi32(in[0], in[1]);
    __m512i high23 = _mm512_unpackhi_epi32(in[2], in[3]);
    out[0] = _mm512_unpacklo_epi64(low01, low23);
    out[1] = _mm512_unpackhi_epi64(low01, low23);
    out[2] = _mm512_unpacklo_epi64(high01, high23);
    out[3] = _mm512_unpackhi_epi64(high01, high23);
}

AVX512_INLINE void store_groups(panel_q8 *panel, size_t b, size_t g, const __m512i words[4])
{
    for (size_t i = 0; i < 4; i++)
        _mm512_store_si512(panel->q[b][g + i], words[i]);
}

/* The 4-bit types can be transposed first and split after. */
AVX512_INLINE void unpack_nibbles(const panel_source *source, size_t at, panel_q8 *panel, size_t b)
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512i raw[4], words[4], high[4];
    for (size_t i = 0; i < 4; i++)
        raw[i] = four_rows(source->rows, i, at);
    transpose(raw, words);
    for (size_t i = 0; i < 4; i++) {
        high[i] = _mm512_and_si512(_mm512_srli_epi16(words[i], 4), low);
        words[i] = _mm512_and_si512(words[i], low);
    }
    store_groups(panel, b, 0, words);
    store_groups(panel, b, 4, high);
}

/* The fifth bits of 16 numbers (from bit `shift`) of rows i, i + 4, i + 8, i + 12. */
AVX512_INLINE __m512i fifth_bits(const uint8_t *const *rows, size_t i, size_t at, int shift)
{
    uint64_t bits = 0;
    for (size_t lane = 0; lane < 4; lane++)
        bits |= (uint64_t)(numbers_u32(rows[i + 4 * lane] + at) >> shift & 0xffff) << 16 * lane;
    return _mm512_maskz_set1_epi8(bits, 16);
}

AVX512_INLINE void unpack_five(const panel_source *source, size_t at, panel_q8 *panel, size_t b)
{
    const __m512i four = _mm512_set1_epi8(15);
    __m512i low[4], high[4], words[4];
    for (size_t i = 0; i < 4; i++) {
        __m512i raw = four_rows(source->rows, i, at + 4);
        low[i] = _mm512_or_si512(_mm512_and_si512(raw, four), fifth_bits(source->rows, i, at, 0));
        high[i] = _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi16(raw, 4), four),
                                  fifth_bits(source->rows, i, at, 16));
    }
    transpose(low, words);
    store_groups(panel, b, 0, words);
    transpose(high, words);
    store_groups(panel, b, 4, words);
}

AVX512_INLINE void unpack_bytes(const panel_source *source, size_t at, panel_q8 *panel, size_t b)
{
    const __m512i offset = _mm512_set1_epi8((char)0x80);
    __m512i raw[4], words[4];
    for (size_t half = 0; half < 2; half++) {
        for (size_t i = 0; i < 4; i++)
            raw[i] = four_rows(source->rows, i, at + 16 * half);
        transpose(raw, words);
        for (size_t i = 0; i < 4; i++)
            words[i] = _mm512_xor_si512(words[i], offset);
        store_groups(panel, b, 4 * half, words);
    }
}

/* Scales stand at the front of each block: one half of a word, or both. */
AVX512_INLINE void unpack_scales(const panel_source *source, size_t bytes, panel_q8 *panel)
{
    _Alignas(64) uint32_t words[PANEL_BLOCKS][PANEL_ROWS];
    for (size_t b = 0; b < source->count; b++)
        for (size_t row = 0; row < PANEL_ROWS; row++)
            words[b][row] = numbers_u32(source->rows[row] + b * bytes);
    for (size_t b = 0; b < source->count; b++) {
        __m512i both = _mm512_load_si512(words[b]);
        __m256i d = _mm512_cvtepi32_epi16(both);
        _mm512_store_ps(panel->d[b], _mm512_cvtph_ps(d));
        if (!panel_has_minimum(source->type))
            continue;
        __m256i m = _mm512_cvtepi32_epi16(_mm512_srli_epi32(both, 16));
        _mm512_store_ps(panel->m[b], _mm512_cvtph_ps(m));
    }
}

static AVX512 void unpack_q8(const panel_source *source, panel_q8 *panel)
{
    size_t bytes = kernels_row_bytes(source->type, KERNELS_BLOCK);
    unpack_scales(source, bytes, panel);
    for (size_t b = 0; b < source->count; b++) {
        size_t at = b * bytes;
        panel_fetch_ahead(source, at * PANEL_ROWS, bytes * PANEL_ROWS);
        switch (source->type) {
        case KERNELS_Q4_0:
            unpack_nibbles(source, at + 2, panel, b);
            break;
        case KERNELS_Q4_1:
            unpack_nibbles(source, at + 4, panel, b);
            break;
        case KERNELS_Q5_0:
            unpack_five(source, at + 2, panel, b);
            break;
        case KERNELS_Q5_1:
            unpack_five(source, at + 4, panel, b);
            break;
        default:
            unpack_bytes(source, at + 2, panel, b);
            break;
        }
    }
}

/* Adds the exact integer products of one block with R activation rows to sum.
 * Two levels are two chains; few rows of one level make two chains as well, so
 * that one multiplication need not wait for the last. */
AVX512_INLINE void dot_block(const panel_q8 *panel, const panel_task *task, size_t b,
                             const uint8_t *x, size_t R, uint32_t levels, __m512i *sum)
{
    __m512i other[8];
    for (size_t j = 0; j < R; j++)
        other[j] = _mm512_setzero_si512();
    for (size_t g = 0; g < KERNELS_BLOCK / 4; g++) {
        __m512i w = _mm512_load_si512(panel->q[b][g]);
        for (size_t j = 0; j < R; j++) {
            const uint8_t *four = x + j * task->x_stride + b * KERNELS_BLOCK + 4 * g;
            __m512i a = _mm512_set1_epi32((int32_t)numbers_u32(four));
            if (levels == 2) {
                __m512i low = _mm512_set1_epi32((int32_t)numbers_u32(four + task->low));
                other[j] = _mm512_dpbusd_epi32(other[j], w, a);
                sum[j] = _mm512_dpbusd_epi32(sum[j], w, low);
            } else if (R <= 2 && g % 2) {
                other[j] = _mm512_dpbusd_epi32(other[j], w, a);
            } else {
                sum[j] = _mm512_dpbusd_epi32(sum[j], w, a);
            }
        }
    }
    for (size_t j = 0; (levels == 2 || R <= 2) && j < R; j++)
        sum[j] = _mm512_add_epi32(sum[j], levels == 2 ? _mm512_slli_epi32(other[j], 7) : other[j]);
}

AVX512_INLINE void dot_rows(const panel_q8 *panel, const panel_task *task, size_t row, size_t R,
                            bool minimum, uint32_t levels)
{
    const uint8_t *x = task->x + row * task->x_stride;
    float *y = task->y + row * task->y_stride;
    __mmask16 lanes = avx512_first(task->lanes);
    __m512 acc[8];
    for (size_t j = 0; j < R; j++)
        acc[j] = task->first ? _mm512_setzero_ps()
                             : _mm512_maskz_loadu_ps(lanes, y + j * task->y_stride);
    for (size_t b = 0; b < task->count; b++) {
        const uint8_t *scale = x + task->scales + b * sizeof(float);
        __m512i sum[8];
        for (size_t j = 0; j < R; j++) {
            int32_t xs = (int32_t)numbers_u32(scale + j * task->x_stride + 4 * task->blocks);
            sum[j] = _mm512_set1_epi32(-panel_offset(task->type) * xs);
        }
        dot_block(panel, task, b, x, R, levels, sum);
        __m512 d = _mm512_load_ps(panel->d[b]);
        for (size_t j = 0; j < R; j++) {
            float s = numbers_from_bits(numbers_u32(scale + j * task->x_stride));
            __m512 both = _mm512_mul_ps(d, _mm512_set1_ps(s));
            acc[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[j]), both, acc[j]);
        }
        for (size_t j = 0; minimum && j < R; j++) {
            float s = numbers_from_bits(numbers_u32(scale + j * task->x_stride + 8 * task->blocks));
            acc[j] = _mm512_fmadd_ps(_mm512_load_ps(panel->m[b]), _mm512_set1_ps(s), acc[j]);
        }
    }
    for (size_t j = 0; j < R; j++)
        _mm512_mask_storeu_ps(y + j * task->y_stride, lanes, acc[j]);
}

AVX512_INLINE void dot_all(const panel_q8 *panel, const panel_task *task, bool minimum,
                           uint32_t levels)
{
    size_t row = 0;
    for (; row + 8 <= task->r; row += 8)
        dot_rows(panel, task, row, 8, minimum, levels);
    if (row + 4 <= task->r) {
        dot_rows(panel, task, row, 4, minimum, levels);
        row += 4;
    }
    if (row + 2 <= task->r) {
        dot_rows(panel, task, row, 2, minimum, levels);
        row += 2;
    }
    if (row < task->r)
        dot_rows(panel, task, row, 1, minimum, levels);
}

static AVX512 void dot_q8(const panel_q8 *panel, const panel_task *task)
{
    bool minimum = panel_has_minimum(task->type);
    if (task->levels == 2 && minimum)
        dot_all(panel, task, true, 2);
    else if (task->levels == 2)
        dot_all(panel, task, false, 2);
    else if (minimum)
        dot_all(panel, task, true, 1);
    else
        dot_all(panel, task, false, 1);
}

/* One block of a 4-bit type or of Q8_0. */
AVX512_INLINE void dequantise_block(uint32_t type, const uint8_t *block, float *out)
{
    bool minimum = panel_has_minimum(type);
    const uint8_t *q = block + (minimum ? 4 : 2);
    __m512 d = _mm512_set1_ps(_cvtsh_ss(numbers_u16(block)));
    __m512 offset = _mm512_set1_ps((float)panel_offset(type));
    __m512 low, high;
    if (type == KERNELS_Q8_0) {
        low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)q)));
        high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(q + 16))));
    } else {
        __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)q));
        __m512i half = _mm512_and_si512(wide, _mm512_set1_epi32(15));
        low = _mm512_sub_ps(_mm512_cvtepi32_ps(half), offset);
        high = _mm512_sub_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(wide, 4)), offset);
    }
    if (minimum) {
        __m512 m = _mm512_set1_ps(_cvtsh_ss(numbers_u16(block + 2)));
        _mm512_storeu_ps(out, _mm512_fmadd_ps(d, low, m));
        _mm512_storeu_ps(out + 16, _mm512_fmadd_ps(d, high, m));
    } else {
        _mm512_storeu_ps(out, _mm512_mul_ps(d, low));
        _mm512_storeu_ps(out + 16, _mm512_mul_ps(d, high));
    }
}

AVX512 void avx512_dequantise(uint32_t type, const void *row, size_t begin, size_t count,
                              float *out)
{
    const uint8_t *at = (const uint8_t *)row + kernels_row_bytes(type, begin);
    if (type == KERNELS_F16 || type == KERNELS_BF16) {
        for (size_t i = 0; i < count; i += 16) {
            __mmask16 mask = avx512_first(count - i);
            __m256i half = _mm256_maskz_loadu_epi16(mask, at + 2 * i);
            __m512 wide =
                type == KERNELS_F16
                    ? _mm512_cvtph_ps(half)
                    : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
            _mm512_mask_storeu_ps(out + i, mask, wide);
        }
    } else if (type == KERNELS_Q8_0 || type == KERNELS_Q4_0 || type == KERNELS_Q4_1) {
        size_t bytes = kernels_row_bytes(type, KERNELS_BLOCK);
        for (size_t b = 0; b < count / KERNELS_BLOCK; b++)
            dequantise_block(type, at + b * bytes, out + b * KERNELS_BLOCK);
    } else {
        reference_dequantise(type, row, begin, count, out);
    }
}

static AVX512 void unpack_f32(const panel_source *source, panel_f32 *panel)
{
    float rows[PANEL_ROWS][PANEL_COLUMNS];
    const uint8_t *starts[PANEL_ROWS];
    size_t rest = source->count % 4;
    size_t bytes = kernels_row_bytes(source->type, source->count);
    for (size_t i = 0; i < PANEL_ROWS; i++) {
        panel_fetch_ahead(source, i * bytes, bytes);
        avx512_dequantise(source->type, source->rows[i], 0, source->count, rows[i]);
        starts[i] = (const uint8_t *)rows[i];
        for (size_t c = 0; rest && c < 4 - rest; c++) /* whole words of four */
            rows[i][source->count + c] = 0.0f;
    }
    for (size_t c = 0; c < source->count; c += 4) {
        __m512i raw[4], words[4];
        for (size_t i = 0; i < 4; i++)
            raw[i] = four_rows(starts, i, c * sizeof(float));
        transpose(raw, words);
        for (size_t i = 0; i < 4; i++)
            _mm512_store_si512(panel->w[c + i], words[i]);
    }
}

AVX512_INLINE void dot_rows_f32(const panel_f32 *panel, const panel_task *task, size_t row,
                                size_t R)
{
    const uint8_t *x = task->x + row * task->x_stride;
    float *y = task->y + row * task->y_stride;
    __mmask16 lanes = avx512_first(task->lanes);
    __m512 acc[8];
    for (size_t j = 0; j < R; j++)
        acc[j] = task->first ? _mm512_setzero_ps()
                             : _mm512_maskz_loadu_ps(lanes, y + j * task->y_stride);
    for (size_t c = 0; c < task->count; c++) {
        __m512 w = _mm512_load_ps(panel->w[c]);
        for (size_t j = 0; j < R; j++) {
            const float *a = (const float *)(const void *)(x + j * task->x_stride);
            acc[j] = _mm512_fmadd_ps(w, _mm512_set1_ps(a[c]), acc[j]);
        }
    }
    for (size_t j = 0; j < R; j++)
        _mm512_mask_storeu_ps(y + j * task->y_stride, lanes, acc[j]);
}

static AVX512 void dot_f32(const panel_f32 *panel, const panel_task *task)
{
    size_t row = 0;
    for (; row + 8 <= task->r; row += 8)
        dot_rows_f32(panel, task, row, 8);
    for (; row < task->r; row++)
        dot_rows_f32(panel, task, row, 1);
}

static const panel_ops ops = {unpack_q8, dot_q8, unpack_f32, dot_f32};

void avx512_matmul_q8(const kernels_matrix *w, size_t begin, size_t end, const void *x,
                      uint32_t levels, size_t r, float *y, size_t y_stride)
{
    panel_matmul_q8(&ops, w, begin, end, x, levels, r, y, y_stride);
}

void avx512_matmul_f32(const kernels_matrix *w, size_t begin, size_t end, const float *x,
                       size_t x_stride, size_t r, float *y, size_t y_stride)
{
    panel_matmul_f32(&ops, w, begin, end, x, x_stride, r, y, y_stride);
}

#endif
