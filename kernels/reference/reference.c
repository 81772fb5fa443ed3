/*
 * kernels/reference/reference.c - plain C, meant to be read.
 *
 * The loops say exactly which operations make up a result and in which order;
 * fmaf() stands wherever the fast paths use a fused multiply-add, and nothing is
 * fused elsewhere (the folder is compiled with -ffp-contract=off).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/reference/blocks.h"

#include "kernels/reference/numbers.h"
#include "kernels/tables.h"

/* One output lane against one activation row: the sum over blocks, in ascending
 * order, of d * scale * (exact integer dot product), and of m * scale * sum. */
static float dot_lane_q8(const panel_q8 *panel, const panel_task *task, const uint8_t *x,
                         size_t lane, float y)
{
    const int8_t *q = (const int8_t *)x;
    const float *scale = (const float *)(const void *)(x + task->scales);
    const float *scaled_sum = scale + 2 * task->blocks;
    for (size_t b = 0; b < task->count; b++) {
        int32_t sum;
        memcpy(&sum, &scale[task->blocks + b], sizeof sum);
        int32_t dot = -panel_offset(task->type) * sum;
        for (size_t i = 0; i < KERNELS_BLOCK; i++) {
            const int8_t *at = q + b * KERNELS_BLOCK + i;
            int32_t a = task->levels == 2 ? at[0] * 128 + at[task->low] : at[0];
            dot += panel->q[b][i / 4][lane][i % 4] * a;
        }
        y = fmaf((float)dot, panel->d[b][lane] * scale[b], y);
        if (panel_has_minimum(task->type))
            y = fmaf(panel->m[b][lane], scaled_sum[b], y);
    }
    return y;
}

static void dot_q8(const panel_q8 *panel, const panel_task *task)
{
    for (size_t j = 0; j < task->r; j++) {
        float *y = task->y + j * task->y_stride;
        for (size_t i = 0; i < task->lanes; i++)
            y[i] = dot_lane_q8(panel, task, task->x + j * task->x_stride, i,
                               task->first ? 0.0f : y[i]);
    }
}

static void dot_f32(const panel_f32 *panel, const panel_task *task)
{
    for (size_t j = 0; j < task->r; j++) {
        const float *x = (const float *)(const void *)(task->x + j * task->x_stride);
        float *y = task->y + j * task->y_stride;
        for (size_t i = 0; i < task->lanes; i++) {
            float sum = task->first ? 0.0f : y[i];
            for (size_t c = 0; c < task->count; c++)
                sum = fmaf(panel->w[c][i], x[c], sum);
            y[i] = sum;
        }
    }
}

static const panel_ops ops = {reference_unpack_q8, dot_q8, reference_unpack_f32, dot_f32};

static void matmul_q8(const kernels_matrix *w, size_t begin, size_t end, const void *x,
                      uint32_t levels, size_t r, float *y, size_t y_stride)
{
    panel_matmul_q8(&ops, w, begin, end, x, levels, r, y, y_stride);
}

static void matmul_f32(const kernels_matrix *w, size_t begin, size_t end, const float *x,
                       size_t x_stride, size_t r, float *y, size_t y_stride)
{
    panel_matmul_f32(&ops, w, begin, end, x, x_stride, r, y, y_stride);
}

static void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
}

static void rmsnorm(const float *x, const float *weight, size_t n, float epsilon, float *y)
{
    float lane[NUMBERS_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % NUMBERS_LANES] = fmaf(x[i], x[i], lane[i % NUMBERS_LANES]);
    float mean = numbers_fold(lane) / (float)n;
    float scale = 1.0f / sqrtf(mean + epsilon);
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * scale * weight[i];
}

static void silu_mul(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = gate[i] / (1.0f + numbers_exp(-gate[i])) * up[i];
}

const kernels_table kernels_reference = {
    .name = "reference",
    .dequantise = reference_dequantise,
    .quantise = reference_quantise,
    .matmul_q8 = matmul_q8,
    .matmul_f32 = matmul_f32,
    .add = add,
    .rmsnorm = rmsnorm,
    .silu_mul = silu_mul,
    .pack_kv = reference_pack_kv,
    .attention_span = reference_attention_span,
    .attention_merge = reference_attention_merge,
    .attention_finish = reference_attention_finish,
    .argmax = reference_argmax,
    .sum_exp = reference_sum_exp,
    .softmax_exp = reference_softmax_exp,
};
