/*
 * run/model.c - a model that is being served: engine, tokenizer, dialect. See model.h.
 *
 * Which plugin serves a file is found out by asking: inspect() and open() say
 * PAWL_E_UNSUPPORTED where it is not theirs. When nobody takes it, the user is
 * told the most telling reason: one that is not "unsupported" before one that is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/model.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "run/choose.h"
#include "run/ready.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_SEQUENCES 16
#define MAX_INSPECT_BYTES (16u << 20)

char *run_model_name_of(const char *path)
{
    static const char *const endings[] = {".gguf", ".replay.json"};
    size_t size = strlen(path);
    while (size > 1 && path[size - 1] == '/')
        size--;
    size_t begin = size;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t n = strlen(endings[i]);
        if (size - begin > n && memcmp(path + size - n, endings[i], n) == 0)
            size -= n;
    }
    return strndup(path + begin, size - begin);
}

static uint64_t default_budget(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 : 1u << 30;
}

/* Asks one engine what the file is. *json is text to be free()d. */
static pawl_status inspect_with(const pawl_engine_api *api, const char *path, char **json,
                                pawl_error *error)
{
    buf out;
    buf_init(&out, MAX_INSPECT_BYTES);
    pawl_sink sink = buf_sink(&out);
    pawl_status status = api->inspect(json_text(path), &sink, error);
    if (!status && !(*json = buf_take(&out)))
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for what is known of %s", path);
    buf_clear(&out);
    return status;
}

/* Whether inspect() says that this engine can run it; else why not, as an error. */
static pawl_status check_usable(const char *json, const char *path, pawl_error *error)
{
    cJSON *info = NULL;
    pawl_status status = json_parse(json, strlen(json), &info, error);
    if (status)
        return pawl_fail(error, PAWL_E_INTERNAL, "the engine describes %s by invalid JSON", path);
    const char *why = json_get_text(info, "why");
    if (!json_get_bool(info, "usable", true))
        status = pawl_fail(error, PAWL_E_UNSUPPORTED, "%s: %s", path, why ? why : "not usable");
    cJSON_Delete(info);
    return status;
}

pawl_status run_model_inspect(registry *plugins, const char *path, char **json, pawl_error *error)
{
    choice c = choice_begin(plugins, PAWL_ENGINE);
    const pawl_engine_api *api;
    while ((api = choice_next(&c)))
        if (!choice_fails(&c, inspect_with(api, path, json, &c.latest)))
            return PAWL_OK;
    return choice_error(&c, path, "engine", error);
}

pawl_status run_tokenizer_open(registry *plugins, const char *path,
                               const pawl_tokenizer_api **api_out, pawl_tokenizer **tokenizer,
                               const registry_plugin **plugin, pawl_error *error)
{
    choice c = choice_begin(plugins, PAWL_TOKENIZER);
    const pawl_tokenizer_api *api;
    while ((api = choice_next(&c))) {
        if (choice_fails(&c, api->open(json_text(path), tokenizer, &c.latest)))
            continue;
        *api_out = api;
        *plugin = c.plugin;
        return PAWL_OK;
    }
    return choice_error(&c, path, "tokenizer", error);
}

static char *chat_config(const char *name, const char *chat_template, const char *family)
{
    cJSON *config = cJSON_CreateObject();
    if (name)
        cJSON_AddStringToObject(config, "dialect", name);
    if (chat_template)
        cJSON_AddStringToObject(config, "template", chat_template);
    if (family)
        cJSON_AddStringToObject(config, "family", family);
    char *text = json_print(config);
    cJSON_Delete(config);
    return text;
}

pawl_status run_chat_open(registry *plugins, const char *name, const char *chat_template,
                          const char *family, const pawl_chat_api **api_out, pawl_chat **chat,
                          const registry_plugin **plugin, pawl_error *error)
{
    char *config = chat_config(name, chat_template, family);
    if (!config)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to choose a chat dialect");
    choice c = choice_begin(plugins, PAWL_CHAT);
    const pawl_chat_api *api;
    pawl_status status = PAWL_E_NOT_FOUND;
    while (status && (api = choice_next(&c))) {
        status = api->open(json_text(config), chat, &c.latest);
        if (choice_fails(&c, status))
            continue;
        *api_out = api;
        *plugin = c.plugin;
    }
    free(config);
    return status ? choice_error(&c, name ? name : "chat template", "chat dialect", error)
                  : PAWL_OK;
}

