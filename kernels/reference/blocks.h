/*
 * kernels/reference/blocks.h - the reference table's functions, by file.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KERNELS_REFERENCE_BLOCKS_H
#define KERNELS_REFERENCE_BLOCKS_H

#include "kernels/kernels.h"
#include "kernels/panel.h"

/* blocks.c */
void reference_dequantise(uint32_t type, const void *row, size_t begin, size_t count, float *out);
void reference_quantise(const float *x, size_t n, uint32_t levels, void *row);
void reference_unpack_q8(const panel_source *source, panel_q8 *panel);
void reference_unpack_f32(const panel_source *source, panel_f32 *panel);

/* groups.c: the types behind Q5_1 */
void reference_dequantise_groups(uint32_t type, const void *row, size_t begin, size_t count,
                                 float *out);

/* kv.c */
void reference_pack_kv(uint32_t kv, const float *x, size_t n, void *y, uint16_t *scales);
/* Element i of a half; scale: which of its scales belongs to it (Q8 only). */
float reference_kv(uint32_t kv, const void *half, size_t head_size, size_t i, size_t scale);

/* attention.c */
void reference_attention_span(const kernels_span *span);
void reference_attention_merge(float *running, const float *partial, size_t head_size);
void reference_attention_finish(const float *running, size_t head_size, float *out);
float reference_sum_exp(const float *x, size_t n, float maximum);
float reference_softmax_exp(const float *x, size_t n, float maximum, float *p);
size_t reference_argmax(const float *x, size_t n);

#endif /* KERNELS_REFERENCE_BLOCKS_H */
