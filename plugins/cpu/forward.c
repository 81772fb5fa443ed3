/*
 * cpu/forward.c - the layers of a llama, for many rows at once.
 *
 *   x = embedding of each token
 *   each layer:  x += o * attention(rope(q * norm(x)), rope(k * norm(x)), v * norm(x))
 *                x += down * (silu(gate * norm(x)) * (up * norm(x)))
 *   logits = output * norm(x)
 *
 * Every loop over threads_next() is one stage: along rows an item is a row, in a
 * matrix a piece of its outputs. No result depends on who computes it
 * (kernels/README.md, "The rule"). Runs in the pool's workers, inside submit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* See levels_of(). A change here is a new STATE_GENERATION (engine.c). */
#define LEVELS_QKV 2
#define LEVELS_O 1
#define LEVELS_GATE_UP 1
#define LEVELS_DOWN 2
#define LEVELS_OUTPUT 2

/* A matrix is claimed in pieces of at least this many outputs. */
#define LEAST_PIECE ((size_t)32)

/* How many int8 an activation of this matrix is made of; 0: it stays F32.
 *
 * One int8 is the usual choice. Its rounding errors come in about equal parts
 * from all inputs but that of the attention output, and two int8 (15 bits) cost
 * little where they go into few weights: the query, key, value and down matrices
 * and the logits get two. Measured on SmolLM2 (README.md), that halves the error
 * of a log-probability. */
static uint32_t levels_of(const forward_pass *pass, const kernels_matrix *w, uint32_t wanted)
{
    return !pass->exact && kernels_type_has_blocks(w->type) ? wanted : 0;
}

/* y = w * x for all rows of this pass. */
typedef struct product {
    const kernels_matrix *w;
    const float *x; /* where w takes F32 */
    float *y;
} product;

/* Large pieces read memory in long strides, small ones share better: two for each
 * worker where weights are read for a few rows only, else four. */
static size_t piece_of(const forward_pass *pass, const product *products, size_t n_products,
                       const threads_worker *worker)
{
    size_t rows = 0;
    size_t pieces = threads_count(worker->pool) * (pass->n_rows <= 8 ? 2 : 4);
    for (size_t i = 0; i < n_products; i++)
        rows += products[i].w->rows;
    size_t piece = (rows / pieces + LEAST_PIECE - 1) / LEAST_PIECE * LEAST_PIECE;
    return piece > LEAST_PIECE ? piece : LEAST_PIECE;
}

/* Up to three products of the same input in one stage. */
static void project(const forward_pass *pass, const product *products, size_t n_products,
                    uint32_t wanted, threads_worker *worker)
{
    size_t piece = piece_of(pass, products, n_products, worker);
    size_t pieces = 0;
    for (size_t i = 0; i < n_products; i++)
        pieces += (products[i].w->rows + piece - 1) / piece;
    for (size_t at; threads_next(worker, pieces, &at);) {
        const product *p = products;
        for (size_t here; at >= (here = (p->w->rows + piece - 1) / piece); p++)
            at -= here;
        size_t begin = at * piece;
        size_t end = begin + piece < p->w->rows ? begin + piece : p->w->rows;
        uint32_t levels = levels_of(pass, p->w, wanted);
        if (levels)
            pass->kernels->matmul_q8(p->w, begin, end, pass->scratch->quantised, levels,
                                     pass->n_rows, p->y, p->w->rows);
        else
            pass->kernels->matmul_f32(p->w, begin, end, p->x, p->w->columns, pass->n_rows, p->y,
                                      p->w->rows);
    }
}

/* Row r of x as the integer input of w, where w wants that. */
static bool quantise(const forward_pass *pass, const kernels_matrix *w, uint32_t levels,
                     const float *x, size_t r)
{
    size_t n = w->columns;
    levels = levels_of(pass, w, levels);
    if (levels)
        pass->kernels->quantise(x + r * n, n, levels,
                                pass->scratch->quantised + r * kernels_q8_bytes(n, levels));
    return levels > 0;
}

static void embed(const forward_pass *pass, threads_worker *worker)
{
    const model *m = pass->model;
    const forward *f = pass->scratch;
    size_t row_bytes = kernels_row_bytes(m->embedding.type, m->hidden);
    for (size_t r; threads_next(worker, pass->n_rows, &r);) {
        const forward_row *row = &f->rows[r];
        float *turns = f->turns + r * 2 * m->rope_pairs;
        const uint8_t *data = m->embedding.data;
        pass->kernels->dequantise(m->embedding.type, data + (size_t)row->token * row_bytes, 0,
                                  m->hidden, f->x + r * m->hidden);
        for (uint32_t i = 0; i < m->rope_pairs; i++) {
            double angle = row->position * m->rope_speed[i];
            turns[2 * i] = (float)cos(angle);
            turns[2 * i + 1] = (float)sin(angle);
        }
    }
}

static void add_bias(const forward_pass *pass, float *row, const float *bias, size_t n)
{
    if (bias)
        pass->kernels->add(row, bias, n);
}

