/*
 * kernels/kernels.h - arithmetic without policy: the C border of this folder.
 *
 * A kernels_table is a set of functions for one instruction set. All tables
 * compute the same operations in the same order, so that they give the same
 * bits (README.md, "The rule"): what the reference folder says in plain C is
 * what the fast paths do. Nothing here allocates, fails, blocks or keeps state;
 * every function may run on any thread. Sizes and types were checked by the
 * caller; nothing is checked again.
 *
 * Letters: n = length of a row, r = number of rows, a matrix has `rows` outputs
 * and `columns` inputs and is stored row by row.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How the elements of a weight matrix are stored. The first Q types hold blocks of
 * 32 weights; d and m are F16, q are small integers:
 *   Q8_0  w = d * q            q: int8               34 bytes
 *   Q4_0  w = d * (q - 8)      q: 4 bits             18 bytes
 *   Q4_1  w = d * q + m        q: 4 bits             20 bytes
 *   Q5_0  w = d * (q - 16)     q: 5 bits             22 bytes
 *   Q5_1  w = d * q + m        q: 5 bits             24 bytes
 * The K types and IQ4_XS hold 256 weights in groups of 16 or 32 whose scales are
 * small integers themselves; IQ4_NL and MXFP4 hold 32, chosen from a table
 * (reference/groups.c). All of them multiply as F32. */
enum kernels_type {
    KERNELS_F32,
    KERNELS_F16,
    KERNELS_BF16,
    KERNELS_Q8_0,
    KERNELS_Q4_0,
    KERNELS_Q4_1,
    KERNELS_Q5_0,
    KERNELS_Q5_1,
    KERNELS_Q2_K,
    KERNELS_Q3_K,
    KERNELS_Q4_K,
    KERNELS_Q5_K,
    KERNELS_Q6_K,
    KERNELS_IQ4_NL,
    KERNELS_IQ4_XS,
    KERNELS_MXFP4,
    KERNELS_TYPES
};

#define KERNELS_BLOCK                                                                              \
    32 /* weights, and activations, in one quantised block; in                                     \
        * wider blocks of weights, what can be opened alone */

typedef struct kernels_matrix {
    const void *data;
    uint32_t type;  /* enum kernels_type                                   */
    size_t rows;    /* outputs                                             */
    size_t columns; /* inputs: a multiple of kernels_block_elements(type)  */
} kernels_matrix;

/* Rotary position embedding pairs channel i with i + 1 (GGUF's llama), or with
 * i + n / 2 (the published layout of most checkpoints). */
enum kernels_rope { KERNELS_ROPE_PAIRS, KERNELS_ROPE_HALVES };

/* How keys and values are kept. Q8: int8 with an F16 scale for each position and
 * block of 32 channels (the last block may be shorter); an element is q * scale. */
enum kernels_kv {
    KERNELS_KV_F16,
    KERNELS_KV_BF16,
    KERNELS_KV_Q8,
    KERNELS_KV_F32,
    KERNELS_KV_TYPES
};

/* Attention reads keys and values in pages of KERNELS_PAGE positions and works
 * in spans of KERNELS_SPAN positions, both counted from position 0. One page of
 * one head is two halves of kernels_kv_bytes() each:
 *
 *   keys     [head_size][KERNELS_PAGE]   a register holds the same channel of
 *   scales   [blocks][KERNELS_PAGE]      neighbouring positions
 *   values   [KERNELS_PAGE][head_size]
 *   scales   [KERNELS_PAGE][blocks]      scales: Q8 only                      */
#define KERNELS_PAGE 64
#define KERNELS_SPAN_PAGES 4
#define KERNELS_SPAN (KERNELS_PAGE * KERNELS_SPAN_PAGES)

typedef struct kernels_span {
    const void *keys[KERNELS_SPAN_PAGES]; /* one head's pages; NULL where none is seen */
    const void *values[KERNELS_SPAN_PAGES];
    const void *ahead; /* keys of the page after these, to be asked for; or NULL */
    uint32_t kv;       /* enum kernels_kv                                    */
    size_t head_size;
    float scale;             /* of the scores, usually 1 / sqrt(head_size)         */
    size_t queries;          /* rows of q; they share the keys                     */
    const float *const *q;   /* queries pointers to head_size channels             */
    const uint32_t *visible; /* positions of this span each query sees, 1..SPAN    */
    float *scores;           /* scratch: queries * KERNELS_SPAN                    */
    float *const *partial;   /* out, each: sum of exp, maximum, head_size weighted
                              * values: kernels_partial_size() floats              */
} kernels_span;

static inline size_t kernels_partial_size(size_t head_size)
{
    return head_size + 2;
}

/* Bytes of one element without its scale, and how many scales a token of one head
 * has. */
static inline size_t kernels_kv_element(uint32_t kv)
{
    return kv == KERNELS_KV_F32 ? 4 : kv == KERNELS_KV_Q8 ? 1 : 2;
}

