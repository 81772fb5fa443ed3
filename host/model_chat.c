/*
 * host/model_chat.c - `pawl model render` and `parse`: a chat dialect on its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model_lines.h"

#include "run/model.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES (256u << 20)

typedef struct dialect {
    const pawl_chat_api *api;
    pawl_chat *chat;
    const pawl_tokenizer_api *tokenizer_api; /* NULL: no model was given */
    pawl_tokenizer *tokenizer;
} dialect;

/* The template and family that the model's engine tells of. */
static pawl_status open_for_model(const model_options *options, dialect *d, pawl_error *error)
{
    char *json = NULL;
    cJSON *info = NULL;
    const registry_plugin *plugin;
    pawl_status status = run_model_inspect(options->plugins, options->path, &json, error);
    if (!status)
        status = json_parse(json, strlen(json), &info, error);
    if (!status)
        status =
            run_chat_open(options->plugins, options->format, json_get_text(info, "chat_template"),
                          json_get_text(info, "family"), &d->api, &d->chat, &plugin, error);
    if (!status)
        status = run_tokenizer_open(options->plugins, options->path, &d->tokenizer_api,
                                    &d->tokenizer, &plugin, error);
    cJSON_Delete(info);
    free(json);
    return status;
}

static pawl_status open_dialect(const model_options *options, dialect *d, pawl_error *error)
{
    const registry_plugin *plugin;
    if (options->path)
        return open_for_model(options, d, error);
    if (!options->format)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a model path or --format NAME is wanted");
    return run_chat_open(options->plugins, options->format, NULL, NULL, &d->api, &d->chat, &plugin,
                         error);
}

static void close_dialect(dialect *d)
{
    if (d->chat)
        d->api->close(d->chat);
    if (d->tokenizer)
        d->tokenizer_api->close(d->tokenizer);
}

