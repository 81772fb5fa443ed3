/*
 * cpu/attention.c - keys and values into pages, and attention over them.
 *
 * The unit of work is a block of neighbouring rows of one sequence with one
 * key/value head: its queries (each row, each query head of the group) share
 * what is loaded. A query folds its spans in ascending order whatever else is in
 * the block, so the cut into blocks shows in no result.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/forward.h"

#include <math.h>

void attention_store(const forward_pass *pass, uint32_t layer, size_t r)
{
    const model *m = pass->model;
    const model_layer *l = &m->layers[layer];
    const forward *f = pass->scratch;
    const forward_row *row = &f->rows[r];
    const float *turns = f->turns + r * 2 * m->rope_pairs;
    for (uint32_t h = 0; h < l->heads; h++)
        kernels_rope(KERNELS_ROPE_PAIRS, f->q + r * l->q.rows + h * m->head_size, turns,
                     m->rope_pairs);
    for (uint32_t h = 0; h < l->kv_heads; h++) {
        float *key = f->k + r * l->k.rows + h * m->head_size;
        kernels_rope(KERNELS_ROPE_PAIRS, key, turns, m->rope_pairs);
        kv_put(pass->pool, row->pages[row->position / KV_PAGE], layer, h, row->position % KV_PAGE,
               key, f->v + r * l->v.rows + h * m->head_size, pass->kernels);
    }
}

/* Queries [0, n) of one block and key/value head. */
typedef struct batch {
    uint32_t layer;
    uint32_t kv_head;
    uint32_t n;
    uint32_t position[FORWARD_QUERIES]; /* ascending                      */
    uint32_t index[FORWARD_QUERIES];    /* row * heads + head             */
    const float *q[FORWARD_QUERIES];
    const uint32_t *pages; /* of the sequence                */
} batch;

static void locate_span(const forward_pass *pass, const batch *b, uint32_t s, kernels_span *span)
{
    uint32_t last = b->position[b->n - 1] / KV_PAGE;
    for (uint32_t i = 0; i < KERNELS_SPAN_PAGES; i++) {
        uint32_t index = s * KERNELS_SPAN_PAGES + i;
        if (index > last)
            break;
        span->keys[i] = kv_keys(pass->pool, b->pages[index], b->layer, b->kv_head);
        span->values[i] = kv_values(pass->pool, b->pages[index], b->layer, b->kv_head);
    }
    uint32_t next = (s + 1) * KERNELS_SPAN_PAGES;
    if (next <= last)
        span->ahead = kv_keys(pass->pool, b->pages[next], b->layer, b->kv_head);
}

/* Span s of all queries that see something of it; returns the first of them. */
static uint32_t run_span(const forward_pass *pass, const batch *b, uint32_t s,
                         const forward_worker *scratch, float *const *partial)
{
    size_t head_size = pass->model->head_size;
    uint32_t visible[FORWARD_QUERIES];
    uint32_t first = 0;
    while (first < b->n && b->position[first] < s * KERNELS_SPAN)
        first++;
    if (first == b->n)
        return first;
    for (uint32_t i = first; i < b->n; i++) {
        uint32_t seen = b->position[i] - s * KERNELS_SPAN + 1;
        visible[i] = seen < KERNELS_SPAN ? seen : KERNELS_SPAN;
    }
    kernels_span span = {.kv = pass->pool->type,
                         .head_size = head_size,
                         .scale = 1.0f / sqrtf((float)head_size),
                         .queries = b->n - first,
                         .q = b->q + first,
                         .visible = visible + first,
                         .scores = scratch->scores,
                         .partial = partial + first};
    locate_span(pass, b, s, &span);
    pass->kernels->attention_span(&span);
    return first;
}

/* Folds span after span into the worker's scratch. */
static void run_batch(const forward_pass *pass, const batch *b, const forward_worker *scratch)
{
    size_t head_size = pass->model->head_size;
    size_t size = kernels_partial_size(head_size);
    float *running[FORWARD_QUERIES];
    float *partial[FORWARD_QUERIES];
    for (uint32_t i = 0; i < b->n; i++) {
        running[i] = scratch->running + i * size;
        partial[i] = scratch->partial + i * size;
    }
    run_span(pass, b, 0, scratch, running);
    for (uint32_t s = 1; s <= b->position[b->n - 1] / KERNELS_SPAN; s++)
        for (uint32_t i = run_span(pass, b, s, scratch, partial); i < b->n; i++)
            pass->kernels->attention_merge(running[i], partial[i], head_size);
    for (uint32_t i = 0; i < b->n; i++)
        pass->kernels->attention_finish(running[i], head_size,
                                        pass->scratch->mixed + b->index[i] * head_size);
}

