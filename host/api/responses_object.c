/*
 * api/responses_object.c - the Response object, written as text. See the header.
 *
 * Sources of its keys:
 *   id, status, created_at, completed_at    the view
 *   output                                  the view
 *   error, incomplete_details, usage        the result, by status
 *   all others                              the echo, or what stands in `echoed` below
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/responses_object.h"

#include <inttypes.h>
#include <string.h>

#include "api/fields.h"

/* The keys that come from the echo, and what they are where it lacks them. */
static const struct {
    const char *name;
    const char *fallback;
} echoed[] = {
    {"background", "false"},
    {"conversation", "null"},
    {"instructions", "null"},
    {"max_output_tokens", "null"},
    {"max_tool_calls", "null"},
    {"metadata", "{}"},
    {"model", "\"\""},
    {"parallel_tool_calls", "true"},
    {"previous_response_id", "null"},
    {"prompt_cache_key", "null"},
    {"reasoning", "{\"effort\":null,\"summary\":null}"},
    {"safety_identifier", "null"},
    {"service_tier", "\"default\""},
    {"store", "true"},
    {"temperature", "1"},
    {"text", "{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"}"},
    {"tool_choice", "\"auto\""},
    {"tools", "[]"},
    {"top_logprobs", "0"},
    {"top_p", "1"},
    {"truncation", "\"disabled\""},
    {"user", "null"},
};

static bool status_is(const responses_view *view, const char *status)
{
    return strcmp(view->status, status) == 0;
}

/* A count out of the stored usage, whether it stands in the details or beside them. */
static double stored_count(const cJSON *usage, const char *details, const char *name)
{
    double count = json_get_number(usage, name, 0);
    count = json_get_number(json_get(usage, details), name, count);
    return count >= 0 && count < FIELD_MAX_INTEGER ? count : 0;
}

static void add_usage(buf *out, const responses_view *view)
{
    const cJSON *stored = json_get(view->result, "usage");
    run_usage usage = {0, 0, 0, 0};
    if (stored) {
        usage.input_tokens = (uint64_t)stored_count(stored, "", "input_tokens");
        usage.output_tokens = (uint64_t)stored_count(stored, "", "output_tokens");
        usage.cached_tokens =
            (uint64_t)stored_count(stored, "input_tokens_details", "cached_tokens");
        usage.reasoning_tokens =
            (uint64_t)stored_count(stored, "output_tokens_details", "reasoning_tokens");
    } else if (view->usage) {
        usage = *view->usage;
    } else {
        buf_add_text(out, "null");
        return;
    }
    buf_printf(out,
               "{\"input_tokens\":%" PRIu64 ",\"input_tokens_details\":{\"cached_tokens\":%" PRIu64
               ",\"cache_write_tokens\":0},\"output_tokens\":%" PRIu64
               ",\"output_tokens_details\":{\"reasoning_tokens\":%" PRIu64
               "},\"total_tokens\":%" PRIu64 "}",
               usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens,
               usage.input_tokens + usage.output_tokens);
}

static void add_failure(buf *out, const responses_view *view)
{
    const cJSON *error = json_get(view->result, "error");
    const char *code = json_get_text(error, "code");
    const char *message = json_get_text(error, "message");
    if (!status_is(view, "failed")) {
        buf_add_text(out, "null");
        return;
    }
    buf_add_text(out, "{\"code\":");
    json_add_quoted(out, json_text(code ? code : "server_error"));
    buf_add_text(out, ",\"message\":");
    json_add_quoted(out, json_text(message ? message : "The engine failed."));
    buf_add_text(out, "}");
}

static void add_incomplete(buf *out, const responses_view *view)
{
    const char *reason = json_get_text(json_get(view->result, "incomplete_details"), "reason");
    if (!status_is(view, "incomplete")) {
        buf_add_text(out, "null");
        return;
    }
    buf_add_text(out, "{\"reason\":");
    json_add_quoted(out, json_text(reason ? reason : "max_output_tokens"));
    buf_add_text(out, "}");
}

bool responses_object_add(buf *out, const responses_view *view)
{
    buf_add_text(out, "{\"id\":");
    json_add_quoted(out, json_text(view->id));
    buf_printf(out, ",\"object\":\"response\",\"created_at\":%" PRId64 ",\"completed_at\":",
               view->created_ms / 1000);
    if (status_is(view, "completed"))
        buf_printf(out, "%" PRId64, view->completed_ms / 1000);
    else
        buf_add_text(out, "null");
    buf_printf(out, ",\"status\":\"%s\",\"error\":", view->status);
    add_failure(out, view);
    buf_add_text(out, ",\"incomplete_details\":");
    add_incomplete(out, view);
    for (size_t i = 0; i < sizeof echoed / sizeof echoed[0]; i++) {
        const cJSON *value = json_get(view->echo, echoed[i].name);
        buf_printf(out, ",\"%s\":", echoed[i].name);
        if (value)
            json_add(out, value);
        else
            buf_add_text(out, echoed[i].fallback);
    }
    buf_add_text(out, ",\"output\":");
    if (view->output)
        json_add(out, view->output);
    else
        buf_add_text(out, "[]");
    buf_add_text(out, ",\"usage\":");
    add_usage(out, view);
    buf_add_text(out, "}");
    return !out->failed;
}

bool responses_record_add(buf *out, const run_record *record)
{
    cJSON *echo = NULL;
    cJSON *output = NULL;
    cJSON *result = NULL;
    cJSON *each;
    static const run_usage nothing = {0, 0, 0, 0};
    bool ok = json_parse(record->request, strlen(record->request), &echo, NULL) == PAWL_OK &&
              json_parse(record->output, strlen(record->output), &output, NULL) == PAWL_OK &&
              json_parse(record->result, strlen(record->result), &result, NULL) == PAWL_OK;
    cJSON_ArrayForEach(each, output)
    {
        ok = ok && responses_item_complete(each);
    }
    responses_view view = {.id = record->id,
                           .status = record->status,
                           .created_ms = record->created_ms,
                           .completed_ms = record->completed_ms,
                           .echo = echo,
                           .output = output,
                           .result = result,
                           .usage = &nothing};
    ok = ok && responses_object_add(out, &view);
    cJSON_Delete(echo);
    cJSON_Delete(output);
    cJSON_Delete(result);
    return ok;
}

/* Adds the member where it is absent. */
static bool default_text(cJSON *object, const char *name, const char *text)
{
    return cJSON_GetObjectItemCaseSensitive(object, name) ||
           cJSON_AddStringToObject(object, name, text);
}

static bool default_array(cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name) || cJSON_AddArrayToObject(object, name);
}

static bool message_complete(cJSON *item)
{
    cJSON *part;
    if (!default_text(item, "role", "assistant") || !default_array(item, "content"))
        return false;
    cJSON_ArrayForEach(part, cJSON_GetObjectItemCaseSensitive(item, "content"))
    {
        const char *type = json_get_text(part, "type");
        if (type && strcmp(type, "output_text") == 0 &&
            (!default_array(part, "annotations") || !default_array(part, "logprobs")))
            return false;
    }
    return true;
}

bool responses_item_complete(cJSON *item)
{
    const char *type = json_get_text(item, "type");
    if (!type || !default_text(item, "status", "completed"))
        return !type;
    if (strcmp(type, "message") == 0)
        return message_complete(item);
    if (strcmp(type, "reasoning") == 0)
        return default_array(item, "summary") && default_array(item, "content");
    return true;
}
