/*
 * cpu/engine.h - what a loaded model and its sequences are inside.
 *
 * A pawl_engine owns the model, the worker threads, the page pool and all
 * scratch memory. Everything in it is touched by one thread at a time (the one
 * that owns the engine), save what is marked "any": that is constant after open,
 * or atomic.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_ENGINE_H
#define CPU_ENGINE_H

#include <pawl/plugin.h>

#include <stdatomic.h>

#include "cpu/forward.h"
#include "cpu/kv.h"
#include "cpu/model.h"
#include "cpu/options.h"
#include "cpu/threads.h"

#define ENGINE_MAX_SEQUENCES 65536u
#define ENGINE_CHUNK KERNELS_SPAN /* tokens of a saved chunk: whole pages */

struct pawl_sequence {
    pawl_engine *engine;
    uint32_t *pages; /* n_pages, of which length needs the first  */
    uint32_t n_pages;
    uint32_t length;   /* tokens with state                         */
    uint32_t room;     /* of tokens                                 */
    int32_t *tokens;   /* length ids                                */
    float *hidden;     /* after the final norm, of the last token   */
    bool hidden_valid; /* hidden belongs to token length - 1        */
    bool busy;         /* in the submit that is being checked       */
};

struct pawl_engine {
    const pawl_host *host; /* any; may be NULL                      */
    model *model;          /* any                                   */
    const kernels_table *kernels;
    cpu_options options;
    threads *threads;
    kv_pool pool;
    uint32_t context; /* any: tokens of one sequence           */
    uint32_t max_sequences;
    uint32_t n_sequences;    /* open                                  */
    uint64_t ticket;         /* of the last submit                    */
    atomic_bool cancelled;   /* any                                   */
    forward forward;         /* scratch of a pass                     */
    char kv_format[192];     /* any                                   */
    uint64_t kv_format_hash; /* any                                   */
    char device[64];         /* any                                   */
};

/* plugin.c: the host pointer of init(). */
const pawl_host *plugin_host(void);

/* inspect.c */
pawl_status engine_inspect(pawl_bytes path, const pawl_sink *json, pawl_error *error);

/* engine.c */
pawl_status engine_open(const pawl_engine_config *config,
                        pawl_status (*progress)(void *arg, double done), void *arg,
                        pawl_engine **engine, pawl_error *error);
void engine_close(pawl_engine *engine);
void engine_info(const pawl_engine *engine, pawl_engine_info *info);
void engine_capacity(const pawl_engine *engine, uint64_t *total_pages, uint64_t *free_pages);
void engine_cancel(pawl_engine *engine);

/* sequence.c */
pawl_status sequence_open(pawl_engine *engine, pawl_sequence **sequence, pawl_error *error);
void sequence_close(pawl_sequence *sequence);
pawl_status sequence_reserve(pawl_sequence *sequence, uint64_t n_tokens, pawl_error *error);
uint64_t sequence_length(const pawl_sequence *sequence);
pawl_status sequence_truncate(pawl_sequence *sequence, uint64_t n, pawl_error *error);
pawl_status sequence_fork(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                          pawl_error *error);

/* submit.c */
pawl_status engine_submit(pawl_engine *engine, pawl_slot *slots, uint64_t slot_stride,
                          uint64_t n_slots, uint64_t *ticket, pawl_error *error);
pawl_status engine_wait(pawl_engine *engine, uint64_t ticket, pawl_error *error);

/* state.c */
pawl_status state_save(const pawl_sequence *sequence, uint32_t part, uint64_t begin, uint64_t end,
                       const pawl_sink *to, pawl_error *error);
pawl_status state_load(pawl_sequence *sequence, uint32_t part, const int32_t *tokens,
                       uint64_t begin, uint64_t end, const pawl_source *from, pawl_error *error);
uint64_t state_chunk_bytes(const pawl_engine *engine);

#endif /* CPU_ENGINE_H */
