/*
 * tests/plugins/replay/engine.c - inspect, open, info: the engine's table.
 *
 * Options (config.options) override the script's keys of the same name:
 * "prefill_delay_ms_per_token", "max_sequences", "fail_open", "delay_ms" (for every
 * reply). One thread at a time but for cancel() and capacity(), as the header says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

#include <cjson/cJSON.h>

static void add_special(cJSON *json)
{
    cJSON *special = cJSON_AddObjectToObject(json, "special");
    cJSON_AddNumberToObject(special, "eos", REPLAY_END_OF_TEXT);
    cJSON_AddNumberToObject(special, "eot", REPLAY_IM_END);
    cJSON_AddNumberToObject(special, "<|im_start|>", REPLAY_IM_START);
    cJSON_AddNumberToObject(special, "<|im_end|>", REPLAY_IM_END);
    cJSON_AddNumberToObject(special, "<|endoftext|>", REPLAY_END_OF_TEXT);
}

static pawl_status inspect(pawl_bytes path, const pawl_sink *to, pawl_error *error)
{
    replay_model *model;
    pawl_status status = replay_model_open(path, &model, error);
    if (status)
        return status;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "format", "replay");
    cJSON_AddStringToObject(json, "family", "replay");
    cJSON_AddStringToObject(json, "name", model->name);
    cJSON_AddNumberToObject(json, "parameters", 0);
    cJSON_AddNumberToObject(json, "file_bytes", (double)model->file_bytes);
    cJSON_AddNumberToObject(json, "context", (double)model->context);
    cJSON_AddNumberToObject(json, "vocab", (double)model->n_pieces);
    cJSON_AddObjectToObject(json, "tensors");
    cJSON *memory = cJSON_AddObjectToObject(json, "memory");
    cJSON_AddNumberToObject(memory, "weights", 0);
    cJSON_AddNumberToObject(memory, "kv_per_token", sizeof(int32_t));
    cJSON_AddNumberToObject(memory, "scratch", 0);
    cJSON *tokenizer = cJSON_AddObjectToObject(json, "tokenizer");
    cJSON_AddStringToObject(tokenizer, "model", "replay");
    cJSON_AddStringToObject(tokenizer, "pre", "replay");
    add_special(json);
    cJSON_AddStringToObject(json, "chat_template", model->chat_template);
    cJSON_AddBoolToObject(json, "usable", true);
    replay_model_close(model);
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    if (!text)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    status = pawl_sink_text(to, text);
    cJSON_free(text);
    return status;
}

static pawl_status set_option(replay_model *model, const cJSON *item, pawl_error *error)
{
    bool number = cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 1e9;
    uint32_t value = number ? (uint32_t)item->valuedouble : 0;
    if (number && strcmp(item->string, "prefill_delay_ms_per_token") == 0)
        model->prefill_delay = value;
    else if (number && value && strcmp(item->string, "max_sequences") == 0)
        model->max_sequences = value;
    else if (number && strcmp(item->string, "delay_ms") == 0)
        for (size_t i = 0; i < model->n_replies; i++)
            model->replies[i].delay_ms = value;
    else if (cJSON_IsString(item) && strcmp(item->string, "fail_open") == 0)
        model->fail_open = strcmp(item->valuestring, "memory") == 0 ? PAWL_E_MEMORY : PAWL_E_DEVICE;
    else
        return pawl_fail(error, PAWL_E_ARGUMENT, "unknown option or bad value: \"%s\"",
                         item->string);
    return PAWL_OK;
}

static pawl_status set_options(replay_model *model, pawl_bytes options, pawl_error *error)
{
    if (options.size == 0)
        return PAWL_OK;
    cJSON *json = cJSON_ParseWithLength(options.data, options.size);
    pawl_status status = PAWL_OK;
    if (!cJSON_IsObject(json))
        status = pawl_fail(error, PAWL_E_ARGUMENT, "options are a JSON object");
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        if (!status)
            status = set_option(model, item, error);
    }
    cJSON_Delete(json);
    return status;
}

static pawl_status prepare(const pawl_engine_config *config, replay_model *model, pawl_engine **out,
                           pawl_error *error)
{
    pawl_status status = set_options(model, config->options, error);
    if (status)
        return status;
    if (model->fail_open)
        return pawl_fail(error, model->fail_open, "the script has fail_open");
    pawl_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    uint32_t asked = config->max_sequences ? config->max_sequences : 8;
    engine->model = model;
    engine->max_sequences = asked < model->max_sequences ? asked : model->max_sequences;
    engine->context = config->max_context && config->max_context < model->context
                          ? config->max_context
                          : model->context;
    engine->pages = model->pages
                        ? model->pages
                        : (engine->context / model->page_tokens + 1) * engine->max_sequences;
    atomic_init(&engine->held, 0);
    atomic_init(&engine->cancelled, false);
    snprintf(engine->kv_format, sizeof engine->kv_format, "replay/1 %016llx",
             (unsigned long long)model->digest);
    *out = engine;
    return PAWL_OK;
}

static void close_engine(pawl_engine *engine)
{
    replay_model_close(engine->model);
    free(engine);
}

static pawl_status open_engine(const pawl_engine_config *config,
                               pawl_status (*progress)(void *arg, double done), void *arg,
                               pawl_engine **out, pawl_error *error)
{
    replay_model *model;
    pawl_engine *engine = NULL;
    pawl_status status = replay_model_open(config->model_path, &model, error);
    if (status)
        return status;
    status = prepare(config, model, &engine, error);
    if (status) {
        replay_model_close(model);
        return status;
    }
    status = progress ? progress(arg, 1.0) : PAWL_OK;
    if (status) {
        close_engine(engine);
        return pawl_fail(error, status, "opening was cancelled");
    }
    *out = engine;
    return PAWL_OK;
}

static void info(const pawl_engine *engine, pawl_engine_info *out)
{
    const replay_model *model = engine->model;
    pawl_engine_info full = {.struct_size = sizeof full,
                             .vocab_size = (uint32_t)model->n_pieces,
                             .context_limit = engine->context,
                             .features = PAWL_FEATURE_BATCH_INVARIANT,
                             .hidden_size = 1,
                             .max_in_flight = 1,
                             .page_tokens = model->page_tokens,
                             .state_chunk = model->state_chunk,
                             .rewind_tokens = UINT64_MAX,
                             .chunk_bytes = 32 + 4 * (uint64_t)model->state_chunk,
                             .kv_format = engine->kv_format,
                             .device = "a script"};
    pawl_fill(out, &full, sizeof full);
}

static void capacity(const pawl_engine *engine, uint64_t *total, uint64_t *free_pages)
{
    *total = engine->pages;
    *free_pages = engine->pages - atomic_load(&engine->held);
}

static void cancel(pawl_engine *engine)
{
    atomic_store(&engine->cancelled, true);
}

const pawl_engine_api replay_engine = {.struct_size = sizeof replay_engine,
                                       .inspect = inspect,
                                       .open = open_engine,
                                       .close = close_engine,
                                       .info = info,
                                       .capacity = capacity,
                                       .reserve = replay_reserve,
                                       .sequence_open = replay_sequence_open,
                                       .sequence_close = replay_sequence_close,
                                       .submit = replay_submit,
                                       .wait = replay_wait,
                                       .cancel = cancel,
                                       .length = replay_length,
                                       .truncate = replay_truncate,
                                       .fork = replay_fork,
                                       .state_save = replay_state_save,
                                       .state_load = replay_state_load};