/* No sequence can be longer than all pages together; better said at start than in the
 * middle of a turn. */
static void clamp_context(run_model *m)
{
    uint64_t pages = 0, free_pages = 0;
    m->engine_api->capacity(m->engine, &pages, &free_pages);
    uint64_t room = pages * m->info.page_tokens;
    if (room == 0 || room >= m->info.context_limit)
        return;
    log_write(PAWL_LOG_WARN, "model",
              "%s: memory for attention state holds %llu tokens, so the context is that instead "
              "of %llu; give it more (--kv-mb)",
              m->name, (unsigned long long)room, (unsigned long long)m->info.context_limit);
    m->info.context_limit = room;
}

/* Opens the engine that inspected the file. */
static pawl_status open_engine(run_model *m, const run_model_config *config, pawl_error *error)
{
    pawl_engine_config engine = {
        .struct_size = sizeof engine,
        .max_sequences = m->max_sequences * RUN_IDLE_FACTOR,
        .max_context = config->max_context,
        .memory_budget = config->memory_budget ? config->memory_budget : default_budget(),
        .threads = config->threads,
        .model_path = json_text(m->path),
        .options = json_text(config->options ? config->options : "{}"),
    };
    pawl_status status = m->engine_api->open(&engine, NULL, NULL, &m->engine, error);
    if (status)
        return status;
    m->info.struct_size = sizeof m->info;
    m->engine_api->info(m->engine, &m->info);
    clamp_context(m);
    return PAWL_OK;
}

static pawl_status find_engine(registry *plugins, run_model *m, const run_model_config *config,
                               pawl_error *error)
{
    choice c = choice_begin(plugins, PAWL_ENGINE);
    const pawl_engine_api *api;
    bool asked = false;
    while ((api = choice_next(&c))) {
        if (config->engine_id && strcmp(c.plugin->id, config->engine_id) != 0)
            continue;
        asked = true;
        char *json = NULL;
        pawl_status status = inspect_with(api, m->path, &json, &c.latest);
        if (!status)
            status = check_usable(json, m->path, &c.latest);
        if (!status) {
            m->engine_api = api;
            m->engine_plugin = c.plugin;
            status = open_engine(m, config, &c.latest);
        }
        if (choice_fails(&c, status)) {
            free(json);
            continue;
        }
        m->inspect = json;
        return PAWL_OK;
    }
    if (config->engine_id && !asked)
        return pawl_fail(error, PAWL_E_NOT_FOUND,
                         "%s: there is no usable engine plugin %s; see `pawl plugin list`", m->path,
                         config->engine_id);
    return choice_error(&c, m->path, "engine", error);
}

/* A model without a dialect is still good for plain completions, so that is no error. */
static void find_chat(registry *plugins, run_model *m, const char *dialect)
{
    cJSON *info = NULL;
    pawl_error why = {.struct_size = sizeof why};
    if (json_parse(m->inspect, strlen(m->inspect), &info, &why) == PAWL_OK &&
        run_chat_open(plugins, dialect, json_get_text(info, "chat_template"),
                      json_get_text(info, "family"), &m->chat_api, &m->chat, &m->chat_plugin,
                      &why) == PAWL_OK)
        why.message[0] = '\0';
    if (!m->chat)
        log_write(PAWL_LOG_WARN, "model", "%s: no chat dialect: %s", m->name, why.message);
    cJSON_Delete(info);
}

