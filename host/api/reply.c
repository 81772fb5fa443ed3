/*
 * api/reply.c - the answer to a Chat Completions or Completions request. See reply.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- writing -- */

/* {"id","object","created","model","system_fingerprint" */
static void add_head(const reply *r, const char *object, buf *out)
{
    buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", r->id,
               object, r->created);
    json_add_quoted(out, json_text(r->model));
    buf_add_text(out, ",\"system_fingerprint\":\"pawl-" PAWL_VERSION "\"");
}

static void add_usage(const reply *r, buf *out)
{
    const run_usage *u = &r->usage;
    buf_printf(out,
               ",\"usage\":{\"prompt_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu64
               ",\"total_tokens\":%" PRIu64 ",\"prompt_tokens_details\":{\"cached_tokens\":%" PRIu64
               "},\"completion_tokens_details\":{\"reasoning_tokens\":%" PRIu64 "}}",
               u->input_tokens, u->output_tokens, u->input_tokens + u->output_tokens,
               u->cached_tokens, u->reasoning_tokens);
}

/* ------------------------------------------------------------------ streaming -- */

/* Where chunks go. */
typedef struct sender {
    reply *reply;
    api_emit emit;
    void *arg;
} sender;

static void fail(reply *r, const char *message)
{
    if (!r->failed)
        api_refuse(&r->error, 500, "server_error", NULL, "%s", message);
    r->failed = true;
}

static void send_error(const sender *to)
{
    char *text = api_error_text(&to->reply->error);
    if (text)
        to->emit(to->arg, NULL, text, strlen(text));
    free(text);
}

static void send_text(const sender *to)
{
    reply *r = to->reply;
    if (r->failed)
        return;
    if (!r->text.failed) {
        to->emit(to->arg, NULL, r->text.data, r->text.size);
        return;
    }
    fail(r, "The server had no memory for a chunk of this reply.");
    send_error(to);
}

/* The choice's {"index":…, to which the dialect adds. */
static buf *begin_chunk(const sender *to, const reply_choice *choice)
{
    reply *r = to->reply;
    buf_reset(&r->text);
    add_head(r, r->dialect->chunk, &r->text);
    buf_printf(&r->text, ",\"choices\":[{\"index\":%d", (int)(choice - r->choices));
    return &r->text;
}

static void end_chunk(const sender *to)
{
    reply *r = to->reply;
    buf_add_text(&r->text, "}]");
    buf_add_text(&r->text, r->include_usage ? ",\"usage\":null}" : "}");
    send_text(to);
}

static void send_begin(const sender *to, reply_choice *choice)
{
    if (choice->begun)
        return;
    choice->begun = true;
    to->reply->dialect->begin(to->reply, choice, begin_chunk(to, choice));
    end_chunk(to);
}

static void send_delta(const sender *to, reply_choice *choice, const run_event *event)
{
    send_begin(to, choice);
    if (to->reply->dialect->delta(to->reply, choice, event, begin_chunk(to, choice)))
        end_chunk(to);
}

static void send_finish(const sender *to, reply_choice *choice)
{
    send_begin(to, choice);
    to->reply->dialect->finish(to->reply, choice, begin_chunk(to, choice));
    end_chunk(to);
}

static void send_last(const sender *to)
{
    reply *r = to->reply;
    if (r->include_usage) {
        buf_reset(&r->text);
        add_head(r, r->dialect->chunk, &r->text);
        buf_add_text(&r->text, ",\"choices\":[]");
        add_usage(r, &r->text);
        buf_add_text(&r->text, "}");
        send_text(to);
    }
    if (!r->failed)
        to->emit(to->arg, NULL, "[DONE]", 6);
}

/* --------------------------------------------------------------------- events -- */

static void add_to_usage(run_usage *sum, const run_event *event)
{
    if (event->choice == 0) {
        sum->input_tokens = event->usage.input_tokens;
        sum->cached_tokens = event->usage.cached_tokens;
    }
    sum->output_tokens += event->usage.output_tokens;
    sum->reasoning_tokens += event->usage.reasoning_tokens;
}