static inline size_t kernels_kv_blocks(uint32_t kv, size_t head_size)
{
    return kv == KERNELS_KV_Q8 ? (head_size + KERNELS_BLOCK - 1) / KERNELS_BLOCK : 0;
}

/* Bytes of the keys, or the values, of one head of one page. */
static inline size_t kernels_kv_bytes(uint32_t kv, size_t head_size)
{
    return KERNELS_PAGE * (head_size * kernels_kv_element(kv) +
                           kernels_kv_blocks(kv, head_size) * sizeof(uint16_t));
}

/* Where the scales of such a half begin; Q8 only. */
static inline const uint16_t *kernels_kv_scales(const void *half, size_t head_size)
{
    return (const uint16_t *)(const void *)((const uint8_t *)half + KERNELS_PAGE * head_size);
}

typedef struct kernels_table {
    const char *name; /* "reference", "avx2", "avx512" */

    /* out[i] = element begin + i of a stored row, i < count. begin and count are
     * multiples of KERNELS_BLOCK but for F32, F16 and BF16. */
    void (*dequantise)(uint32_t type, const void *row, size_t begin, size_t count, float *out);

    /* n floats -> one row of kernels_q8_bytes(n, levels): blocks of 32 integers with
     * the scale max|x| / 127 (one level) or max|x| / 16256 (two), rounded to nearest
     * even. Two levels split an integer into 128 * high + low, two int8. */
    void (*quantise)(const float *x, size_t n, uint32_t levels, void *row);

    /* y[j * y_stride + i] = row i of w times activation row j, for i in [begin, end)
     * and j < r. q8: kernels_type_has_blocks(w), x from quantise(). f32: any type; a
     * weight is dequantised once a call, however many activation rows there are. */
    void (*matmul_q8)(const kernels_matrix *w, size_t begin, size_t end, const void *x,
                      uint32_t levels, size_t r, float *y, size_t y_stride);
    void (*matmul_f32)(const kernels_matrix *w, size_t begin, size_t end, const float *x,
                       size_t x_stride, size_t r, float *y, size_t y_stride);

    void (*add)(float *x, const float *y, size_t n); /* x += y */
    void (*rmsnorm)(const float *x, const float *weight, size_t n, float epsilon, float *y);
    void (*silu_mul)(const float *gate, const float *up, size_t n, float *y);

    /* n floats of one head as elements of a kv type, rounded to nearest even; scales:
     * one for each block, Q8 only. What F16 cannot hold becomes infinite there and
     * the greatest in Q8, where NAN counts as the least. */
    void (*pack_kv)(uint32_t kv, const float *x, size_t n, void *y, uint16_t *scales);

    /* One span for each query, started afresh; then spans folded in ascending order
     * into a running partial, and at the end divided by the sum. */
    void (*attention_span)(const kernels_span *span);
    void (*attention_merge)(float *running, const float *partial, size_t head_size);
    void (*attention_finish)(const float *running, size_t head_size, float *out);

    /* The greatest of x (first of equals; NAN never wins) and where it is; and the
     * sum of exp(x[i] - maximum). */
    size_t (*argmax)(const float *x, size_t n);
    float (*sum_exp)(const float *x, size_t n, float maximum);
    /* p[i] = exp(x[i] - maximum); returns their sum, in the order of sum_exp. */
    float (*softmax_exp)(const float *x, size_t n, float maximum, float *p);
} kernels_table;

/* "auto" (the best that this machine has), "reference", "avx2" or "avx512" (with
 * VNNI). NULL: no such table, or this machine cannot run it. */
const kernels_table *kernels_choose(const char *isa);

/* Bytes of one stored row of n elements; 0: n does not fit the type's blocks. */
size_t kernels_row_bytes(uint32_t type, size_t n);
const char *kernels_type_name(uint32_t type);
/* Weights in one stored block: 1, 32 or 256. */
size_t kernels_block_elements(uint32_t type);
/* True for the types that matmul_q8 takes: one scale for 32 integers. */
bool kernels_type_has_blocks(uint32_t type);

/* Bytes of one quantised activation row: n high int8, with two levels n low ones,
 * then the scales of all blocks, the sums of their integers, and scale * sum;
 * rounded up to 64. */
size_t kernels_q8_bytes(size_t n, uint32_t levels);

/* Rotates the first 2 * pairs channels in place by the angles whose cosines and
 * sines stand in turn: [cos 0, sin 0, cos 1, ...]. */
void kernels_rope(uint32_t kind, float *x, const float *cos_sin, size_t pairs);

/* Ids of the k greatest of x, best first, equals by lower id; NANs count as the
 * least. Returns how many: k or n. */
size_t kernels_top_k(const float *x, size_t n, size_t k, int32_t *ids);

uint16_t kernels_f16_from_f32(float x);
float kernels_f32_from_f16(uint16_t x);

#endif /* KERNELS_KERNELS_H */
