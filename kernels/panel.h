/*
 * kernels/panel.h - the matrix product that all instruction sets share.
 *
 * Sixteen rows of a weight matrix form a panel. A stretch of it (at most
 * PANEL_BLOCKS blocks wide) is unpacked once into a small buffer that stays in
 * the first-level cache, transposed so that one vector register holds the same
 * four columns of all sixteen rows; then every activation row runs over it:
 *
 *      matrix                  panel.q[block][group of 4 columns][row][4]
 *   row 0  |.... .... ....|
 *   row 1  |.... .... ....|      g 0: r0 r0 r0 r0 r1 r1 r1 r1 ... r15
 *   ...                          g 1: r0 r0 r0 r0 r1 ...
 *   row 15 |.... .... ....|
 *
 * One lane is one output, so no sum ever crosses lanes: each output is the same
 * chain of operations (README.md, "The rule") however many activation rows there
 * are and whoever computes the other outputs. Between stretches the chain rests
 * in y, which loses nothing: both are F32.
 *
 * An instruction set supplies the four steps as a panel_ops; panel.c walks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_PANEL_H
#define KERNELS_PANEL_H

#include "kernels/kernels.h"

#define PANEL_ROWS 16
#define PANEL_BLOCKS 16  /* width of one stretch in blocks: 512 columns, 10 KiB */
#define PANEL_COLUMNS 64 /* width of one F32 stretch in columns: 4 KiB          */

typedef struct panel_q8 {
    _Alignas(64) uint8_t q[PANEL_BLOCKS][KERNELS_BLOCK / 4][PANEL_ROWS][4];
    _Alignas(64) float d[PANEL_BLOCKS][PANEL_ROWS];
    _Alignas(64) float m[PANEL_BLOCKS][PANEL_ROWS]; /* types with a minimum only */
} panel_q8;

typedef struct panel_f32 {
    _Alignas(64) float w[PANEL_COLUMNS][PANEL_ROWS];
} panel_f32;

/* Which weights to unpack: 16 pointers to the first byte of the stretch in each
 * row. Rows beyond the matrix repeat the last one; their lanes are not stored. */
typedef struct panel_source {
    uint32_t type; /* enum kernels_type       */
    const uint8_t *rows[PANEL_ROWS];
    const uint8_t *ahead; /* where to ask for later weights, or NULL */
    size_t count;         /* blocks, or columns for F32 stretches */
} panel_source;

/* Activations of the stretch and where the outputs go. */
typedef struct panel_task {
    uint32_t type;    /* of the weights                                     */
    size_t count;     /* blocks or columns                                  */
    bool first;       /* y is not read: the chain starts at 0               */
    const uint8_t *x; /* q8: first int8 of the stretch; f32: first float    */
    size_t x_stride;  /* bytes from activation row to row                   */
    uint32_t levels;  /* q8: 1 or 2                                         */
    size_t low;       /* q8: bytes from a high int8 to its low one          */
    size_t scales;    /* q8: bytes from x to the scale of the first block   */
    size_t blocks;    /* q8: blocks of a whole row: scales, sums and scaled
                       * sums lie that many values apart                    */
    size_t r;         /* activation rows                                    */
    float *y;         /* lane 0 of activation row 0                         */
    size_t y_stride;  /* floats from activation row to row                  */
    size_t lanes;     /* outputs to store, 1..16                            */
} panel_task;

typedef struct panel_ops {
    void (*unpack_q8)(const panel_source *source, panel_q8 *panel);
    void (*dot_q8)(const panel_q8 *panel, const panel_task *task);
    void (*unpack_f32)(const panel_source *source, panel_f32 *panel);
    void (*dot_f32)(const panel_f32 *panel, const panel_task *task);
} panel_ops;

void panel_matmul_q8(const panel_ops *ops, const kernels_matrix *w, size_t begin, size_t end,
                     const void *x, uint32_t levels, size_t r, float *y, size_t y_stride);
void panel_matmul_f32(const panel_ops *ops, const kernels_matrix *w, size_t begin, size_t end,
                      const float *x, size_t x_stride, size_t r, float *y, size_t y_stride);

/* Unpacking asks, a little at a time, for as many bytes of a later panel. Into
 * the second-level cache: the first cannot have so many lines on their way, and
 * asking for a whole panel at once would be throttled. */
static inline void panel_fetch_ahead(const panel_source *source, size_t at, size_t bytes)
{
    if (!source->ahead)
        return;
    for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(source->ahead + at + line, 0, 2);
}

/* True where w = d * q + m. */
static inline bool panel_has_minimum(uint32_t type)
{
    return type == KERNELS_Q4_1 || type == KERNELS_Q5_1;
}

/* What was added to q to make it an unsigned number: w = d * (q - offset). */
static inline int32_t panel_offset(uint32_t type)
{
    return type == KERNELS_Q8_0 ? 128 : type == KERNELS_Q4_0 ? 8 : type == KERNELS_Q5_0 ? 16 : 0;
}

#endif /* KERNELS_PANEL_H */
