/*
 * cpu/forward.c - the layers of a llama, for many rows at once.
 *
 *   x = embedding of each token
 *   each layer:  x += o * attention(rope(q * norm(x)), rope(k * norm(x)), v * norm(x))
 *                x += down * (silu(gate * norm(x)) * (up * norm(x)))
 *   logits = output * norm(x)
 *
 * Stages that work along a row are shared out by rows, matrices by panels of
 * output rows. No result depends on who computes it (kernels/README.md, "The
 * rule"). Runs in the pool's workers, inside submit.
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

/* Rows [begin, end) of this pass are this worker's. */
typedef struct share {
    size_t begin;
    size_t end;
} share;

static share rows_of(const forward_pass *pass, const threads_worker *worker)
{
    share s;
    threads_share(worker, pass->n_rows, 1, &s.begin, &s.end);
    return s;
}

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

/* y = w * x for this worker's outputs of the first n rows. */
static void project(const forward_pass *pass, const kernels_matrix *w, uint32_t levels,
                    const float *x, size_t n, float *y, const threads_worker *worker)
{
    size_t begin, end;
    threads_share(worker, w->rows, 16, &begin, &end);
    levels = levels_of(pass, w, levels);
    if (begin == end)
        return;
    if (levels)
        pass->kernels->matmul_q8(w, begin, end, pass->scratch->quantised, levels, n, y, w->rows);
    else
        pass->kernels->matmul_f32(w, begin, end, x, w->columns, n, y, w->rows);
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

static void embed(const forward_pass *pass, const threads_worker *worker)
{
    const model *m = pass->model;
    const forward *f = pass->scratch;
    size_t row_bytes = kernels_row_bytes(m->embedding.type, m->hidden);
    share s = rows_of(pass, worker);
    for (size_t r = s.begin; r < s.end; r++) {
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
static void add_and_norm(const forward_pass *pass, bool add, const float *bias, const float *norm,
                         uint32_t levels, const kernels_matrix *const *inputs, size_t n_inputs,
                         const threads_worker *worker)
{
    const model *m = pass->model;
    const forward *f = pass->scratch;
    share s = rows_of(pass, worker);
    for (size_t r = s.begin; r < s.end; r++) {
        float *x = f->x + r * m->hidden;
        add_bias(pass, f->change + r * m->hidden, bias, m->hidden);
        if (add)
            pass->kernels->add(x, f->change + r * m->hidden, m->hidden);
        pass->kernels->rmsnorm(x, norm, m->hidden, m->epsilon, f->normed + r * m->hidden);
        for (size_t i = 0; i < n_inputs; i++)
            if (quantise(pass, inputs[i], levels, f->normed, r))
                break; /* once is enough: the same row for all */
    }
}

static void attend(const forward_pass *pass, uint32_t index, const threads_worker *worker)
{
    const model *m = pass->model;
    const model_layer *layer = &m->layers[index];
    const forward *f = pass->scratch;
    const kernels_matrix *const inputs[] = {&layer->q, &layer->k, &layer->v};
    add_and_norm(pass, index > 0, NULL, layer->attention_norm, LEVELS_QKV, inputs, 3, worker);
    threads_barrier(worker);
    project(pass, &layer->q, LEVELS_QKV, f->normed, pass->n_rows, f->q, worker);
    project(pass, &layer->k, LEVELS_QKV, f->normed, pass->n_rows, f->k, worker);
    project(pass, &layer->v, LEVELS_QKV, f->normed, pass->n_rows, f->v, worker);
    threads_barrier(worker);
    share s = rows_of(pass, worker);
    for (size_t r = s.begin; r < s.end; r++) {
        add_bias(pass, f->q + r * layer->q.rows, layer->q_bias, layer->q.rows);
        add_bias(pass, f->k + r * layer->k.rows, layer->k_bias, layer->k.rows);
        add_bias(pass, f->v + r * layer->v.rows, layer->v_bias, layer->v.rows);
    }
    attention_store(pass, index, worker);
    threads_barrier(worker);
    attention_mix(pass, index, worker);
    threads_barrier(worker);
    for (size_t r = s.begin; r < s.end; r++)
        quantise(pass, &layer->o, LEVELS_O, f->mixed, r);
    threads_barrier(worker);
    project(pass, &layer->o, LEVELS_O, f->mixed, pass->n_rows, f->change, worker);
    threads_barrier(worker);
}

static void feed(const forward_pass *pass, uint32_t index, const threads_worker *worker)
{
    const model_layer *layer = &pass->model->layers[index];
    const forward *f = pass->scratch;
    const kernels_matrix *const inputs[] = {&layer->gate, &layer->up};
    add_and_norm(pass, true, layer->o_bias, layer->feed_norm, LEVELS_GATE_UP, inputs, 2, worker);
    threads_barrier(worker);
    project(pass, &layer->gate, LEVELS_GATE_UP, f->normed, pass->n_rows, f->gate, worker);
    project(pass, &layer->up, LEVELS_GATE_UP, f->normed, pass->n_rows, f->up, worker);
    threads_barrier(worker);
    share s = rows_of(pass, worker);
    for (size_t r = s.begin; r < s.end; r++) {
        float *gate = f->gate + r * layer->width;
        pass->kernels->silu_mul(gate, f->up + r * layer->width, layer->width, gate);
        quantise(pass, &layer->down, LEVELS_DOWN, f->gate, r);
    }
    threads_barrier(worker);
    project(pass, &layer->down, LEVELS_DOWN, f->gate, pass->n_rows, f->change, worker);
}

static void run_layers(void *arg, const threads_worker *worker)
{
    forward_pass *pass = arg;
    const model *m = pass->model;
    const forward *f = pass->scratch;
    embed(pass, worker);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        if (worker->index == 0)
            pass->stop = pass->cancelled(pass->arg);
        threads_barrier(worker);
        if (pass->stop)
            return;
        attend(pass, i, worker);
        feed(pass, i, worker);
    }
    threads_barrier(worker);
    share s = rows_of(pass, worker);
    for (size_t r = s.begin; r < s.end; r++)
        pass->kernels->add(f->x + r * m->hidden, f->change + r * m->hidden, m->hidden);
}

bool forward_layers(forward_pass *pass, threads *team)
{
    pass->stop = false;
    threads_run(team, run_layers, pass);
    return !pass->stop;
}

void forward_final(const forward_pass *pass, const float *x, float *normed)
{
    const model *m = pass->model;
    pass->kernels->rmsnorm(x, m->output_norm, m->hidden, m->epsilon, normed);
}

static void run_logits(void *arg, const threads_worker *worker)
{
    const forward_pass *pass = arg;
    const forward *f = pass->scratch;
    const kernels_matrix *output = &pass->model->output;
    share s = rows_of(pass, worker);
    for (size_t r = s.begin; r < s.end; r++)
        quantise(pass, output, LEVELS_OUTPUT, f->finals, r);
    threads_barrier(worker);
    project(pass, output, LEVELS_OUTPUT, f->finals, pass->n_rows, f->logits, worker);
}

void forward_logits(forward_pass *pass, threads *team, uint32_t n)
{
    uint32_t n_rows = pass->n_rows;
    pass->n_rows = n;
    threads_run(team, run_logits, pass);
    pass->n_rows = n_rows;
}
