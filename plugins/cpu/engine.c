/*
 * cpu/engine.c - opening and closing a model, and what the host may ask about it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/engine.h"

#include <pawl/plugin_util.h>

#include <unistd.h>

#include "cpu/digest.h"
#include "cpu/memory.h"

#define SAMPLE_BYTES ((size_t)4096) /* of each end of a tensor, for the weights' digest */

/* Rises whenever saved states of before would no longer continue bit for bit. */
#define STATE_GENERATION 1

/* Names, types, shapes and both ends of every tensor, and the sizes that do not
 * show in shapes: cheap, and no two models in practice share it. */
static uint64_t weights_digest(const model *m, uint64_t seed)
{
    digest d;
    digest_init(&d, seed);
    for (uint64_t i = 0; i < gguf_tensor_count(m->file); i++) {
        const gguf_tensor *t = gguf_tensor_at(m->file, i);
        size_t bytes = (size_t)t->bytes;
        size_t part = bytes < SAMPLE_BYTES ? bytes : SAMPLE_BYTES;
        digest_add(&d, t->name.data, (size_t)t->name.size);
        digest_add(&d, &t->type, sizeof t->type);
        digest_add(&d, t->dims, sizeof t->dims);
        digest_add(&d, t->data, part);
        digest_add(&d, (const uint8_t *)t->data + (bytes - part), part);
    }
    for (uint32_t i = 0; i < m->n_layers; i++) {
        digest_add(&d, &m->layers[i].heads, sizeof m->layers[i].heads);
        digest_add(&d, &m->layers[i].kv_heads, sizeof m->layers[i].kv_heads);
    }
    digest_add(&d, &m->epsilon, sizeof m->epsilon);
    digest_add(&d, m->rope_speed, m->rope_pairs * sizeof *m->rope_speed);
    return digest_value(&d);
}

static void name_kv_format(pawl_engine *e)
{
    digest d;
    snprintf(e->kv_format, sizeof e->kv_format,
             "pawl-cpu/%d weights=%016llx%016llx layers=%u head=%u page=%u kv=%s numeric=%s",
             STATE_GENERATION, (unsigned long long)weights_digest(e->model, 1),
             (unsigned long long)weights_digest(e->model, 2), e->model->n_layers,
             e->model->head_size, KV_PAGE, options_kv_name(e->options.kv),
             e->options.exact ? "f32" : "int8");
    digest_init(&d, 0);
    digest_add(&d, e->kv_format, strlen(e->kv_format));
    e->kv_format_hash = digest_value(&d);
}

static void name_device(pawl_engine *e)
{
    const char *isa = e->kernels->name;
    const char *text = strcmp(isa, "avx512") == 0 ? "AVX-512 VNNI"
                       : strcmp(isa, "avx2") == 0 ? "AVX2"
                                                  : "portable C";
    uint32_t n = threads_count(e->threads);
    snprintf(e->device, sizeof e->device, "CPU %u thread%s, %s", n, n == 1 ? "" : "s", text);
}

/* The host's struct, of whatever size, over one of ours. */
static pawl_status read_config(const pawl_engine_config *from, pawl_engine_config *config,
                               pawl_error *error)
{
    memset(config, 0, sizeof *config);
    size_t size = from->struct_size < sizeof *config ? from->struct_size : sizeof *config;
    memcpy(config, from, size);
    if (size < offsetof(pawl_engine_config, options))
        return pawl_fail(error, PAWL_E_ARGUMENT, "config has no model_path");
    if (config->max_sequences > ENGINE_MAX_SEQUENCES)
        return pawl_fail(error, PAWL_E_ARGUMENT, "max_sequences is %u, expected at most %u",
                         config->max_sequences, ENGINE_MAX_SEQUENCES);
    if (config->n_devices > 1)
        return pawl_fail(error, PAWL_E_ARGUMENT, "the CPU engine has one device, not %u",
                         config->n_devices);
    if (config->threads > THREADS_MAX)
        return pawl_fail(error, PAWL_E_ARGUMENT, "threads is %u, expected at most %u",
                         config->threads, THREADS_MAX);
    if (config->max_sequences == 0)
        config->max_sequences = 1;
    return options_parse(config->options, &(cpu_options){0}, error);
}

