/*
 * kernels/cpu/avx512_attention.c - attention and exponentials with AVX-512.
 *
 * Scores: a lane is a position, so channels are summed in ascending order in one
 * chain. Values: a lane is a channel, so positions are. Neither sum crosses
 * lanes, and a key or value that was loaded serves all queries of the span.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/cpu/avx512.h"

#if defined(__x86_64__)

/* While scores of a page are computed, its values and the next page's keys are on
 * their way: a sequence that is decoded sees each of them once. Call number `at`
 * of all that a page gets asks for `lines` cache lines of both. */
AVX512_INLINE void fetch_ahead(const kernels_span *span, size_t page, size_t at, size_t lines)
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

/* Scores of R queries for V * 16 positions from t, all in one page. */
AVX512_INLINE void score_tile(const kernels_span *span, size_t query, size_t R, size_t t, size_t V,
                              bool f16)
{
    const void *keys = span->keys[t / KERNELS_PAGE];
    size_t in_page = t % KERNELS_PAGE;
    __m512 sum[8];
    for (size_t i = 0; i < R * V; i++)
        sum[i] = _mm512_setzero_ps();
    for (size_t c = 0; c < span->head_size; c++) {
        if (query == 0)
            fetch_ahead(span, t / KERNELS_PAGE, in_page / (16 * V) * span->head_size + c,
                        (f16 ? 2 : 4) * V / 4);
        for (size_t v = 0; v < V; v++) {
            __m512 key = avx512_load(keys, c * KERNELS_PAGE + in_page + 16 * v, f16);
            for (size_t j = 0; j < R; j++)
                sum[j * V + v] =
                    _mm512_fmadd_ps(key, _mm512_set1_ps(span->q[query + j][c]), sum[j * V + v]);
        }
    }
    for (size_t j = 0; j < R; j++)
        for (size_t v = 0; v < V; v++)
            _mm512_storeu_ps(span->scores + (query + j) * KERNELS_SPAN + t + 16 * v,
                             _mm512_mul_ps(sum[j * V + v], _mm512_set1_ps(span->scale)));
}

/* Adds positions [t, end) to V * 16 channels from c of R queries; mask: which of
 * the last 16 exist. */
AVX512_INLINE void value_tile(const kernels_span *span, size_t query, size_t R, size_t c, size_t V,
                              size_t t, size_t end, __mmask16 mask, bool f16)
{
    __m512 sum[16];
    for (size_t j = 0; j < R; j++)
        for (size_t v = 0; v < V; v++)
            sum[j * V + v] =
                t == 0 ? _mm512_setzero_ps()
                       : _mm512_maskz_loadu_ps(mask, span->partial[query + j] + 2 + c + 16 * v);
    for (; t < end; t++) {
        const void *values = span->values[t / KERNELS_PAGE];
        size_t at = t % KERNELS_PAGE * span->head_size + c;
        for (size_t v = 0; v < V; v++) {
            __m512 value = V == 1 ? avx512_load_first(values, at, f16, mask)
                                  : avx512_load(values, at + 16 * v, f16);
            for (size_t j = 0; j < R; j++) {
                float p = span->scores[(query + j) * KERNELS_SPAN + t];
                sum[j * V + v] = _mm512_fmadd_ps(_mm512_set1_ps(p), value, sum[j * V + v]);
            }
        }
    }
    for (size_t j = 0; j < R; j++)
        for (size_t v = 0; v < V; v++)
            _mm512_mask_storeu_ps(span->partial[query + j] + 2 + c + 16 * v, mask, sum[j * V + v]);
}

AVX512_INLINE void value_rows(const kernels_span *span, size_t query, size_t R, size_t t,
                              size_t end, bool f16)
{
    size_t c = 0;
    for (; c + 64 <= span->head_size; c += 64)
        value_tile(span, query, R, c, 4, t, end, 0xffff, f16);
    for (; c < span->head_size; c += 16)
        value_tile(span, query, R, c, 1, t, end, avx512_first(span->head_size - c), f16);
}

