/*
 * tests/plugins/replay/model.c - reads NAME.replay.json into a replay_model.
 *
 * The file is a test's own, yet it is read with care: a typing error in a script
 * must show as a message that names the key, not as a test that hangs.
 * Everything in the model belongs to the model.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

#include <cjson/cJSON.h>

#define MAX_FILE (16u << 20)
#define MAX_PIECES 65536
#define MAX_REPLIES 4096

/* ChatML as Qwen2.5 writes it, with calls as <tool_call>{…}</tool_call>, in so far as the
 * chat plugin looks at it: the hermes dialect. */
static const char default_template[] =
    "{{- '<|im_start|>system\\n' }}"
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
    "<tool_call>\\n{\\\"name\\\": <function-name>, \\\"arguments\\\": <args-json-object>}\\n"
    "</tool_call>{{- '<|im_end|>\\n' }}";

static pawl_status read_file(pawl_bytes path, char **text, size_t *size, pawl_error *error)
{
    char *name = pawl_bytes_copy(path);
    if (!name)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    FILE *file = fopen(name, "rb");
    free(name);
    if (!file)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "the script cannot be opened");
    char *data = malloc(MAX_FILE);
    size_t got = data ? fread(data, 1, MAX_FILE, file) : 0;
    fclose(file);
    if (!data)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    if (got == MAX_FILE) {
        free(data);
        return pawl_fail(error, PAWL_E_LIMIT, "a script has at most %u bytes", MAX_FILE);
    }
    char *fit = realloc(data, got + 1);
    *text = fit ? fit : data;
    (*text)[got] = '\0';
    *size = got;
    return PAWL_OK;
}

static uint64_t fnv1a(const char *data, size_t size)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)data[i]) * 1099511628211u;
    return hash;
}

int32_t replay_find_piece(const replay_model *model, const char *text, size_t size)
{
    for (size_t i = 0; i < model->n_pieces; i++) {
        const replay_piece *piece = &model->pieces[i];
        if (piece->size == size && memcmp(piece->text, text, size) == 0)
            return (int32_t)i;
    }
    return -1;
}

/* The id of a piece, which becomes part of the vocabulary where it is not yet. */
static int32_t add_piece(replay_model *model, const char *text, size_t size, uint32_t flags)
{
    int32_t known = size ? replay_find_piece(model, text, size) : -1;
    if (known >= 0)
        return known;
    if (model->n_pieces == MAX_PIECES || size == 0)
        return -1;
    replay_piece *piece = &model->pieces[model->n_pieces];
    piece->text = pawl_bytes_copy((pawl_bytes){text, size});
    if (!piece->text)
        return -1;
    piece->size = size;
    piece->flags = flags;
    return (int32_t)model->n_pieces++;
}

static bool add_fixed_pieces(replay_model *model)
{
    static const char *const control[] = {"<|im_start|>", "<|im_end|>", "<|endoftext|>"};
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        if (add_piece(model, &byte, 1, i < 128 ? 0 : PAWL_TOKEN_BYTES) != i)
            return false;
    }
    for (int i = 0; i < 3; i++)
        if (add_piece(model, control[i], strlen(control[i]),
                      PAWL_TOKEN_CONTROL | PAWL_TOKEN_ADDED) != 256 + i)
            return false;
    return true;
}

static pawl_status add_list(replay_model *model, const cJSON *list, uint32_t flags,
                            pawl_error *error)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item) ||
            add_piece(model, item->valuestring, strlen(item->valuestring), flags) < 0)
            return pawl_fail(error, PAWL_E_FORMAT,
                             "vocab and control are lists of strings, not "
                             "empty, %d in all at most",
                             MAX_PIECES);
    }
    return PAWL_OK;
}

static pawl_status status_by_name(const cJSON *value, pawl_status fallback)
{
    static const struct {
        const char *name;
        pawl_status status;
    } names[] = {{"device", PAWL_E_DEVICE},           {"memory", PAWL_E_MEMORY},
                 {"internal", PAWL_E_INTERNAL},       {"format", PAWL_E_FORMAT},
                 {"unsupported", PAWL_E_UNSUPPORTED}, {"busy", PAWL_E_BUSY}};
    for (size_t i = 0; cJSON_IsString(value) && i < sizeof names / sizeof *names; i++)
        if (strcmp(value->valuestring, names[i].name) == 0)
            return names[i].status;
    return value ? PAWL_E_INTERNAL : fallback;
}

