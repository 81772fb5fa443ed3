/*
 * tests/unit/cpu/naive.h - a llama in double precision, as short as it can be
 * written: one position after the other, all keys and values kept, no batches, no
 * pages. Shares with the engine only the GGUF reader and the element decoding.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_UNIT_CPU_NAIVE_H
#define TESTS_UNIT_CPU_NAIVE_H

#include "tiny.h"

typedef struct naive {
    gguf_file *file;
    const tiny_shape *shape;
    double *keys[TINY_LAYERS]; /* [position][kv_heads][head_size] */
    double *values[TINY_LAYERS];
    double factors[64]; /* of rope_freqs.weight, or 1      */
} naive;

static inline uint32_t naive_type(uint32_t type)
{
    static const uint32_t pairs[][2] = {{GGUF_T_F32, KERNELS_F32},   {GGUF_T_F16, KERNELS_F16},
                                        {GGUF_T_BF16, KERNELS_BF16}, {GGUF_T_Q8_0, KERNELS_Q8_0},
                                        {GGUF_T_Q4_0, KERNELS_Q4_0}, {GGUF_T_Q4_1, KERNELS_Q4_1},
                                        {GGUF_T_Q5_0, KERNELS_Q5_0}, {GGUF_T_Q5_1, KERNELS_Q5_1}};
    for (size_t i = 0; i < 8; i++)
        if (pairs[i][0] == type)
            return pairs[i][1];
    fail_msg("no such type");
    return 0;
}

/* Row `row` of a tensor into out; false: no such tensor. */
static inline bool naive_row(const naive *n, const char *name, size_t row, float *out)
{
    const gguf_tensor *t = gguf_tensor_find(n->file, name);
    if (!t)
        return false;
    uint32_t type = naive_type(t->type);
    size_t stride = kernels_row_bytes(type, (size_t)t->dims[0]);
    kernels_choose("reference")
        ->dequantise(type, (const uint8_t *)t->data + row * stride, 0, (size_t)t->dims[0], out);
    return true;
}

/* y = W x + b for "blk.L.PART" (layer < 0: PART itself). */
static inline void naive_project(const naive *n, int layer, const char *part, const double *x,
                                 double *y)
{
    char name[80], bias[80];
    float row[512];
    snprintf(name, sizeof name, layer < 0 ? "%.0d%s.weight" : "blk.%d.%s.weight",
             layer < 0 ? 0 : layer, part);
    snprintf(bias, sizeof bias, "blk.%d.%s.bias", layer, part);
    const gguf_tensor *t = gguf_tensor_find(n->file, name);
    assert_non_null(t);
    for (size_t i = 0; i < t->dims[1]; i++) {
        naive_row(n, name, i, row);
        y[i] = 0;
        for (size_t c = 0; c < t->dims[0]; c++)
            y[i] += (double)row[c] * x[c];
    }
    if (naive_row(n, bias, 0, row))
        for (size_t i = 0; i < t->dims[1]; i++)
            y[i] += (double)row[i];
}

static inline void naive_norm(const naive *n, int layer, const char *part, const double *x,
                              double *y)
{
    char name[80];
    float weight[512];
    double squares = 0;
    size_t width = n->shape->hidden;
    snprintf(name, sizeof name, layer < 0 ? "%.0d%s.weight" : "blk.%d.%s.weight",
             layer < 0 ? 0 : layer, part);
    assert_true(naive_row(n, name, 0, weight));
    for (size_t i = 0; i < width; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < width; i++)
        y[i] = x[i] / sqrt(squares / (double)width + 1e-5) * (double)weight[i];
}

static inline void naive_rope(const naive *n, double *x, uint32_t heads, size_t position)
{
    size_t size = n->shape->head_size;
    double linear = n->shape->linear > 0 ? (double)n->shape->linear : 1.0;
    for (size_t i = 0; i < heads * size; i += 2) {
        double exponent = (double)(i % size) / (double)size;
        double angle = (double)position * pow((double)n->shape->rope_base, -exponent) / linear /
                       n->factors[i % size / 2];
        double a = x[i], b = x[i + 1];
        x[i] = a * cos(angle) - b * sin(angle);
        x[i + 1] = a * sin(angle) + b * cos(angle);
    }
}