static AVX512 float greatest(const float *x, size_t n)
{
    __m512 best = _mm512_set1_ps(-INFINITY);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        best = _mm512_mask_max_ps(best, mask, _mm512_maskz_loadu_ps(mask, x + i), best);
    }
    return _mm512_reduce_max_ps(best);
}

AVX512 float avx512_softmax_exp(const float *x, size_t n, float maximum, float *p)
{
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __m512 in = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 e = avx512_exp(_mm512_sub_ps(in, _mm512_set1_ps(maximum)));
        _mm512_mask_storeu_ps(p + i, mask, e);
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
    }
    return avx512_fold(sum);
}

AVX512 float avx512_sum_exp(const float *x, size_t n, float maximum)
{
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 mask = avx512_first(n - i);
        __m512 in = _mm512_maskz_loadu_ps(mask, x + i);
        __m512 e = avx512_exp(_mm512_sub_ps(in, _mm512_set1_ps(maximum)));
        sum = _mm512_mask_add_ps(sum, mask, sum, e);
    }
    return avx512_fold(sum);
}

/* R queries that share loads. The scores beyond what a query sees are computed
 * with the others' and never looked at. */
AVX512_INLINE void span_rows(const kernels_span *span, size_t query, size_t R, size_t V, bool f16)
{
    size_t most = 0;
    size_t all = KERNELS_SPAN;
    for (size_t j = 0; j < R; j++) {
        size_t visible = span->visible[query + j];
        most = visible > most ? visible : most;
        all = visible < all ? visible : all;
    }
    for (size_t t = 0; t < most; t += 16 * V)
        score_tile(span, query, R, t, V, f16);
    for (size_t j = 0; j < R; j++) {
        float *scores = span->scores + (query + j) * KERNELS_SPAN;
        float *partial = span->partial[query + j];
        partial[1] = greatest(scores, span->visible[query + j]);
        partial[0] = avx512_softmax_exp(scores, span->visible[query + j], partial[1], scores);
    }
    value_rows(span, query, R, 0, all, f16);
    for (size_t j = 0; j < R; j++)
        if (span->visible[query + j] > all)
            value_rows(span, query + j, 1, all, span->visible[query + j], f16);
}

AVX512_INLINE void span_all(const kernels_span *span, bool f16)
{
    size_t query = 0;
    for (; query + 4 <= span->queries; query += 4)
        span_rows(span, query, 4, 2, f16);
    if (query + 3 == span->queries) {
        span_rows(span, query, 3, 2, f16);
        query += 3;
    }
    for (; query < span->queries; query++)
        span_rows(span, query, 1, 4, f16);
}

AVX512 void avx512_attention_span(const kernels_span *span)
{
    if (span->f16)
        span_all(span, true);
    else
        span_all(span, false);
}

AVX512 void avx512_attention_merge(float *running, const float *partial, size_t head_size)
{
    float maximum = partial[1] > running[1] ? partial[1] : running[1];
    float old = numbers_exp(running[1] - maximum);
    float new = numbers_exp(partial[1] - maximum);
    running[0] = fmaf(partial[0], new, running[0] * old);
    running[1] = maximum;
    for (size_t c = 0; c < head_size; c += 16) {
        __mmask16 mask = avx512_first(head_size - c);
        __m512 sum =
            _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, running + 2 + c), _mm512_set1_ps(old));
        sum =
            _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, partial + 2 + c), _mm512_set1_ps(new), sum);
        _mm512_mask_storeu_ps(running + 2 + c, mask, sum);
    }
}

AVX512 void avx512_attention_finish(const float *running, size_t head_size, float *out)
{
    for (size_t c = 0; c < head_size; c += 16) {
        __mmask16 mask = avx512_first(head_size - c);
        __m512 sum = _mm512_maskz_loadu_ps(mask, running + 2 + c);
        _mm512_mask_storeu_ps(out + c, mask, _mm512_div_ps(sum, _mm512_set1_ps(running[0])));
    }
}

#endif
