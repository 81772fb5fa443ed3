/*
 * kernels/reference/attention.c - attention over spans of positions, and the
 * reductions over a row of scores or logits.
 *
 * A query sees positions 0..p. They are cut into spans of KERNELS_SPAN by their
 * absolute number; each span gives a partial result that knows nothing of the
 * others,
 *
 *   partial = [ sum of exp(s - max) | max | sum of exp(s - max) * value ]
 *
 * and partials are folded in ascending order. So the operations behind an output
 * depend on p alone: not on which positions arrived together, nor on who
 * computed which span.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/reference/blocks.h"

#include "kernels/reference/numbers.h"

/* scores[t] = scale * sum over channels, ascending, of q[c] * key[t][c] */
static void scores_of(const kernels_span *span, size_t query, float *scores)
{
    for (size_t t = 0; t < span->visible[query]; t++) {
        const void *keys = span->keys[t / KERNELS_PAGE];
        float sum = 0.0f;
        for (size_t c = 0; c < span->head_size; c++) {
            size_t in_page = t % KERNELS_PAGE;
            float key = reference_kv(span->kv, keys, span->head_size, c * KERNELS_PAGE + in_page,
                                     c / KERNELS_BLOCK * KERNELS_PAGE + in_page);
            sum = fmaf(key, span->q[query][c], sum);
        }
        scores[t] = sum * span->scale;
    }
}

void reference_attention_span(const kernels_span *span)
{
    for (size_t query = 0; query < span->queries; query++) {
        float *scores = span->scores + query * KERNELS_SPAN;
        float *partial = span->partial[query];
        size_t visible = span->visible[query];
        size_t blocks = kernels_kv_blocks(span->kv, span->head_size);
        scores_of(span, query, scores);
        partial[1] = scores[reference_argmax(scores, visible)];
        partial[0] = reference_softmax_exp(scores, visible, partial[1], scores);
        for (size_t c = 0; c < span->head_size; c++) {
            float sum = 0.0f;
            for (size_t t = 0; t < visible; t++) {
                const void *values = span->values[t / KERNELS_PAGE];
                size_t in_page = t % KERNELS_PAGE;
                float value =
                    reference_kv(span->kv, values, span->head_size, in_page * span->head_size + c,
                                 in_page * blocks + c / KERNELS_BLOCK);
                sum = fmaf(scores[t], value, sum);
            }
            partial[2 + c] = sum;
        }
    }
}

void reference_attention_merge(float *running, const float *partial, size_t head_size)
{
    float maximum = partial[1] > running[1] ? partial[1] : running[1];
    float old = numbers_exp(running[1] - maximum);
    float new = numbers_exp(partial[1] - maximum);
    running[0] = fmaf(partial[0], new, running[0] * old);
    running[1] = maximum;
    for (size_t c = 0; c < head_size; c++)
        running[2 + c] = fmaf(partial[2 + c], new, running[2 + c] * old);
}

void reference_attention_finish(const float *running, size_t head_size, float *out)
{
    for (size_t c = 0; c < head_size; c++)
        out[c] = running[2 + c] / running[0];
}

float reference_softmax_exp(const float *x, size_t n, float maximum, float *p)
{
    float lane[NUMBERS_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        p[i] = numbers_exp(x[i] - maximum);
        lane[i % NUMBERS_LANES] += p[i];
    }
    return numbers_fold(lane);
}

float reference_sum_exp(const float *x, size_t n, float maximum)
{
    float lane[NUMBERS_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % NUMBERS_LANES] += numbers_exp(x[i] - maximum);
    return numbers_fold(lane);
}

size_t reference_argmax(const float *x, size_t n)
{
    size_t best = 0;
    float greatest = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        if (x[i] > greatest) {
            greatest = x[i];
            best = i;
        }
    }
    return best;
}
