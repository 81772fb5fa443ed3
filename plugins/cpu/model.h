/*
 * cpu/model.h - a checked model of the llama family out of a GGUF file.
 *
 * Matrices point into the file's map; only norms, biases and the table of
 * rotation speeds are copied. Every shape has been checked, so that later stages
 * index without checking. Immutable after model_open(): any thread may read it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_MODEL_H
#define CPU_MODEL_H

#include <pawl/plugin.h>

#include "formats/gguf.h"
#include "kernels/kernels.h"

/* Ceilings on what a file may claim, far above the models of this family. */
#define MODEL_MAX_LAYERS 1024u
#define MODEL_MAX_WIDTH (1u << 20) /* of any activation row        */
#define MODEL_MAX_HEADS 1024u
#define MODEL_MAX_HEAD_SIZE 1024u
#define MODEL_MAX_VOCAB (1u << 24)
#define MODEL_MAX_CONTEXT (1u << 28)

typedef struct model_layer {
    uint32_t heads; /* of queries; a multiple of kv_heads             */
    uint32_t kv_heads;
    uint32_t width; /* of the feed-forward part                       */
    const float *attention_norm;
    const float *feed_norm;
    kernels_matrix q;
    kernels_matrix k;
    kernels_matrix v;
    kernels_matrix o;
    kernels_matrix gate;
    kernels_matrix up;
    kernels_matrix down;
    const float *q_bias; /* NULL: none; so the others                   */
    const float *k_bias;
    const float *v_bias;
    const float *o_bias;
} model_layer;

typedef struct model {
    gguf_file *file;
    uint32_t hidden; /* width of the residual row                    */
    uint32_t vocab;
    uint32_t n_layers;
    uint32_t head_size;
    uint32_t rope_pairs; /* pairs of channels that are rotated           */
    uint32_t context;    /* that the model was made for                  */
    float epsilon;
    uint32_t max_heads; /* greatest over the layers                     */
    uint32_t max_kv_heads;
    uint32_t max_width;
    kernels_matrix embedding;
    kernels_matrix output; /* the embedding again where they are tied    */
    const float *output_norm;
    double *rope_speed; /* rope_pairs angles per position             */
    model_layer *layers;
    float **owned; /* copies that end with the model             */
    size_t n_owned;
    size_t owned_room;
} model;

/* PAWL_E_UNSUPPORTED: no GGUF file, or a model this engine does not know (the
 * message says why); PAWL_E_FORMAT, PAWL_E_NOT_FOUND: damaged, tensor named. */
pawl_status model_open(pawl_bytes path, model **out, pawl_error *error);
void model_close(model *m); /* NULL allowed */

/* What model_open() reads from the metadata; for inspection, before any tensor
 * is looked at. m->file must be set. */
pawl_status model_read_shape(model *m, pawl_error *error);

/* The whole check over an open file, which m owns from then on even on failure. */
pawl_status model_bind(model *m, pawl_error *error);

/* Frees all but m itself. */
void model_clear(model *m);

#endif /* CPU_MODEL_H */
