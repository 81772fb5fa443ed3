/*
 * kernels/panel.c - walks a weight matrix panel by panel; see panel.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/panel.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Points at byte `at` of the panel's rows, which begin at `row`. */
static void locate(const kernels_matrix *w, size_t row, size_t end, size_t at, panel_source *source)
{
    size_t stride = kernels_row_bytes(w->type, w->columns);
    source->type = w->type;
    for (size_t i = 0; i < PANEL_ROWS; i++) {
        size_t at_row = least(row + i, end - 1);
        source->rows[i] = (const uint8_t *)w->data + at_row * stride + at;
    }
}

/* How far ahead weights are asked for, in bytes: further than memory is away. */
#define AHEAD ((size_t)32768)

/* Sixteen short rows at a time are no pattern that the processor would guess. But
 * a panel's rows are one piece of memory: each block of this panel asks for a
 * part of a later one, in order (panel_fetch_ahead). NULL: there is none. On a
 * model that lies in memory this doubles the speed of decoding. */
static const uint8_t *later_panel(const kernels_matrix *w, size_t row, size_t end)
{
    size_t row_bytes = kernels_row_bytes(w->type, w->columns);
    size_t panels = (AHEAD + PANEL_ROWS * row_bytes - 1) / (PANEL_ROWS * row_bytes);
    size_t later = row + panels * PANEL_ROWS;
    return later + PANEL_ROWS <= end ? (const uint8_t *)w->data + later * row_bytes : NULL;
}

void panel_matmul_q8(const panel_ops *ops, const kernels_matrix *w, size_t begin, size_t end,
                     const void *x, uint32_t levels, size_t r, float *y, size_t y_stride)
{
    panel_q8 panel;
    panel_source source;
    size_t blocks = w->columns / KERNELS_BLOCK;
    size_t block_bytes = kernels_row_bytes(w->type, KERNELS_BLOCK);
    panel_task task = {.type = w->type,
                       .levels = levels,
                       .low = w->columns,
                       .x_stride = kernels_q8_bytes(w->columns, levels),
                       .blocks = blocks,
                       .r = r,
                       .y_stride = y_stride};
    for (size_t row = begin; row < end; row += PANEL_ROWS) {
        task.lanes = least(PANEL_ROWS, end - row);
        task.y = y + row;
        const uint8_t *later = later_panel(w, row, end);
        for (size_t b = 0; b < blocks; b += PANEL_BLOCKS) {
            locate(w, row, end, b * block_bytes, &source);
            source.count = task.count = least(PANEL_BLOCKS, blocks - b);
            task.first = b == 0;
            task.x = (const uint8_t *)x + b * KERNELS_BLOCK;
            task.scales = w->columns * levels - b * KERNELS_BLOCK + b * sizeof(float);
            source.ahead = later ? later + b * PANEL_ROWS * block_bytes : NULL;
            ops->unpack_q8(&source, &panel);
            ops->dot_q8(&panel, &task);
        }
    }
}

void panel_matmul_f32(const panel_ops *ops, const kernels_matrix *w, size_t begin, size_t end,
                      const float *x, size_t x_stride, size_t r, float *y, size_t y_stride)
{
    panel_f32 panel;
    panel_source source;
    panel_task task = {
        .type = w->type, .x_stride = x_stride * sizeof(float), .r = r, .y_stride = y_stride};
    for (size_t row = begin; row < end; row += PANEL_ROWS) {
        task.lanes = least(PANEL_ROWS, end - row);
        task.y = y + row;
        const uint8_t *later = later_panel(w, row, end);
        for (size_t c = 0; c < w->columns; c += PANEL_COLUMNS) {
            locate(w, row, end, kernels_row_bytes(w->type, c), &source);
            source.count = task.count = least(PANEL_COLUMNS, w->columns - c);
            task.first = c == 0;
            task.x = (const uint8_t *)(x + c);
            source.ahead = later ? later + PANEL_ROWS * kernels_row_bytes(w->type, c) : NULL;
            ops->unpack_f32(&source, &panel);
            ops->dot_f32(&panel, &task);
        }
    }
}