/* All that needs the model; e is closed by the caller on failure. */
static pawl_status build(pawl_engine *e, const pawl_engine_config *config, pawl_error *error)
{
    memory_plan plan;
    pawl_status status = model_open(config->model_path, &e->model, error);
    if (status != PAWL_OK)
        return status;
    e->context = e->model->context;
    if (config->max_context > 0 && config->max_context < e->context)
        e->context = (uint32_t)config->max_context;
    status = threads_open(config->threads, &e->threads, error);
    if (status == PAWL_OK)
        status = memory_make_plan(e->model, e->options.kv, threads_count(e->threads), e->context,
                                  e->max_sequences, config->memory_budget, &plan, error);
    if (status == PAWL_OK)
        status = kv_open(e->model, e->options.kv, plan.pages, &e->pool, error);
    if (status == PAWL_OK)
        status = forward_open(e->model, threads_count(e->threads), &e->forward, error);
    return status;
}

pawl_status engine_open(const pawl_engine_config *from,
                        pawl_status (*progress)(void *arg, double done), void *arg,
                        pawl_engine **engine, pawl_error *error)
{
    pawl_engine_config config;
    pawl_status status = read_config(from, &config, error);
    if (status == PAWL_OK && progress)
        status = progress(arg, 0.0);
    if (status != PAWL_OK)
        return status;
    pawl_engine *e = calloc(1, sizeof *e);
    if (!e)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for an engine");
    e->host = plugin_host();
    e->max_sequences = config.max_sequences;
    atomic_init(&e->cancelled, false);
    status = options_parse(config.options, &e->options, error);
    e->kernels = e->options.kernels;
    if (status == PAWL_OK)
        status = build(e, &config, error);
    if (status == PAWL_OK) {
        name_kv_format(e);
        name_device(e);
        status = progress ? progress(arg, 1.0) : PAWL_OK;
    }
    if (status != PAWL_OK) {
        engine_close(e);
        return status;
    }
    pawl_log(e->host, PAWL_LOG_INFO, "cpu", "%s, %u pages of %u tokens in %s, context %u",
             e->device, e->pool.total, KV_PAGE, options_kv_name(e->options.kv), e->context);
    *engine = e;
    return PAWL_OK;
}

void engine_close(pawl_engine *engine)
{
    if (!engine)
        return;
    threads_close(engine->threads);
    forward_close(&engine->forward);
    kv_close(&engine->pool);
    model_close(engine->model);
    free(engine);
}

void engine_info(const pawl_engine *engine, pawl_engine_info *info)
{
    pawl_engine_info full = {
        .vocab_size = engine->model->vocab,
        .context_limit = engine->context,
        .features = PAWL_FEATURE_BATCH_INVARIANT,
        .hidden_size = engine->model->hidden,
        .max_in_flight = 1,
        .max_draft = 0,
        .page_tokens = KV_PAGE,
        .state_chunk = ENGINE_CHUNK,
        .rewind_tokens = UINT64_MAX,
        .chunk_bytes = state_chunk_bytes(engine),
        .boundary_bytes = 0,
        .kv_format = engine->kv_format,
        .device = engine->device,
    };
    pawl_fill(info, &full, sizeof full);
}

void engine_capacity(const pawl_engine *engine, uint64_t *total_pages, uint64_t *free_pages)
{
    *total_pages = engine->pool.total;
    *free_pages = kv_free_pages(&engine->pool);
}

void engine_cancel(pawl_engine *engine)
{
    atomic_store(&engine->cancelled, true);
}