/* x += change (+ bias), then norm(x) as the input of two or three matrices. */
static void add_and_norm(forward_pass *pass, bool add, const float *bias, const float *norm,
                         uint32_t levels, const kernels_matrix *const *inputs, size_t n_inputs,
                         threads_worker *worker)
{
    const model *m = pass->model;
    const forward *f = pass->scratch;
    for (size_t r; threads_next(worker, pass->n_rows, &r);) {
        float *x = f->x + r * m->hidden;
        if (r == 0 && pass->cancelled(pass->arg))
            atomic_store(&pass->stop, true); /* never taken back: all see it by the next stage */
        add_bias(pass, f->change + r * m->hidden, bias, m->hidden);
        if (add)
            pass->kernels->add(x, f->change + r * m->hidden, m->hidden);
        pass->kernels->rmsnorm(x, norm, m->hidden, m->epsilon, f->normed + r * m->hidden);
        for (size_t i = 0; i < n_inputs; i++)
            if (quantise(pass, inputs[i], levels, f->normed, r))
                break; /* once is enough: the same row for all */
    }
}

static void attend(forward_pass *pass, uint32_t index, threads_worker *worker)
{
    const model *m = pass->model;
    const model_layer *layer = &m->layers[index];
    const forward *f = pass->scratch;
    const kernels_matrix *const inputs[] = {&layer->q, &layer->k, &layer->v};
    add_and_norm(pass, index > 0, NULL, layer->attention_norm, LEVELS_QKV, inputs, 3, worker);
    const product qkv[] = {
        {&layer->q, f->normed, f->q}, {&layer->k, f->normed, f->k}, {&layer->v, f->normed, f->v}};
    project(pass, qkv, 3, LEVELS_QKV, worker);
    for (size_t r; threads_next(worker, pass->n_rows, &r);) {
        add_bias(pass, f->q + r * layer->q.rows, layer->q_bias, layer->q.rows);
        add_bias(pass, f->k + r * layer->k.rows, layer->k_bias, layer->k.rows);
        add_bias(pass, f->v + r * layer->v.rows, layer->v_bias, layer->v.rows);
        attention_store(pass, index, r);
    }
    attention_mix(pass, index, worker);
    for (size_t r; threads_next(worker, pass->n_rows, &r);)
        quantise(pass, &layer->o, LEVELS_O, f->mixed, r);
    project(pass, &(product){&layer->o, f->mixed, f->change}, 1, LEVELS_O, worker);
}

static void feed(forward_pass *pass, uint32_t index, threads_worker *worker)
{
    const model_layer *layer = &pass->model->layers[index];
    const forward *f = pass->scratch;
    const kernels_matrix *const inputs[] = {&layer->gate, &layer->up};
    add_and_norm(pass, true, layer->o_bias, layer->feed_norm, LEVELS_GATE_UP, inputs, 2, worker);
    const product gate_up[] = {{&layer->gate, f->normed, f->gate}, {&layer->up, f->normed, f->up}};
    project(pass, gate_up, 2, LEVELS_GATE_UP, worker);
    for (size_t r; threads_next(worker, pass->n_rows, &r);) {
        float *gate = f->gate + r * layer->width;
        pass->kernels->silu_mul(gate, f->up + r * layer->width, layer->width, gate);
        quantise(pass, &layer->down, LEVELS_DOWN, f->gate, r);
    }
    project(pass, &(product){&layer->down, f->gate, f->change}, 1, LEVELS_DOWN, worker);
}

static void run_layers(void *arg, threads_worker *worker)
{
    forward_pass *pass = arg;
    const model *m = pass->model;
    const forward *f = pass->scratch;
    embed(pass, worker);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        if (worker->index == 0)
            pass->stop = pass->cancelled(pass->arg);
        if (pass->stop)
            return;
        attend(pass, i, worker);
        feed(pass, i, worker);
    }
    for (size_t r; threads_next(worker, pass->n_rows, &r);)
        pass->kernels->add(f->x + r * m->hidden, f->change + r * m->hidden, m->hidden);
}

bool forward_layers(forward_pass *pass, threads *team)
{
    atomic_store(&pass->stop, false);
    threads_run(team, run_layers, pass);
    return !atomic_load(&pass->stop);
}

void forward_final(const forward_pass *pass, const float *x, float *normed)
{
    const model *m = pass->model;
    pass->kernels->rmsnorm(x, m->output_norm, m->hidden, m->epsilon, normed);
}

static void run_logits(void *arg, threads_worker *worker)
{
    const forward_pass *pass = arg;
    const forward *f = pass->scratch;
    const kernels_matrix *output = &pass->model->output;
    for (size_t r; threads_next(worker, pass->n_rows, &r);)
        quantise(pass, output, LEVELS_OUTPUT, f->finals, r);
    project(pass, &(product){output, f->finals, f->logits}, 1, LEVELS_OUTPUT, worker);
}

void forward_logits(forward_pass *pass, threads *team, uint32_t n)
{
    uint32_t n_rows = pass->n_rows;
    pass->n_rows = n;
    threads_run(team, run_logits, pass);
    pass->n_rows = n_rows;
}