/* A turn that did not end well: what the client is told. */
static void fail_turn(reply *r, const run_event *event)
{
    cJSON *result = NULL;
    const run_record *record = event->record;
    if (r->failed)
        return;
    if (event->stop_reason && strcmp(event->stop_reason, "cancelled") == 0) {
        api_refuse(&r->error, 503, "server_is_overloaded", NULL,
                   "The server ended this request before it was answered.");
        r->failed = true;
        return;
    }
    if (record && record->result)
        json_parse(record->result, strlen(record->result), &result, NULL);
    const char *message = json_get_text(json_get(result, "error"), "message");
    fail(r, message ? message : "The engine failed.");
    cJSON_Delete(result);
}

static void on_end(const sender *to, reply_choice *choice, run_event *event)
{
    reply *r = to->reply;
    const char *reason = event->stop_reason;
    bool well = reason && (strcmp(reason, "stop") == 0 || strcmp(reason, "length") == 0 ||
                           strcmp(reason, "tool_calls") == 0);
    add_to_usage(&r->usage, event);
    if (r->failed)
        return;
    if (!well) {
        fail_turn(r, event);
        if (to->emit)
            send_error(to);
        return;
    }
    choice->finish = reason;
    if (to->emit)
        send_finish(to, choice);
    if (to->emit && event->type == RUN_END)
        send_last(to);
}

void reply_event(reply *r, run_event *event, api_emit emit, void *arg)
{
    sender to = {r, emit, arg};
    if (event->choice >= r->n_choices)
        return;
    reply_choice *choice = &r->choices[event->choice];
    switch (event->type) {
    case RUN_CREATED:
        break;
    case RUN_IN_PROGRESS:
        if (emit && !r->failed)
            send_begin(&to, choice);
        break;
    case RUN_ITEM_BEGIN:
    case RUN_DELTA:
        if (emit && !r->failed)
            send_delta(&to, choice, event);
        break;
    case RUN_ITEM_END:
        if (!emit && !r->failed)
            r->dialect->gather(r, choice, event);
        break;
    case RUN_CHOICE_END:
    case RUN_END:
        on_end(&to, choice, event);
        break;
    }
}

bool reply_body(reply *r, buf *out)
{
    bool whole = true;
    add_head(r, r->dialect->object, out);
    buf_add_text(out, ",\"choices\":[");
    for (size_t i = 0; i < r->n_choices; i++) {
        reply_choice *choice = &r->choices[i];
        whole = whole && !choice->text.failed && !choice->reasoning.failed && !choice->calls.failed;
        buf_printf(out, "%s{\"index\":%zu", i ? "," : "", i);
        r->dialect->whole(r, choice, out);
        buf_add_text(out, "}");
    }
    buf_add_text(out, "]");
    add_usage(r, out);
    buf_add_text(out, "}");
    return whole && !out->failed;
}

/* ------------------------------------------------------------------ open, close -- */

reply *reply_open(const reply_dialect *dialect, const run_request *request,
                  const parse_choices *choices, const char *prompt)
{
    reply *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    const char *random = strchr(request->id, '_');
    r->dialect = dialect;
    snprintf(r->id, sizeof r->id, "%s%s", dialect->id_prefix, random ? random + 1 : request->id);
    r->created = request->created_ms / 1000;
    r->logprobs = request->logprobs;
    r->include_usage = choices->include_usage;
    r->n_choices = choices->n;
    buf_init(&r->text, REPLY_MAX_BYTES);
    for (size_t i = 0; i < r->n_choices; i++) {
        buf_init(&r->choices[i].text, REPLY_MAX_BYTES);
        buf_init(&r->choices[i].reasoning, REPLY_MAX_BYTES);
        buf_init(&r->choices[i].calls, REPLY_MAX_BYTES);
    }
    r->model = strdup(request->model && request->model->name ? request->model->name : "");
    r->prompt = prompt ? strdup(prompt) : NULL;
    if (r->model && (!prompt || r->prompt))
        return r;
    reply_close(r);
    return NULL;
}

void reply_close(reply *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n_choices; i++) {
        buf_clear(&r->choices[i].text);
        buf_clear(&r->choices[i].reasoning);
        buf_clear(&r->choices[i].calls);
        cJSON_Delete(r->choices[i].logprobs);
    }
    buf_clear(&r->text);
    free(r->model);
    free(r->prompt);
    free(r);
}
