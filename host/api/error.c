/*
 * api/error.c - errors as HTTP bodies and as socket frames. See error.h, api.h.
 *
 *   body   {"error":{"message","type","param","code"}}                all four, always
 *   frame  {"type":"error","status":400,"error":{…},"stream_id"?}
 *
 * Messages may carry a piece of what the client sent, cut anywhere: broken UTF-8 is
 * mended when the text is written. Owns nothing; [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/error.h"

#include <stdio.h>
#include <string.h>

/* Seconds after which a busy server is worth asking again; a queued turn takes
 * seconds, a restart a few more. */
#define RETRY_BUSY 2
#define RETRY_STOPPING 5

#define MAX_ERROR_BYTES 65536

static const char *type_of(int status)
{
    if (status == 429)
        return "rate_limit_error";
    return status >= 500 ? "server_error" : "invalid_request_error";
}

static void add_member(buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":", name);
    if (text)
        json_add_quoted(out, json_text(text));
    else
        buf_add_text(out, "null");
}

static void add_error(buf *out, const char *type, const char *code, const char *param,
                      const char *message)
{
    buf_add_text(out, "{");
    add_member(out, "message", message ? message : "The request failed.");
    buf_add_text(out, ",");
    add_member(out, "type", type ? type : "server_error");
    buf_add_text(out, ",");
    add_member(out, "param", param && *param ? param : NULL);
    buf_add_text(out, ",");
    add_member(out, "code", code);
    buf_add_text(out, "}");
}

bool api_refuse(api_error *error, int status, const char *code, const char *param,
                const char *format, ...)
{
    va_list args;
    memset(error, 0, sizeof *error);
    error->status = status;
    error->retry_after = status == 503 || status == 429 ? RETRY_BUSY : 0;
    error->type = type_of(status);
    error->code = code;
    if (param)
        snprintf(error->param, sizeof error->param, "%s", param);
    va_start(args, format);
    vsnprintf(error->message, sizeof error->message, format, args);
    va_end(args);
    return false;
}

bool api_refuse_memory(api_error *error)
{
    return api_refuse(error, 500, "server_error", NULL,
                      "The server has no memory for this request.");
}

bool api_refuse_expired(api_error *error, const char *id)
{
    return api_refuse(error, 409, "cursor_expired", "starting_after",
                      "The events of response '%.100s' that were asked for are not kept. GET "
                      "/v1/responses/%.100s without 'stream' gives what there is of the response.",
                      id, id);
}

/* Too many tokens: which numbers, and what can be done about it in this dialect. */
static void refuse_length(api_error *error, const char *message, const char *input)
{
    bool may_drop = strcmp(input, "input") == 0;
    api_refuse(error, 400, "context_length_exceeded", input, "%s Shorten '%s'%s.", message, input,
               may_drop ? ", or send \"truncation\": \"auto\"" : "");
}

void api_refuse_run(api_error *error, const run_refusal *refusal, const char *input)
{
    const char *param = strcmp(refusal->param, "input") == 0 ? input : refusal->param;
    const char *message = refusal->message;
    switch (refusal->reason) {
    case RUN_REFUSED_INPUT:
        api_refuse(error, 400, "invalid_value", param, "%s", message);
        return;
    case RUN_REFUSED_TOO_LONG:
        refuse_length(error, message, input);
        return;
    case RUN_REFUSED_UNSUPPORTED:
        api_refuse(error, 400, "unsupported_value", param, "%s", message);
        return;
    case RUN_REFUSED_NOT_FOUND:
        if (strcmp(param, "previous_response_id") == 0)
            api_refuse(error, 400, "previous_response_not_found", param, "%s", message);
        else
            api_refuse(error, 404, "not_found", param, "%s", message);
        return;
    case RUN_REFUSED_BUSY:
    case RUN_REFUSED_KEY_BUSY:
        if (refusal->reason == RUN_REFUSED_KEY_BUSY)
            api_refuse(error, 429, "rate_limit_exceeded", NULL, "%s", message);
        else
            api_refuse(error, 503, "server_is_overloaded", NULL, "%s", message);
        if (refusal->retry_after > 0)
            error->retry_after = refusal->retry_after;
        return;
    case RUN_REFUSED_STOPPING:
        api_refuse(error, 503, "server_is_overloaded", NULL, "%s", message);
        error->retry_after = RETRY_STOPPING;
        return;
    case RUN_REFUSED_INTERNAL:
        break;
    }
    api_refuse(error, 500, "server_error", NULL, "%s", message);
}

char *api_error_text(const api_error *error)
{
    return api_error_body(error->type, error->code, error->param, error->message);
}

char *api_error_frame_text(const api_error *error, const char *lane)
{
    return api_error_frame(error->status, error->type, error->code, error->param, error->message,
                           lane);
}

char *api_error_body(const char *type, const char *code, const char *param, const char *message)
{
    buf out;
    buf_init(&out, MAX_ERROR_BYTES);
    buf_add_text(&out, "{\"error\":");
    add_error(&out, type, code, param, message);
    buf_add_text(&out, "}");
    return buf_take(&out);
}

char *api_error_frame(int status, const char *type, const char *code, const char *param,
                      const char *message, const char *lane)
{
    buf out;
    buf_init(&out, MAX_ERROR_BYTES);
    buf_printf(&out, "{\"type\":\"error\",\"status\":%d,\"error\":", status);
    add_error(&out, type, code, param, message);
    if (lane) {
        buf_add_text(&out, ",");
        add_member(&out, "stream_id", lane);
    }
    buf_add_text(&out, "}");
    return buf_take(&out);
}

void api_path(char path[API_PARAM_SIZE], const char *prefix, const char *name)
{
    snprintf(path, API_PARAM_SIZE, "%.100s%s%.50s", prefix, *prefix ? "." : "", name);
}

void api_path_at(char path[API_PARAM_SIZE], const char *prefix, size_t i)
{
    snprintf(path, API_PARAM_SIZE, "%.120s[%zu]", prefix, i);
}
