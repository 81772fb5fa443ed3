/*
 * kernels/cpu/avx2_attention.c - attention with AVX2; as avx512_attention.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx2.h"

#if defined(__x86_64__)

#include "kernels/reference/blocks.h"

/* While scores of a page are computed, its values and the next page's keys are on
 * their way: a sequence that is decoded sees each of them once. Call number `at`
 * of all that a page gets asks for `lines` cache lines of both. */
AVX2_INLINE void fetch_ahead(const kernels_span *span, size_t page, size_t at, size_t lines)
{
    bool last = page + 1 == KERNELS_SPAN_PAGES;
    const char *keys = last ? span->ahead : span->keys[page + 1];
    const char *values = span->values[page];
    for (size_t i = at * lines; i < (at + 1) * lines; i++) {
        _mm_prefetch(values + 64 * i, _MM_HINT_T1);
        if (keys)
            _mm_prefetch(keys + 64 * i, _MM_HINT_T1);
    }
}

/* Scores of R queries for 32 positions from t, all in one page. */
AVX2_INLINE void score_tile(const kernels_span *span, size_t query, size_t R, size_t t, bool f16)
{
    const void *keys = span->keys[t / KERNELS_PAGE];
    size_t in_page = t % KERNELS_PAGE;
    __m256 sum[8];
    for (size_t i = 0; i < 4 * R; i++)
        sum[i] = _mm256_setzero_ps();
    for (size_t c = 0; c < span->head_size; c++) {
        if (query == 0)
            fetch_ahead(span, t / KERNELS_PAGE, in_page / 32 * span->head_size + c, f16 ? 1 : 2);
        for (size_t v = 0; v < 4; v++) {
            __m256 key = avx2_load(keys, c * KERNELS_PAGE + in_page + 8 * v, f16);
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

/* Adds positions [t, end) to V * 8 channels from c of R queries. */
AVX2_INLINE void value_tile(const kernels_span *span, size_t query, size_t R, size_t c, size_t V,
                            size_t t, size_t end, bool f16)
{
    __m256 sum[8];
    for (size_t j = 0; j < R; j++)
        for (size_t v = 0; v < V; v++)
            sum[j * V + v] = t == 0 ? _mm256_setzero_ps()
                                    : _mm256_loadu_ps(span->partial[query + j] + 2 + c + 8 * v);
    for (; t < end; t++) {
        const void *values = span->values[t / KERNELS_PAGE];
        size_t at = t % KERNELS_PAGE * span->head_size + c;
        for (size_t v = 0; v < V; v++) {
            __m256 value = avx2_load(values, at + 8 * v, f16);
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
            size_t at = i % KERNELS_PAGE * span->head_size + c;
            float value = span->f16 ? numbers_from_f16(((const uint16_t *)values)[at])
                                    : ((const float *)values)[at];
            sum = fmaf(span->scores[query * KERNELS_SPAN + i], value, sum);
        }
        span->partial[query][2 + c] = sum;
    }
}

AVX2_INLINE void value_rows(const kernels_span *span, size_t query, size_t R, size_t t, size_t end,
                            bool f16)
{
    size_t c = 0;
    for (; c + 32 <= span->head_size; c += 32)
        value_tile(span, query, R, c, 4, t, end, f16);
    for (; c + 8 <= span->head_size; c += 8)
        value_tile(span, query, R, c, 1, t, end, f16);
    for (size_t j = 0; j < R; j++)
        value_rest(span, query + j, c, t, end);
}

AVX2_INLINE void span_rows(const kernels_span *span, size_t query, size_t R, bool f16)
{
    size_t most = 0;
    size_t all = KERNELS_SPAN;
    for (size_t j = 0; j < R; j++) {
        size_t visible = span->visible[query + j];
        most = visible > most ? visible : most;
        all = visible < all ? visible : all;
    }
    for (size_t t = 0; t < most; t += 32)
        score_tile(span, query, R, t, f16);
    for (size_t j = 0; j < R; j++) {
        float *scores = span->scores + (query + j) * KERNELS_SPAN;
        float *partial = span->partial[query + j];
        partial[1] = scores[avx2_argmax(scores, span->visible[query + j])];
        partial[0] = avx2_softmax_exp(scores, span->visible[query + j], partial[1], scores);
    }
    value_rows(span, query, R, 0, all, f16);
    for (size_t j = 0; j < R; j++)
        if (span->visible[query + j] > all)
            value_rows(span, query + j, 1, all, span->visible[query + j], f16);
}

AVX2_INLINE void span_all(const kernels_span *span, bool f16)
{
    size_t query = 0;
    for (; query + 2 <= span->queries; query += 2)
        span_rows(span, query, 2, f16);
    if (query < span->queries)
        span_rows(span, query, 1, f16);
}

AVX2 void avx2_attention_span(const kernels_span *span)
{
    if (span->f16)
        span_all(span, true);
    else
        span_all(span, false);
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
