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
    uint32_t position[FORWARD_QUERIES]; /* ascending           */
    const float *q[FORWARD_QUERIES];
    float *out[FORWARD_QUERIES];
    const uint32_t *pages; /* of the sequence     */
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

static void run_batch(const forward_pass *pass, const batch *b, const forward_worker *scratch)
{
    size_t head_size = pass->model->head_size;
    size_t partial_size = kernels_partial_size(head_size);
    uint32_t visible[FORWARD_QUERIES];
    float *partial[FORWARD_QUERIES];
    uint32_t first = 0; /* queries before it see nothing of this span */
    for (uint32_t s = 0; s <= b->position[b->n - 1] / KERNELS_SPAN; s++) {
        while (b->position[first] < s * KERNELS_SPAN)
            first++;
        for (uint32_t i = first; i < b->n; i++) {
            uint32_t seen = b->position[i] - s * KERNELS_SPAN + 1;
            visible[i] = seen < KERNELS_SPAN ? seen : KERNELS_SPAN;
            partial[i] = (s == 0 ? scratch->running : scratch->partial) + i * partial_size;
        }
        kernels_span span = {.f16 = pass->pool->element == 2,
                             .head_size = head_size,
                             .scale = 1.0f / sqrtf((float)head_size),
                             .queries = b->n - first,
                             .q = b->q + first,
                             .visible = visible + first,
                             .scores = scratch->scores,
                             .partial = partial + first};
        locate_span(pass, b, s, &span);
        pass->kernels->attention_span(&span);
        for (uint32_t i = first; s > 0 && i < b->n; i++)
            pass->kernels->attention_merge(scratch->running + i * partial_size, partial[i],
                                           head_size);
    }
    for (uint32_t i = 0; i < b->n; i++)
        pass->kernels->attention_finish(scratch->running + i * partial_size, head_size, b->out[i]);
}

/* All queries of rows [begin, end) with one key/value head, a batch at a time. */
static void mix_block(const forward_pass *pass, uint32_t layer, uint32_t kv_head, uint32_t begin,
                      uint32_t end, const forward_worker *scratch)
{
    const model_layer *l = &pass->model->layers[layer];
    const forward *f = pass->scratch;
    uint32_t group = l->heads / l->kv_heads;
    batch b = {.layer = layer, .kv_head = kv_head, .pages = f->rows[begin].pages};
    for (uint32_t r = begin; r < end; r++) {
        for (uint32_t h = 0; h < group; h++) {
            size_t at = r * l->q.rows + (size_t)(kv_head * group + h) * pass->model->head_size;
            b.position[b.n] = f->rows[r].position;
            b.q[b.n] = f->q + at;
            b.out[b.n] = f->mixed + at;
            if (++b.n < FORWARD_QUERIES)
                continue;
            run_batch(pass, &b, scratch);
            b.n = 0;
        }
    }
    if (b.n > 0)
        run_batch(pass, &b, scratch);
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

void attention_mix(const forward_pass *pass, uint32_t layer, threads_worker *worker)
{
    uint32_t begins[FORWARD_ROWS + 1];
    uint32_t kv_heads = pass->model->layers[layer].kv_heads;
    size_t items = (size_t)cut_blocks(pass, begins) * kv_heads;
    for (size_t i; threads_next(worker, items, &i);) {
        size_t block = items / kv_heads - 1 - i / kv_heads; /* the longest come first */
        mix_block(pass, layer, (uint32_t)(i % kv_heads), begins[block], begins[block + 1],
                  &pass->scratch->workers[worker->index]);
    }
}
