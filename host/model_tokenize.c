/*
 * host/model_tokenize.c - `pawl model tokenize`: text to ids and back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model_lines.h"

#include "base/utf8.h"
#include "run/model.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES (1u << 30)

typedef struct vocabulary {
    const pawl_tokenizer_api *api;
    pawl_tokenizer *tokenizer;
} vocabulary;

static pawl_status encode_line(void *context, const cJSON *line, cJSON **result, pawl_error *error)
{
    const vocabulary *v = context;
    const char *text = json_get_text(line, "text");
    int32_t *ids = NULL;
    uint64_t n = 0;
    buf bytes;
    if (!text)
        return pawl_fail(error, PAWL_E_ARGUMENT, "text: a string is wanted");
    buf_init(&bytes, MAX_TEXT_BYTES);
    json_add_with_nuls(&bytes, text);
    bool special = json_get_bool(line, "parse_special", false);
    pawl_segment segment = {buf_bytes(&bytes),
                            special ? PAWL_SEGMENT_CONTROL : PAWL_SEGMENT_LITERAL};
    pawl_status status = run_encode(v->api, v->tokenizer, &segment, 1, &ids, &n, error);
    buf_clear(&bytes);
    if (status)
        return status;
    *result = cJSON_CreateObject();
    cJSON_AddItemToObject(*result, "ids", model_ids_json(ids, n));
    free(ids);
    return PAWL_OK;
}

/* A JSON string of the bytes, NULs included. */
static cJSON *string_json(const buf *text)
{
    buf quoted;
    buf_init(&quoted, MAX_TEXT_BYTES);
    json_add_quoted(&quoted, buf_bytes(text));
    cJSON *string = cJSON_CreateRaw(buf_text(&quoted));
    buf_clear(&quoted);
    return string;
}

/* What a reader sees as the tokens come, one by one. */
static void add_stream(cJSON *result, const vocabulary *v, const int32_t *ids, uint64_t n)
{
    utf8_tail tail = {{0}, 0};
    buf text;
    buf_init(&text, MAX_TEXT_BYTES);
    cJSON *stream = cJSON_AddArrayToObject(result, "stream");
    for (uint64_t i = 0; i < n; i++) {
        pawl_bytes piece = v->api->piece(v->tokenizer, ids[i]);
        buf_reset(&text);
        utf8_feed(&tail, piece.data, (size_t)piece.size, &text);
        cJSON_AddItemToArray(stream, string_json(&text));
    }
    buf_reset(&text);
    utf8_finish(&tail, &text);
    cJSON_AddItemToObject(result, "flush", string_json(&text));
    buf_clear(&text);
}

static void add_text(cJSON *result, const buf *bytes)
{
    utf8_tail tail = {{0}, 0};
    buf text, hex;
    buf_init(&text, MAX_TEXT_BYTES);
    buf_init(&hex, MAX_TEXT_BYTES);
    utf8_feed(&tail, buf_text(bytes), bytes->size, &text);
    utf8_finish(&tail, &text);
    for (size_t i = 0; i < bytes->size; i++)
        buf_printf(&hex, "%02x", (unsigned char)bytes->data[i]);
    cJSON_AddItemToObject(result, "text", string_json(&text));
    cJSON_AddStringToObject(result, "bytes_hex", buf_text(&hex));
    buf_clear(&text);
    buf_clear(&hex);
}

static pawl_status decode_line(void *context, const cJSON *line, cJSON **result, pawl_error *error)
{
    const vocabulary *v = context;
    int32_t *ids = NULL;
    uint64_t n = 0;
    buf bytes;
    pawl_status status = model_ids(line, "ids", &ids, &n, error);
    if (status)
        return status;
    buf_init(&bytes, MAX_TEXT_BYTES);
    for (uint64_t i = 0; i < n; i++) {
        pawl_bytes piece = v->api->piece(v->tokenizer, ids[i]);
        buf_add(&bytes, piece.data, (size_t)piece.size);
    }
    *result = cJSON_CreateObject();
    add_text(*result, &bytes);
    add_stream(*result, v, ids, n);
    buf_clear(&bytes);
    free(ids);
    return PAWL_OK;
}

int model_tokenize(const model_options *options)
{
    vocabulary v = {0};
    const registry_plugin *plugin;
    pawl_error error = {.struct_size = sizeof error};
    if (run_tokenizer_open(options->plugins, options->path, &v.api, &v.tokenizer, &plugin,
                           &error) != PAWL_OK) {
        fprintf(stderr, "pawl model tokenize: %s\n", error.message);
        return 1;
    }
    int status = model_lines(options->decode ? decode_line : encode_line, &v);
    v.api->close(v.tokenizer);
    return status;
}
