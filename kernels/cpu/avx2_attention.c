/*
 * kernels/cpu/avx2_attention.c - attention with AVX2; as avx512_attention.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

#include "kernels/reference/blocks.h"

/* Eight elements from number i on as F32; scale: of these lanes, Q8 only. */
AVX2_INLINE __m256 load(const void *from, size_t i, uint32_t kv, __m256 scale)
{
    const uint8_t *at = (const uint8_t *)from + i * kernels_kv_element(kv);
    if (kv == KERNELS_KV_F32)
        return _mm256_loadu_ps((const float *)(const void *)at);
    if (kv == KERNELS_KV_F16)
        return avx2_load_f16(at);
    if (kv == KERNELS_KV_Q8) {
        __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
        return _mm256_mul_ps(_mm256_cvtepi32_ps(q), scale);
    }
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)at);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* While scores of a page are computed, its values and the next page's keys are on
 * their way: a sequence that is decoded sees each of them once. Call number `at`
 * of all that a page gets asks for `bytes` of both. */
AVX2_INLINE void fetch_ahead(const kernels_span *span, size_t page, size_t at, size_t bytes)
{
    bool last = page + 1 == KERNELS_SPAN_PAGES;
    const char *keys = last ? span->ahead : span->keys[page + 1];
    const char *values = span->values[page];
    for (size_t i = at * bytes; i < (at + 1) * bytes; i += 64) {
        _mm_prefetch(values + i, _MM_HINT_T1);
        if (keys)
            _mm_prefetch(keys + i, _MM_HINT_T1);
    }
}

/* Scores of R queries for 32 positions from t, all in one page. */
AVX2_INLINE void score_tile(const kernels_span *span, size_t query, size_t R, size_t t, uint32_t kv)
{
    const void *keys = span->keys[t / KERNELS_PAGE];
    size_t in_page = t % KERNELS_PAGE;
    const uint16_t *scales = kernels_kv_scales(keys, span->head_size) + in_page;
    __m256 sum[8], scale[4] = {_mm256_setzero_ps()};
    for (size_t i = 0; i < 4 * R; i++)
        sum[i] = _mm256_setzero_ps();
    for (size_t c = 0; c < span->head_size; c++) {
        if (query == 0)
            fetch_ahead(span, t / KERNELS_PAGE, in_page / 32 * span->head_size + c,
                        kernels_kv_element(kv) * 32);
        for (size_t v = 0; kv == KERNELS_KV_Q8 && c % KERNELS_BLOCK == 0 && v < 4; v++)
            scale[v] = avx2_load_f16(scales + 2 * c + 8 * v);
        for (size_t v = 0; v < 4; v++) {
            __m256 key = load(keys, c * KERNELS_PAGE + in_page + 8 * v, kv, scale[v]);
            for (size_t j = 0; j < R; j++)
                sum[4 * j + v] =
                    _mm256_fmadd_ps(key, _mm256_set1_ps(span->q[query + j][c]), sum[4 * j + v]);
        }
    }
    for (size_t j = 0; j < R; j++)
        for (size_t v = 0; v < 4; v++)
            _mm256_storeu_ps(span->scores + (query + j) * KERNELS_SPAN + t + 8 * v,
                             _mm256_mul_ps(sum[4 * j + v], _mm256_set1_ps(span->scale)));
}

/* Adds positions [t, end) to V * 8 channels from c of R queries. All of them are in
 * the same block. */
AVX2_INLINE void value_tile(const kernels_span *span, size_t query, size_t R, size_t c, size_t V,
                            size_t t, size_t end, uint32_t kv)
{
    size_t blocks = kernels_kv_blocks(kv, span->head_size);
    __m256 scale = _mm256_setzero_ps();
    __m256 sum[8];
    for (size_t j = 0; j < R; j++)
        for (size_t v = 0; v < V; v++)
            sum[j * V + v] = t == 0 ? _mm256_setzero_ps()
                                    : _mm256_loadu_ps(span->partial[query + j] + 2 + c + 8 * v);
    for (; t < end; t++) {
        const void *values = span->values[t / KERNELS_PAGE];
        size_t at = t % KERNELS_PAGE * span->head_size + c;
        if (kv == KERNELS_KV_Q8) {
            const uint16_t *scales = kernels_kv_scales(values, span->head_size);
            size_t of = t % KERNELS_PAGE * blocks + c / KERNELS_BLOCK;
            scale = _mm256_cvtph_ps(_mm_set1_epi16((short)scales[of]));
        }
        for (size_t v = 0; v < V; v++) {
            __m256 value = load(values, at + 8 * v, kv, scale);
            for (size_t j = 0; j < R; j++) {
                float p = span->scores[(query + j) * KERNELS_SPAN + t];
                sum[j * V + v] = _mm256_fmadd_ps(_mm256_set1_ps(p), value, sum[j * V + v]);
            }
        }
    }
    for (size_t j = 0; j < R; j++)
        for (size_t v = 0; v < V; v++)
            _mm256_storeu_ps(span->partial[query + j] + 2 + c + 8 * v, sum[j * V + v]);
}

