/*
 * run/model.h - a model that is being served: engine, tokenizer and chat dialect.
 *
 * run_model_open() asks the usable engines in order of their probe's score, then
 * the tokenizers, then the chat plugins, and takes the first of each that opens
 * the file. Opening and closing are [main]; the rest is [any], except the engine
 * itself, which belongs to the model's scheduler thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_MODEL_H
#define RUN_MODEL_H

#include "loader/registry.h"
#include "run/measure.h"

#include <pawl/plugin.h>

#include <stdatomic.h>
#include <stdbool.h>

/* Open sequences per running one: the idle ones keep the state of earlier turns. */
#define RUN_IDLE_FACTOR 4

typedef struct run_model_config {
    const char *name;       /* what clients ask for; NULL: made from the path  */
    const char *path;       /* file or folder                                  */
    uint32_t threads;       /* 0: the engine's choice                          */
    uint32_t max_sequences; /* 0: 16                                           */
    uint64_t max_context;   /* tokens; 0: what the model allows                */
    uint64_t memory_budget; /* bytes for KV and scratch; 0: a quarter of memory */
    const char *engine_id;  /* only this plugin, or NULL                       */
    const char *options;    /* JSON object for the engine, or NULL             */
    bool engine_only;       /* neither tokenizer nor dialect are wanted         */
    const char *dialect;    /* chat dialect by name, or NULL                   */
    metrics *metrics;       /* where its series are, or NULL                   */
} run_model_config;

typedef struct run_scheduler run_scheduler;
typedef struct run_health run_health;

typedef struct run_model {
    char *name;
    char *path;
    char *inspect; /* JSON, as the engine's inspect() gave it  */
    const registry_plugin *engine_plugin;
    const registry_plugin *tokenizer_plugin;
    const registry_plugin *chat_plugin;
    const pawl_engine_api *engine_api;
    const pawl_tokenizer_api *tokenizer_api;
    const pawl_chat_api *chat_api; /* NULL: no dialect fits                    */
    pawl_engine *engine;
    pawl_tokenizer *tokenizer;
    pawl_chat *chat; /* NULL: no dialect fits                    */
    pawl_engine_info info;
    pawl_tokenizer_info vocabulary;
    uint32_t longest_piece; /* bytes of the longest token              */
    uint32_t max_sequences;
    int64_t created_ms;              /* wall clock at opening                    */
    run_scheduler *scheduler;        /* NULL until the runtime serves it         */
    run_health *health;              /* ready.h; NULL in tests                   */
    metric *measures[MEASURE_COUNT]; /* NULL each where nothing is measured */
} run_model;

pawl_status run_model_open(registry *plugins, const run_model_config *config, run_model **model,
                           pawl_error *error);
void run_model_close(run_model *model); /* NULL allowed */
/* What a model is called that has no name: "models/Smol.Q4_1.gguf" is "Smol.Q4_1". To be
 * free()d. */
char *run_model_name_of(const char *path);

/* inspect() of the first engine that knows the format. The caller free()s *json. */
pawl_status run_model_inspect(registry *plugins, const char *path, char **json, pawl_error *error);
/* The first tokenizer that opens the path. */
pawl_status run_tokenizer_open(registry *plugins, const char *path, const pawl_tokenizer_api **api,
                               pawl_tokenizer **tokenizer, const registry_plugin **plugin,
                               pawl_error *error);
/* A chat dialect by name, or by a model's template where name is NULL. */
pawl_status run_chat_open(registry *plugins, const char *name, const char *chat_template,
                          const char *family, const pawl_chat_api **api, pawl_chat **chat,
                          const registry_plugin **plugin, pawl_error *error);

/* All text as tokens; the caller free()s *tokens. */
pawl_status run_encode(const pawl_tokenizer_api *api, const pawl_tokenizer *tokenizer,
                       const pawl_segment *segments, uint64_t n_segments, int32_t **tokens,
                       uint64_t *n_tokens, pawl_error *error);

#endif /* RUN_MODEL_H */