static inline void naive_attend(naive *n, uint32_t layer, const double *q, size_t position,
                                double *mixed)
{
    const tiny_shape *s = n->shape;
    size_t size = s->head_size, row = s->kv_heads[layer] * size;
    for (uint32_t h = 0; h < s->heads[layer]; h++) {
        size_t kv = h / (s->heads[layer] / s->kv_heads[layer]) * size;
        double total = 0;
        memset(mixed + h * size, 0, size * sizeof *mixed);
        for (size_t t = 0; t <= position; t++) {
            double score = 0;
            for (size_t c = 0; c < size; c++)
                score += q[h * size + c] * n->keys[layer][t * row + kv + c];
            double p = exp(score / sqrt((double)size));
            total += p;
            for (size_t c = 0; c < size; c++)
                mixed[h * size + c] += p * n->values[layer][t * row + kv + c];
        }
        for (size_t c = 0; c < size; c++)
            mixed[h * size + c] /= total;
    }
}

/* Logits after the token at `position`; call it for 0, 1, 2 and so on. */
static inline void naive_step(naive *n, int32_t token, size_t position, double *logits)
{
    const tiny_shape *s = n->shape;
    double x[512], y[512], q[512], mixed[512], gate[512], up[512];
    float row[512];
    naive_row(n, "token_embd.weight", (size_t)token, row);
    for (size_t i = 0; i < s->hidden; i++)
        x[i] = (double)row[i];
    for (uint32_t l = 0; l < TINY_LAYERS; l++) {
        size_t at = position * s->kv_heads[l] * s->head_size;
        naive_norm(n, (int)l, "attn_norm", x, y);
        naive_project(n, (int)l, "attn_q", y, q);
        naive_project(n, (int)l, "attn_k", y, n->keys[l] + at);
        naive_project(n, (int)l, "attn_v", y, n->values[l] + at);
        naive_rope(n, q, s->heads[l], position);
        naive_rope(n, n->keys[l] + at, s->kv_heads[l], position);
        naive_attend(n, l, q, position, mixed);
        naive_project(n, (int)l, "attn_output", mixed, y);
        for (size_t i = 0; i < s->hidden; i++)
            x[i] += y[i];
        naive_norm(n, (int)l, "ffn_norm", x, y);
        naive_project(n, (int)l, "ffn_gate", y, gate);
        naive_project(n, (int)l, "ffn_up", y, up);
        for (size_t i = 0; i < s->width[l]; i++)
            gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
        naive_project(n, (int)l, "ffn_down", gate, y);
        for (size_t i = 0; i < s->hidden; i++)
            x[i] += y[i];
    }
    naive_norm(n, -1, "output_norm", x, y);
    naive_project(n, -1, s->tied ? "token_embd" : "output", y, logits);
}

static inline void naive_open(naive *n, const char *path, const tiny_shape *shape)
{
    float factors[64];
    memset(n, 0, sizeof *n);
    n->shape = shape;
    assert_int_equal(PAWL_OK, gguf_open(pawl_text(path), &n->file, NULL));
    for (uint32_t l = 0; l < TINY_LAYERS; l++) {
        size_t row = shape->kv_heads[l] * shape->head_size;
        n->keys[l] = calloc(shape->context * row, sizeof(double));
        n->values[l] = calloc(shape->context * row, sizeof(double));
    }
    bool given = naive_row(n, "rope_freqs.weight", 0, factors);
    for (size_t i = 0; i < 64; i++)
        n->factors[i] = given && i < shape->head_size / 2 ? (double)factors[i] : 1.0;
}

static inline void naive_close(naive *n)
{
    for (uint32_t l = 0; l < TINY_LAYERS; l++) {
        free(n->keys[l]);
        free(n->values[l]);
    }
    gguf_close(n->file);
}

#endif /* TESTS_UNIT_CPU_NAIVE_H */