/* The channels that fill no register: one at a time. */
AVX2_INLINE void value_rest(const kernels_span *span, size_t query, size_t c, size_t t, size_t end)
{
    for (; c < span->head_size; c++) {
        float sum = t == 0 ? 0.0f : span->partial[query][2 + c];
        for (size_t i = t; i < end; i++) {
            const void *values = span->values[i / KERNELS_PAGE];
            size_t in_page = i % KERNELS_PAGE;
            float value = reference_kv(
                span->kv, values, span->head_size, in_page * span->head_size + c,
                in_page * kernels_kv_blocks(span->kv, span->head_size) + c / KERNELS_BLOCK);
            sum = fmaf(span->scores[query * KERNELS_SPAN + i], value, sum);
        }
        span->partial[query][2 + c] = sum;
    }
}

AVX2_INLINE void value_rows(const kernels_span *span, size_t query, size_t R, size_t t, size_t end,
                            uint32_t kv)
{
    size_t c = 0;
    for (; c + 32 <= span->head_size; c += 32)
        value_tile(span, query, R, c, 4, t, end, kv);
    for (; c + 8 <= span->head_size; c += 8)
        value_tile(span, query, R, c, 1, t, end, kv);
    for (size_t j = 0; j < R; j++)
        value_rest(span, query + j, c, t, end);
}

AVX2_INLINE void span_rows(const kernels_span *span, size_t query, size_t R, uint32_t kv)
{
    size_t most = 0;
    size_t all = KERNELS_SPAN;
    for (size_t j = 0; j < R; j++) {
        size_t visible = span->visible[query + j];
        most = visible > most ? visible : most;
        all = visible < all ? visible : all;
    }
    for (size_t t = 0; t < most; t += 32)
        score_tile(span, query, R, t, kv);
    for (size_t j = 0; j < R; j++) {
        float *scores = span->scores + (query + j) * KERNELS_SPAN;
        float *partial = span->partial[query + j];
        partial[1] = scores[avx2_argmax(scores, span->visible[query + j])];
        partial[0] = avx2_softmax_exp(scores, span->visible[query + j], partial[1], scores);
    }
    value_rows(span, query, R, 0, all, kv);
    for (size_t j = 0; j < R; j++)
        if (span->visible[query + j] > all)
            value_rows(span, query + j, 1, all, span->visible[query + j], kv);
}

AVX2_INLINE void span_all(const kernels_span *span, uint32_t kv)
{
    size_t query = 0;
    for (; query + 2 <= span->queries; query += 2)
        span_rows(span, query, 2, kv);
    if (query < span->queries)
        span_rows(span, query, 1, kv);
}

/* One function a type: the type is a constant inside. */
static AVX2 void span_f16(const kernels_span *span)
{
    span_all(span, KERNELS_KV_F16);
}

static AVX2 void span_bf16(const kernels_span *span)
{
    span_all(span, KERNELS_KV_BF16);
}

static AVX2 void span_q8(const kernels_span *span)
{
    span_all(span, KERNELS_KV_Q8);
}

static AVX2 void span_f32(const kernels_span *span)
{
    span_all(span, KERNELS_KV_F32);
}

AVX2 void avx2_attention_span(const kernels_span *span)
{
    static void (*const spans[KERNELS_KV_TYPES])(const kernels_span *) = {
        [KERNELS_KV_F16] = span_f16,
        [KERNELS_KV_BF16] = span_bf16,
        [KERNELS_KV_Q8] = span_q8,
        [KERNELS_KV_F32] = span_f32};
    spans[span->kv](span);
}

AVX2 void avx2_attention_merge(float *running, const float *partial, size_t head_size)
{
    float maximum = partial[1] > running[1] ? partial[1] : running[1];
    float old = numbers_exp(running[1] - maximum);
    float new = numbers_exp(partial[1] - maximum);
    running[0] = fmaf(partial[0], new, running[0] * old);
    running[1] = maximum;
    for (size_t c = 0; c < head_size; c++)
        running[2 + c] = fmaf(partial[2 + c], new, running[2 + c] * old);
}

AVX2 void avx2_attention_finish(const float *running, size_t head_size, float *out)
{
    for (size_t c = 0; c < head_size; c++)
        out[c] = running[2 + c] / running[0];
}

#endif