/* Where the partial of one query and span stands while spans are dealt out. */
static float *partial_at(const forward_pass *pass, uint32_t spans, size_t index, uint32_t s)
{
    size_t size = kernels_partial_size(pass->model->head_size);
    return pass->scratch->partials + (index * spans + s) * size;
}

/* Rows [begin, end) with one key/value head: their queries, a batch at a time,
 * through all spans (spans 0) or through span s of `spans`. */
static void mix_block(const forward_pass *pass, uint32_t layer, uint32_t kv_head,
                      const uint32_t rows[2], uint32_t spans, uint32_t s,
                      const forward_worker *scratch)
{
    const model_layer *l = &pass->model->layers[layer];
    const forward *f = pass->scratch;
    uint32_t group = l->heads / l->kv_heads;
    uint32_t queries = (rows[1] - rows[0]) * group;
    batch b = {.layer = layer, .kv_head = kv_head, .pages = f->rows[rows[0]].pages};
    for (uint32_t i = 0; i < queries; i++) {
        uint32_t r = rows[0] + i / group;
        b.position[b.n] = f->rows[r].position;
        b.index[b.n] = r * l->heads + kv_head * group + i % group;
        b.q[b.n] = f->q + (size_t)b.index[b.n] * pass->model->head_size;
        if (++b.n < FORWARD_QUERIES && i + 1 < queries)
            continue;
        if (spans == 0) {
            run_batch(pass, &b, scratch);
        } else {
            float *partial[FORWARD_QUERIES];
            for (uint32_t j = 0; j < b.n; j++)
                partial[j] = partial_at(pass, spans, b.index[j], s);
            run_span(pass, &b, s, scratch, partial);
        }
        b.n = 0;
    }
}

/* Cuts the rows of a pass into blocks: where the block of each number begins. */
static uint32_t cut_blocks(const forward_pass *pass, uint32_t begins[FORWARD_ROWS + 1])
{
    const forward_row *rows = pass->scratch->rows;
    uint32_t n = 0;
    for (uint32_t begin = 0, end; begin < pass->n_rows; begin = end) {
        for (end = begin + 1; end < pass->n_rows && end - begin < FORWARD_QUERY_ROWS; end++)
            if (rows[end].group != rows[begin].group)
                break;
        begins[n++] = begin;
    }
    begins[n] = pass->n_rows;
    return n;
}

/* Deals out single spans where blocks and heads are too few for the workers and
 * there is more than one span; returns how many, or 0. */
static uint32_t spans_to_deal(const forward_pass *pass, uint32_t layer, size_t items,
                              const threads_worker *worker)
{
    uint32_t last = 0;
    uint32_t workers = threads_count(worker->pool);
    for (uint32_t r = 0; r < pass->n_rows; r++)
        if (pass->scratch->rows[r].position > last)
            last = pass->scratch->rows[r].position;
    size_t spans = last / KERNELS_SPAN + (size_t)1;
    bool fits = pass->n_rows * pass->model->layers[layer].heads * spans <= FORWARD_PARTIALS;
    return workers > 1 && items < 4 * (size_t)workers && spans > 1 && fits ? (uint32_t)spans : 0;
}

/* Folds what has been dealt out, in the same order as run_batch(). */
static void fold_spans(const forward_pass *pass, uint32_t layer, uint32_t spans,
                       threads_worker *worker)
{
    size_t heads = pass->model->layers[layer].heads;
    size_t head_size = pass->model->head_size;
    for (size_t i; threads_next(worker, pass->n_rows * heads, &i);) {
        float *running = partial_at(pass, spans, i, 0);
        for (uint32_t s = 1; s <= pass->scratch->rows[i / heads].position / KERNELS_SPAN; s++)
            pass->kernels->attention_merge(running, partial_at(pass, spans, i, s), head_size);
        pass->kernels->attention_finish(running, head_size, pass->scratch->mixed + i * head_size);
    }
}

void attention_mix(const forward_pass *pass, uint32_t layer, threads_worker *worker)
{
    uint32_t begins[FORWARD_ROWS + 1];
    uint32_t kv_heads = pass->model->layers[layer].kv_heads;
    uint32_t blocks = cut_blocks(pass, begins);
    size_t items = (size_t)blocks * kv_heads;
    uint32_t spans = spans_to_deal(pass, layer, items, worker);
    uint32_t each = spans ? spans : 1;
    for (size_t i; threads_next(worker, items * each, &i);) {
        size_t block = blocks - 1 - i / each / kv_heads; /* the longest come first */
        mix_block(pass, layer, (uint32_t)(i / each % kv_heads), begins + block, spans,
                  (uint32_t)(i % each), &pass->scratch->workers[worker->index]);
    }
    if (spans)
        fold_spans(pass, layer, spans, worker);
}