static uint64_t number(const cJSON *object, const char *key, uint64_t fallback)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    bool good = cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble < 1e12;
    return good ? (uint64_t)value->valuedouble : fallback;
}

/* A misspelt key would be a script that silently does something else. */
static pawl_status check_keys(const cJSON *object, const char *known, pawl_error *error)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        char wanted[64];
        snprintf(wanted, sizeof wanted, " %s ", item->string ? item->string : "");
        if (!strstr(known, wanted))
            return pawl_fail(error, PAWL_E_FORMAT, "a script has no key \"%s\"", item->string);
    }
    return PAWL_OK;
}

static bool read_when(const cJSON *when, replay_reply *reply)
{
    int n = cJSON_IsArray(when) ? cJSON_GetArraySize(when) : when ? 1 : 0;
    reply->when = calloc((size_t)n + 1, sizeof *reply->when);
    for (int i = 0; reply->when && i < n; i++) {
        const cJSON *item = cJSON_IsArray(when) ? cJSON_GetArrayItem(when, i) : when;
        if (!cJSON_IsString(item) || !(reply->when[i] = strdup(item->valuestring)))
            return false;
        reply->n_when++;
    }
    return reply->when != NULL;
}

static bool read_tokens(replay_model *model, const cJSON *text, const cJSON *pieces,
                        replay_reply *reply)
{
    size_t n = cJSON_IsArray(pieces) ? (size_t)cJSON_GetArraySize(pieces)
                                     : strlen(cJSON_IsString(text) ? text->valuestring : "");
    reply->tokens = calloc(n + 1, sizeof *reply->tokens);
    if (!reply->tokens || (!cJSON_IsArray(pieces) && !cJSON_IsString(text)))
        return false;
    reply->n_tokens = n;
    if (!cJSON_IsArray(pieces)) {
        for (size_t i = 0; i < n; i++)
            reply->tokens[i] = (unsigned char)text->valuestring[i];
        return true;
    }
    const cJSON *item = pieces->child;
    for (size_t i = 0; i < n; i++, item = item->next) {
        if (cJSON_IsNumber(item) && item->valueint >= 0 && item->valueint < 256)
            reply->tokens[i] = item->valueint;
        else if (!cJSON_IsString(item) ||
                 (reply->tokens[i] =
                      add_piece(model, item->valuestring, strlen(item->valuestring), 0)) < 0)
            return false;
    }
    return true;
}

static pawl_status read_reply(replay_model *model, const cJSON *json, pawl_error *error)
{
    replay_reply *reply = &model->replies[model->n_replies++];
    if (check_keys(json, " when text pieces delay_ms fail_at fail_status end ", error))
        return PAWL_E_FORMAT;
    if (!read_when(cJSON_GetObjectItemCaseSensitive(json, "when"), reply))
        return pawl_fail(error, PAWL_E_FORMAT, "\"when\" is a string or a list of strings");
    if (!read_tokens(model, cJSON_GetObjectItemCaseSensitive(json, "text"),
                     cJSON_GetObjectItemCaseSensitive(json, "pieces"), reply))
        return pawl_fail(error, PAWL_E_FORMAT,
                         "a reply has \"text\", a string, or \"pieces\", a list of strings and "
                         "byte values");
    reply->delay_ms = (uint32_t)number(json, "delay_ms", 0);
    reply->fail_at = number(json, "fail_at", 0);
    reply->fail_status =
        status_by_name(cJSON_GetObjectItemCaseSensitive(json, "fail_status"), PAWL_E_INTERNAL);
    const cJSON *end = cJSON_GetObjectItemCaseSensitive(json, "end");
    const char *name = cJSON_IsString(end) ? end->valuestring : "<|im_end|>";
    reply->end = strcmp(name, "none") == 0 && reply->n_tokens
                     ? -1
                     : add_piece(model, name, strlen(name), PAWL_TOKEN_CONTROL | PAWL_TOKEN_ADDED);
    return PAWL_OK;
}

/* The reply of last resort says what is wrong with the test. */
static pawl_status add_fallback(replay_model *model, pawl_error *error)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "text", "(no reply of this script fits the prompt)");
    pawl_status status = read_reply(model, json, error);
    cJSON_Delete(json);
    return status;
}