static pawl_status open_parts(registry *plugins, run_model *m, const run_model_config *config,
                              pawl_error *error)
{
    pawl_status status = find_engine(plugins, m, config, error);
    if (!status && config->engine_only)
        return PAWL_OK;
    if (!status)
        status = run_tokenizer_open(plugins, m->path, &m->tokenizer_api, &m->tokenizer,
                                    &m->tokenizer_plugin, error);
    if (status)
        return status;
    m->vocabulary.struct_size = sizeof m->vocabulary;
    m->tokenizer_api->info(m->tokenizer, &m->vocabulary);
    if (m->vocabulary.vocab_size > m->info.vocab_size)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s: the tokenizer has %u tokens, the weights only %u", m->path,
                         m->vocabulary.vocab_size, m->info.vocab_size);
    for (uint32_t i = 0; i < m->vocabulary.vocab_size; i++) {
        uint64_t size = m->tokenizer_api->piece(m->tokenizer, (int32_t)i).size;
        if (size > m->longest_piece)
            m->longest_piece = (uint32_t)size;
    }
    find_chat(plugins, m, config->dialect);
    if (config->dialect && !m->chat)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: no plugin has the chat dialect %s", m->path,
                         config->dialect);
    return PAWL_OK;
}

/* Which backend serves which model: operators read this at start. */
static void log_model(const run_model *m, const run_model_config *config)
{
    log_line line;
    uint64_t budget = config->memory_budget ? config->memory_budget : default_budget();
    log_begin(&line, PAWL_LOG_INFO, "model", "a model is loaded");
    log_text(&line, "model", m->name);
    log_text(&line, "path", m->path);
    log_text(&line, "engine", m->engine_plugin->id);
    log_text(&line, "device", m->info.device ? m->info.device : "unknown");
    log_text(&line, "tokenizer", m->vocabulary.name ? m->vocabulary.name : m->tokenizer_plugin->id);
    log_text(&line, "dialect", m->chat ? m->chat_api->dialect(m->chat) : NULL);
    log_number(&line, "context", m->info.context_limit);
    log_number(&line, "sequences", m->max_sequences);
    log_number(&line, "kv_mb", budget >> 20);
    log_end(&line);
}

pawl_status run_model_open(registry *plugins, const run_model_config *config, run_model **model,
                           pawl_error *error)
{
    run_model *m = calloc(1, sizeof *m);
    if (m) {
        m->name = config->name ? strdup(config->name) : run_model_name_of(config->path);
        m->health = calloc(1, sizeof *m->health);
        m->path = strdup(config->path);
        m->max_sequences = config->max_sequences ? config->max_sequences : DEFAULT_SEQUENCES;
        m->created_ms = clock_system()->wall_ms(NULL);
    }
    if (!m || !m->name || !m->path || !m->health) {
        run_model_close(m);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a model");
    }
    pawl_status status = open_parts(plugins, m, config, error);
    if (status) {
        run_model_close(m);
        return status;
    }
    run_measures_open(config->metrics, m->name, m->measures);
    metric_set(m->measures[MEASURE_READY], 0);
    if (!config->engine_only)
        log_model(m, config);
    *model = m;
    return PAWL_OK;
}

void run_model_close(run_model *m)
{
    if (!m)
        return;
    if (m->chat)
        m->chat_api->close(m->chat);
    if (m->tokenizer)
        m->tokenizer_api->close(m->tokenizer);
    if (m->engine)
        m->engine_api->close(m->engine);
    free(m->health);
    free(m->inspect);
    free(m->name);
    free(m->path);
    free(m);
}

pawl_status run_encode(const pawl_tokenizer_api *api, const pawl_tokenizer *tokenizer,
                       const pawl_segment *segments, uint64_t n_segments, int32_t **tokens,
                       uint64_t *n_tokens, pawl_error *error)
{
    uint64_t bytes = 0, needed = 0;
    for (uint64_t i = 0; i < n_segments; i++)
        bytes += segments[i].text.size;
    uint64_t room = bytes / 3 + 16;
    int32_t *ids = NULL;
    for (;;) {
        int32_t *more = realloc(ids, (size_t)room * sizeof *ids);
        if (!more) {
            free(ids);
            return pawl_fail(error, PAWL_E_MEMORY, "no memory for %llu tokens",
                             (unsigned long long)room);
        }
        ids = more;
        pawl_status status =
            api->encode(tokenizer, segments, n_segments, ids, room, &needed, error);
        if (status) {
            free(ids);
            return status;
        }
        if (needed <= room)
            break;
        room = needed;
    }
    *tokens = ids;
    *n_tokens = needed;
    return PAWL_OK;
}
