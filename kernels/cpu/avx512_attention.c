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

/* Sixteen elements from number i on as F32; scale: of these lanes, Q8 only. */
AVX512_INLINE __m512 load(const void *from, size_t i, uint32_t kv, __m512 scale)
{
    const uint8_t *at = (const uint8_t *)from + i * kernels_kv_element(kv);
    if (kv == KERNELS_KV_F32)
        return _mm512_loadu_ps(at);
    if (kv == KERNELS_KV_Q8) {
        __m128i q = _mm_loadu_si128((const __m128i *)(const void *)at);
        return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), scale);
    }
    __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)at);
    if (kv == KERNELS_KV_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* The same for those lanes that exist. */
AVX512_INLINE __m512 load_first(const void *from, size_t i, uint32_t kv, __m512 scale,
                                __mmask16 mask)
{
    const uint8_t *at = (const uint8_t *)from + i * kernels_kv_element(kv);
    if (kv == KERNELS_KV_F32)
        return _mm512_maskz_loadu_ps(mask, at);
    if (kv == KERNELS_KV_Q8) {
        __m512i q = _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, at));
        return _mm512_mul_ps(_mm512_cvtepi32_ps(q), scale);
    }
    __m256i half = _mm256_maskz_loadu_epi16(mask, at);
    if (kv == KERNELS_KV_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* While scores of a page are computed, its values and the next page's keys are on
 * their way: a sequence that is decoded sees each of them once. Call number `at`
 * of all that a page gets asks for `bytes` of both. */
AVX512_INLINE void fetch_ahead(const kernels_span *span, size_t page, size_t at, size_t bytes)
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

/* Scores of R queries for V * 16 positions from t, all in one page. */
AVX512_INLINE void score_tile(const kernels_span *span, size_t query, size_t R, size_t t, size_t V,
                              uint32_t kv)
{
    const void *keys = span->keys[t / KERNELS_PAGE];
    size_t in_page = t % KERNELS_PAGE;
    const uint16_t *scales = kernels_kv_scales(keys, span->head_size) + in_page;
    __m512 sum[8], scale[4] = {_mm512_setzero_ps()};
    for (size_t i = 0; i < R * V; i++)
        sum[i] = _mm512_setzero_ps();
    for (size_t c = 0; c < span->head_size; c++) {
        if (query == 0)
            fetch_ahead(span, t / KERNELS_PAGE, in_page / (16 * V) * span->head_size + c,
                        kernels_kv_element(kv) * 16 * V);
        for (size_t v = 0; kv == KERNELS_KV_Q8 && c % KERNELS_BLOCK == 0 && v < V; v++)
            scale[v] = _mm512_cvtph_ps(
                _mm256_loadu_si256((const __m256i *)(const void *)(scales + 2 * c + 16 * v)));
        for (size_t v = 0; v < V; v++) {
            __m512 key = load(keys, c * KERNELS_PAGE + in_page + 16 * v, kv, scale[v]);
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

/* The scale of the block that channel c is in, for position t of its page. */
AVX512_INLINE __m512 value_scale(const kernels_span *span, const void *values, size_t t, size_t c,
                                 uint32_t kv)
{
    if (kv != KERNELS_KV_Q8)
        return _mm512_setzero_ps();
    const uint16_t *scales = kernels_kv_scales(values, span->head_size);
    size_t at = t * kernels_kv_blocks(kv, span->head_size) + c / KERNELS_BLOCK;
    return _mm512_cvtph_ps(_mm256_set1_epi16((short)scales[at]));
}

/* Adds positions [t, end) to V * 16 channels from c of R queries; mask: which of
 * the last 16 exist. */
AVX512_INLINE void value_tile(const kernels_span *span, size_t query, size_t R, size_t c, size_t V,
                              size_t t, size_t end, __mmask16 mask, uint32_t kv)
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
            __m512 scale = value_scale(span, values, t % KERNELS_PAGE, c + 16 * v, kv);
            __m512 value = V == 1 ? load_first(values, at, kv, scale, mask)
                                  : load(values, at + 16 * v, kv, scale);
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
                              size_t end, uint32_t kv)
{
    size_t c = 0;
    for (; c + 64 <= span->head_size; c += 64)
        value_tile(span, query, R, c, 4, t, end, 0xffff, kv);
    for (; c < span->head_size; c += 16)
        value_tile(span, query, R, c, 1, t, end, avx512_first(span->head_size - c), kv);
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
AVX512_INLINE void span_rows(const kernels_span *span, size_t query, size_t R, size_t V,
                             uint32_t kv)
{
    size_t most = 0;
    size_t all = KERNELS_SPAN;
    for (size_t j = 0; j < R; j++) {
        size_t visible = span->visible[query + j];
        most = visible > most ? visible : most;
        all = visible < all ? visible : all;
    }
    for (size_t t = 0; t < most; t += 16 * V)
        score_tile(span, query, R, t, V, kv);
    for (size_t j = 0; j < R; j++) {
        float *scores = span->scores + (query + j) * KERNELS_SPAN;
        float *partial = span->partial[query + j];
        partial[1] = greatest(scores, span->visible[query + j]);
        partial[0] = avx512_softmax_exp(scores, span->visible[query + j], partial[1], scores);
    }
    value_rows(span, query, R, 0, all, kv);
    for (size_t j = 0; j < R; j++)
        if (span->visible[query + j] > all)
            value_rows(span, query + j, 1, all, span->visible[query + j], kv);
}

AVX512_INLINE void span_all(const kernels_span *span, uint32_t kv)
{
    size_t query = 0;
    for (; query + 4 <= span->queries; query += 4)
        span_rows(span, query, 4, 2, kv);
    if (query + 3 == span->queries) {
        span_rows(span, query, 3, 2, kv);
        query += 3;
    }
    for (; query < span->queries; query++)
        span_rows(span, query, 1, 4, kv);
}

/* One function a type: the type is a constant inside. */
static AVX512 void span_f16(const kernels_span *span)
{
    span_all(span, KERNELS_KV_F16);
}

static AVX512 void span_bf16(const kernels_span *span)
{
    span_all(span, KERNELS_KV_BF16);
}

static AVX512 void span_q8(const kernels_span *span)
{
    span_all(span, KERNELS_KV_Q8);
}

static AVX512 void span_f32(const kernels_span *span)
{
    span_all(span, KERNELS_KV_F32);
}

AVX512 void avx512_attention_span(const kernels_span *span)
{
    static void (*const spans[KERNELS_KV_TYPES])(const kernels_span *) = {
        [KERNELS_KV_F16] = span_f16,
        [KERNELS_KV_BF16] = span_bf16,
        [KERNELS_KV_Q8] = span_q8,
        [KERNELS_KV_F32] = span_f32};
    spans[span->kv](span);
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