static int64_t code_points(const char *text)
{
    int64_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* "prompt" and "special_ranges" (code point offsets) from the parts. */
static void add_prompt(cJSON *result, const cJSON *parts)
{
    buf prompt;
    int64_t at = 0;
    const cJSON *part;
    buf_init(&prompt, MAX_TEXT_BYTES);
    cJSON *ranges = cJSON_CreateArray();
    cJSON_ArrayForEach(part, parts)
    {
        const char *text = json_get_text(part, "text");
        int64_t end = at + code_points(text ? text : "");
        buf_add_text(&prompt, text ? text : "");
        if (json_get_bool(part, "special", false)) {
            cJSON *range = cJSON_CreateArray();
            cJSON_AddItemToArray(range, cJSON_CreateNumber((double)at));
            cJSON_AddItemToArray(range, cJSON_CreateNumber((double)end));
            cJSON_AddItemToArray(ranges, range);
        }
        at = end;
    }
    cJSON_AddStringToObject(result, "prompt", buf_text(&prompt));
    cJSON_AddItemToObject(result, "special_ranges", ranges);
    buf_clear(&prompt);
}

static pawl_status add_ids(cJSON *result, const dialect *d, const cJSON *parts, pawl_error *error)
{
    size_t n = 0;
    const cJSON *part;
    int32_t *ids = NULL;
    uint64_t n_ids = 0;
    pawl_segment *segments = calloc((size_t)cJSON_GetArraySize(parts) + 1, sizeof *segments);
    if (!segments)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the prompt");
    cJSON_ArrayForEach(part, parts)
    {
        const char *text = json_get_text(part, "text");
        segments[n++] = (pawl_segment){
            json_text(text ? text : ""),
            json_get_bool(part, "special", false) ? PAWL_SEGMENT_CONTROL : PAWL_SEGMENT_LITERAL};
    }
    pawl_status status =
        run_encode(d->tokenizer_api, d->tokenizer, segments, n, &ids, &n_ids, error);
    if (!status)
        cJSON_AddItemToObject(result, "ids", model_ids_json(ids, n_ids));
    free(ids);
    free(segments);
    return status;
}

static pawl_status render_line(void *context, const cJSON *line, cJSON **result, pawl_error *error)
{
    const dialect *d = context;
    cJSON *rendered = NULL;
    buf out;
    buf_init(&out, MAX_TEXT_BYTES);
    pawl_sink sink = buf_sink(&out);
    char *request = json_print(line);
    pawl_status status = request ? d->api->render(d->chat, json_text(request), &sink, error)
                                 : pawl_fail(error, PAWL_E_MEMORY, "no memory for the request");
    if (!status)
        status = json_parse(buf_text(&out), out.size, &rendered, error);
    if (!status) {
        *result = cJSON_CreateObject();
        add_prompt(*result, json_get(rendered, "parts"));
        if (d->tokenizer)
            status = add_ids(*result, d, json_get(rendered, "parts"), error);
        if (status) {
            cJSON_Delete(*result);
            *result = NULL;
        }
    }
    cJSON_Delete(rendered);
    free(request);
    buf_clear(&out);
    return status;
}

/* A reply as it is put together from the parser's events. */
typedef struct reply {
    buf reasoning;
    buf content;
    cJSON *calls;  /* array of {"name","arguments"} */
    buf arguments; /* of the call that is open       */
    char *name;    /* of the call that is open       */
    bool any_reasoning;
} reply;

static void end_call(reply *r)
{
    if (!r->name)
        return;
    cJSON *call = cJSON_CreateObject();
    cJSON_AddStringToObject(call, "name", r->name);
    cJSON_AddStringToObject(call, "arguments", buf_text(&r->arguments));
    cJSON_AddItemToArray(r->calls, call);
    free(r->name);
    r->name = NULL;
    buf_reset(&r->arguments);
}

static void on_event(void *arg, const pawl_chat_event *event)
{
    reply *r = arg;
    const char *text = event->text.data;
    size_t size = (size_t)event->text.size;
    switch (event->type) {
    case PAWL_CHAT_REASONING:
        r->any_reasoning = true;
        buf_add(&r->reasoning, text, size);
        break;
    case PAWL_CHAT_CALL_BEGIN:
        end_call(r);
        r->name = strndup(text, size);
        break;
    case PAWL_CHAT_CALL_DELTA:
        buf_add(&r->arguments, text, size);
        break;
    case PAWL_CHAT_CALL_END:
        end_call(r);
        break;
    case PAWL_CHAT_CALL_BAD:
        if (r->name) /* begun and cut: what there is of it, as the reference shows it */
            end_call(r);
        else
            buf_add(&r->content, text, size);
        break;
    case PAWL_CHAT_TEXT:
        buf_add(&r->content, text, size);
        break;
    default:
        break;
    }
}

static pawl_status feed_line(const dialect *d, pawl_parser *parser, const cJSON *line, reply *r,
                             pawl_error *error)
{
    const cJSON *chunks = json_get(line, "chunks"), *chunk;
    const char *output = json_get_text(line, "output");
    pawl_status status = PAWL_OK;
    if (!cJSON_IsArray(chunks) && !output)
        return pawl_fail(error, PAWL_E_ARGUMENT, "output or chunks: the reply is wanted");
    if (cJSON_IsArray(chunks))
        cJSON_ArrayForEach(chunk, chunks)
        {
            const char *text = cJSON_GetStringValue(chunk);
            pawl_segment piece = {json_text(text ? text : ""), PAWL_SEGMENT_LITERAL};
            if (!status)
                status = d->api->feed(parser, piece, on_event, r, error);
        }
    else
        status = d->api->feed(parser, (pawl_segment){json_text(output), PAWL_SEGMENT_LITERAL},
                              on_event, r, error);
    return status ? status : d->api->finish(parser, on_event, r, error);
}

static cJSON *reply_json(reply *r, const cJSON *line)
{
    cJSON *result = cJSON_CreateObject();
    const char *reason = json_get_text(line, "finish_reason");
    int n_calls = cJSON_GetArraySize(r->calls);
    if (r->any_reasoning)
        cJSON_AddStringToObject(result, "reasoning", buf_text(&r->reasoning));
    else
        cJSON_AddNullToObject(result, "reasoning");
    cJSON_AddStringToObject(result, "content", buf_text(&r->content));
    cJSON_AddItemToObject(result, "tool_calls", r->calls);
    r->calls = NULL;
    if (n_calls && (!reason || strcmp(reason, "stop") == 0))
        reason = "tool_calls";
    cJSON_AddStringToObject(result, "finish_reason", reason ? reason : "stop");
    return result;
}

static pawl_status parse_line(void *context, const cJSON *line, cJSON **result, pawl_error *error)
{
    const dialect *d = context;
    pawl_parser *parser = NULL;
    reply r = {.calls = cJSON_CreateArray()};
    buf_init(&r.reasoning, MAX_TEXT_BYTES);
    buf_init(&r.content, MAX_TEXT_BYTES);
    buf_init(&r.arguments, MAX_TEXT_BYTES);
    char *request = json_print(line);
    pawl_status status = request ? d->api->parser_open(d->chat, json_text(request), &parser, error)
                                 : pawl_fail(error, PAWL_E_MEMORY, "no memory for the request");
    if (!status)
        status = feed_line(d, parser, line, &r, error);
    end_call(&r);
    if (!status)
        *result = reply_json(&r, line);
    if (parser)
        d->api->parser_close(parser);
    cJSON_Delete(r.calls);
    buf_clear(&r.reasoning);
    buf_clear(&r.content);
    buf_clear(&r.arguments);
    free(request);
    return status;
}

static int with_dialect(const model_options *options, const char *command, model_answer answer)
{
    dialect d = {0};
    pawl_error error = {.struct_size = sizeof error};
    if (open_dialect(options, &d, &error) != PAWL_OK) {
        fprintf(stderr, "pawl model %s: %s\n", command, error.message);
        close_dialect(&d);
        return 1;
    }
    int status = model_lines(answer, &d);
    close_dialect(&d);
    return status;
}

int model_render(const model_options *options)
{
    return with_dialect(options, "render", render_line);
}

int model_parse(const model_options *options)
{
    return with_dialect(options, "parse", parse_line);
}
