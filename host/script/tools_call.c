/*
 * script/tools_call.c - one call of a tool that the host offers. See tools.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/tools.h"

#include "base/utf8.h"
#include "script/child.h"
#include "script/http.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOOL_FILE_BYTES (64ull << 20) /* of a file that a command writes */
#define STATUS_TRY_AGAIN 75           /* EX_TEMPFAIL of sysexits.h       */
#define MAX_QUOTED 160                /* bytes of a reply in a message   */

/* ------------------------------------------------------------- results */

/* Text for a script: UTF-8 without NUL, and without the newline at its end. */
static bool check_text(buf *out, failure *why)
{
    if (utf8_valid_prefix(out->data, out->size) != out->size ||
        (out->size && memchr(out->data, 0, out->size)))
        return failure_set(why, "encoding", false, "what the tool gave is no UTF-8 text");
    while (out->size && (out->data[out->size - 1] == '\n' || out->data[out->size - 1] == '\r'))
        out->data[--out->size] = '\0';
    return true;
}

static bool is_json(const buf *out)
{
    cJSON *value = NULL;
    bool json = json_parse(buf_text(out), out->size, &value, NULL) == PAWL_OK;
    cJSON_Delete(value);
    return json;
}

/* ------------------------------------------------------------- commands */

static bool explain_end(const child_result *result, failure *why)
{
    switch (result->end) {
    case CHILD_TIMEOUT:
        return failure_set(why, "timeout", true, "the tool: %s", result->why);
    case CHILD_TOO_LARGE:
        return failure_set(why, "too_large", false, "the tool: %s", result->why);
    case CHILD_STOPPED:
        return failure_set(why, "cancelled", false, "it was cancelled");
    case CHILD_KILLED:
        return failure_set(why, "killed", false, "the tool: %s", result->why);
    case CHILD_ABSENT:
    case CHILD_NOT_STARTED:
        return failure_set(why, "not_started", true, "the tool could not be started: %s",
                           result->why);
    default:
        return failure_set(why, "tool", result->status == STATUS_TRY_AGAIN, "%s", result->why);
    }
}

static bool call_command(const tool *t, const char *arguments, int64_t timeout_ms, int stop_fd,
                         buf *out, bool *json, failure *why)
{
    child_result result;
    child_spec spec = {.argv = (const char *const *)t->command.list,
                       .env = (const char *const *)t->environment.list,
                       .in = child_input(arguments, strlen(arguments)),
                       .stop_fd = stop_fd,
                       .limits = {.wall_ms = timeout_ms,
                                  .cpu_s = (uint64_t)timeout_ms / 1000 + 1,
                                  .memory = t->memory,
                                  .file_bytes = TOOL_FILE_BYTES,
                                  .files = 256,
                                  .processes = t->processes,
                                  .output = t->max_bytes,
                                  .network = t->network}};
    if (spec.in < 0)
        return failure_set(why, "busy", true, "no memory for the arguments");
    child_run(&spec, &result);
    close(spec.in);
    bool good = result.end == CHILD_DONE || explain_end(&result, why);
    if (good) {
        *out = result.output;
        buf_init(&result.output, 0);
        *json = is_json(out);
        good = *json || check_text(out, why);
    }
    child_result_clear(&result);
    return good;
}

/* ------------------------------------------------------------- requests */

/* The URL with the arguments in its query; to be free()d. */
static char *url_with(const char *url, const cJSON *arguments)
{
    const cJSON *member;
    char *made = strdup(url);
    cJSON_ArrayForEach(member, arguments)
    {
        char *text = cJSON_IsString(member) ? strdup(member->valuestring) : json_print(member);
        char *more = made && text ? http_add_query(made, member->string, text) : NULL;
        free(text);
        free(made);
        made = more;
    }
    return made;
}

static bool judge_reply(const http_reply *reply, failure *why)
{
    char quoted[MAX_QUOTED + 1] = "";
    int status = reply->status;
    if (status >= 200 && status < 300)
        return true;
    size_t size = strcspn(buf_text(&reply->body), "\r\n");
    snprintf(quoted, sizeof quoted, "%.*s", (int)(size < MAX_QUOTED ? size : MAX_QUOTED),
             buf_text(&reply->body));
    quoted[utf8_valid_prefix(quoted, strlen(quoted))] = '\0';
    bool again = status == 408 || status == 425 || status == 429 || status >= 500;
    return failure_set(why, "http", again, "status %d%s%s", status, *quoted ? ": " : "", quoted);
}

static bool call_http(const tools *all, const tool *t, const char *arguments, int64_t timeout_ms,
                      int stop_fd, buf *out, bool *json, failure *why)
{
    cJSON *values = NULL;
    bool query = strcmp(t->method, "GET") == 0;
    http_reply reply = {.status = 0};
    json_parse(arguments, strlen(arguments), &values, NULL);
    char *url = query ? url_with(t->url, values) : strdup(t->url);
    http_request request = {.url = url,
                            .method = t->method,
                            .headers = t->headers.list,
                            .n_headers = t->headers.n,
                            .body = query ? NULL : arguments,
                            .origins = (const char *const *)all->redirects.list,
                            .n_origins = all->redirects.n,
                            .private_addresses = t->private_addresses,
                            .timeout_ms = timeout_ms,
                            .stop_fd = stop_fd};
    buf_init(&reply.body, t->max_bytes);
    bool good = url || failure_set(why, "busy", true, "no memory for a request");
    good = good && http_call(&request, &reply, why) && judge_reply(&reply, why);
    if (good) {
        *out = reply.body;
        *json = reply.json && is_json(out);
        good = *json || check_text(out, why);
    } else {
        buf_clear(&reply.body);
    }
    cJSON_Delete(values);
    free(url);
    return good;
}

bool tools_call(const tools *t, const tool *which, const char *arguments, int64_t timeout_ms,
                int stop_fd, buf *out, bool *json, failure *why)
{
    int64_t most_ms =
        timeout_ms > 0 && timeout_ms < which->timeout_ms ? timeout_ms : which->timeout_ms;
    return which->url ? call_http(t, which, arguments, most_ms, stop_fd, out, json, why)
                      : call_command(which, arguments, most_ms, stop_fd, out, json, why);
}
