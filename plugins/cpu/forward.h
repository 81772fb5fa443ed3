/*
 * cpu/forward.h - one pass of up to FORWARD_ROWS tokens through the layers.
 *
 * Rows of all sequences go through the matrices together; attention looks at
 * each row's own sequence. All workers go through the same stages and claim
 * items of them. Scratch belongs to `forward`, inside the engine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_FORWARD_H
#define CPU_FORWARD_H

#include <pawl/plugin.h>

#include <stdatomic.h>
#include <stdbool.h>

#include "cpu/kv.h"
#include "cpu/model.h"
#include "cpu/threads.h"

#define FORWARD_ROWS 128u      /* tokens of one pass                           */
#define FORWARD_LOGIT_ROWS 16u /* rows of logits at a time                    */
#define FORWARD_QUERY_ROWS 8u  /* rows that share the loading of keys          */
#define FORWARD_QUERIES 32u    /* queries (row and head) of one span at a time */

#define FORWARD_PARTIALS 4096u /* of queries whose spans are dealt out singly */

/* One token on its way through the layers. */
typedef struct forward_row {
    const uint32_t *pages; /* of its sequence                                   */
    uint32_t position;
    int32_t token;
    uint32_t group; /* rows of one slot carry the same number and stand
                     * together, positions ascending                    */
} forward_row;

/* One worker's own scratch. */
typedef struct forward_worker {
    float *scores;   /* FORWARD_QUERIES * KERNELS_SPAN       */
    float *partial;  /* FORWARD_QUERIES partials, of a span  */
    float *running;  /* the same, folded                     */
    float *adjusted; /* vocab, for sampling                  */
    int32_t *ids;    /* vocab                                */
    uint32_t *seen;  /* vocab, all 0 between uses            */
} forward_worker;

typedef struct forward {
    uint8_t *memory; /* all scratch below                                      */
    size_t bytes;
    forward_row *rows; /* FORWARD_ROWS                                   */
    float *x;          /* [rows][hidden] residual                        */
    float *change;     /* [rows][hidden] what a block adds to it         */
    float *normed;     /* [rows][hidden]                                 */
    float *q;          /* [rows][max_heads * head_size]                  */
    float *k;          /* [rows][max_kv_heads * head_size]               */
    float *v;
    float *partials; /* FORWARD_PARTIALS, while spans are dealt out     */
    float *mixed;    /* [rows][max_heads * head_size] after attention  */
    float *gate;     /* [rows][max_width]                              */
    float *up;
    uint8_t *quantised;      /* [rows] of the widest activation row            */
    float *turns;            /* [rows][rope_pairs] cosines and sines           */
    float *finals;           /* [FORWARD_LOGIT_ROWS][hidden] normed            */
    float *logits;           /* [FORWARD_LOGIT_ROWS][vocab]                    */
    forward_worker *workers; /* one each                                       */
} forward;

/* What all workers of a run share. */
typedef struct forward_pass {
    const model *model;
    const kernels_table *kernels;
    const kv_pool *pool;
    forward *scratch;
    bool exact; /* no int8 activations                 */
    uint32_t n_rows;
    bool (*cancelled)(void *arg); /* asked twice a layer, by any worker      */
    void *arg;
    atomic_bool stop; /* it said yes                             */
} forward_pass;

/* Bytes of scratch for `workers` threads. */
size_t forward_bytes(const model *m, uint32_t workers);
pawl_status forward_open(const model *m, uint32_t workers, forward *f, pawl_error *error);
void forward_close(forward *f);

/* Runs scratch->rows[0 .. n_rows) through all layers; x holds the result. False:
 * cancelled. */
bool forward_layers(forward_pass *pass, threads *team);

/* Final norm of one row of x. */
void forward_final(const forward_pass *pass, const float *x, float *normed);

/* Logits of n rows of scratch->finals, n <= FORWARD_LOGIT_ROWS. */
void forward_logits(forward_pass *pass, threads *team, uint32_t n);

/* attention.c: the key and value of row r go to their page; then one stage. */
void attention_store(const forward_pass *pass, uint32_t layer, size_t r);
void attention_mix(const forward_pass *pass, uint32_t layer, threads_worker *worker);

#endif /* CPU_FORWARD_H */