static pawl_status read_replies(replay_model *model, const cJSON *json, pawl_error *error)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "replies");
    const cJSON *item;
    int n = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || n > MAX_REPLIES)
        return pawl_fail(error, PAWL_E_FORMAT, "\"replies\" is a list of at most %d replies",
                         MAX_REPLIES);
    model->replies = calloc((size_t)n + 1, sizeof *model->replies);
    if (!model->replies)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    cJSON_ArrayForEach(item, list)
    {
        pawl_status status = read_reply(model, item, error);
        if (status)
            return status;
    }
    return add_fallback(model, error);
}

static pawl_status read_settings(replay_model *model, const cJSON *json, pawl_error *error)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(json, "name");
    const cJSON *template = cJSON_GetObjectItemCaseSensitive(json, "chat_template");
    model->name = strdup(cJSON_IsString(name) ? name->valuestring : "replay");
    model->chat_template =
        strdup(cJSON_IsString(template) ? template->valuestring : default_template);
    model->context = number(json, "context", 4096);
    model->max_sequences = (uint32_t)number(json, "max_sequences", 64);
    model->page_tokens = (uint32_t)number(json, "page_tokens", 16);
    model->pages = number(json, "pages", 0);
    model->state_chunk = (uint32_t)number(json, "state_chunk", 16);
    model->prefill_delay = (uint32_t)number(json, "prefill_delay_ms_per_token", 0);
    model->fail_submit = number(json, "fail_submit", 0);
    model->fail_open = status_by_name(cJSON_GetObjectItemCaseSensitive(json, "fail_open"), 0);
    model->fail_load = status_by_name(cJSON_GetObjectItemCaseSensitive(json, "fail_load"), 0);
    model->fail_save = status_by_name(cJSON_GetObjectItemCaseSensitive(json, "fail_save"), 0);
    if (!model->name || !model->chat_template)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    if (!model->context || !model->page_tokens || !model->state_chunk || !model->max_sequences)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "context, page_tokens, state_chunk and max_sequences are above 0");
    return PAWL_OK;
}

static pawl_status read_model(replay_model *model, const cJSON *json, pawl_error *error)
{
    pawl_status status =
        check_keys(json,
                   " replay name context vocab control replies chat_template max_sequences"
                   " page_tokens pages state_chunk prefill_delay_ms_per_token fail_submit"
                   " fail_open fail_load fail_save ",
                   error);
    if (!status)
        status = read_settings(model, json, error);
    if (status)
        return status;
    model->pieces = calloc(MAX_PIECES, sizeof *model->pieces);
    if (!model->pieces || !add_fixed_pieces(model))
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    status = add_list(model, cJSON_GetObjectItemCaseSensitive(json, "vocab"), 0, error);
    if (!status)
        status = add_list(model, cJSON_GetObjectItemCaseSensitive(json, "control"),
                          PAWL_TOKEN_CONTROL | PAWL_TOKEN_ADDED, error);
    return status ? status : read_replies(model, json, error);
}

pawl_status replay_model_open(pawl_bytes path, replay_model **out, pawl_error *error)
{
    static const char suffix[] = ".replay.json";
    size_t length = sizeof suffix - 1;
    if (path.size < length || memcmp(path.data + path.size - length, suffix, length) != 0)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "not a NAME.replay.json");
    char *text = NULL;
    size_t size = 0;
    pawl_status status = read_file(path, &text, &size, error);
    if (status)
        return status;
    cJSON *json = cJSON_ParseWithLength(text, size);
    replay_model *model = calloc(1, sizeof *model);
    if (!json || !model || number(json, "replay", 0) != 1)
        status = pawl_fail(error, PAWL_E_FORMAT, "not a script: a JSON object with \"replay\": 1");
    else
        status = read_model(model, json, error);
    if (model) {
        model->file_bytes = size;
        model->digest = fnv1a(text, size);
    }
    cJSON_Delete(json);
    free(text);
    if (status)
        replay_model_close(model);
    else
        *out = model;
    return status;
}

void replay_model_close(replay_model *model)
{
    if (!model)
        return;
    for (size_t i = 0; i < model->n_pieces; i++)
        free(model->pieces[i].text);
    for (size_t i = 0; i < model->n_replies; i++) {
        for (size_t k = 0; k < model->replies[i].n_when; k++)
            free(model->replies[i].when[k]);
        free(model->replies[i].when);
        free(model->replies[i].tokens);
    }
    free(model->pieces);
    free(model->replies);
    free(model->name);
    free(model->chat_template);
    free(model);
}
