/*
 * api/reply_chat.c - a choice of a Chat Completions answer: deltas and the message.
 *
 * Rules that clients depend on: the message always has the key "content", null where
 * there are only calls; the first chunk of a choice has role and content ""; id, type
 * and name of a call come once, before its arguments, and one call ends before the next
 * begins. Pure; belongs to reply.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>

#include "api/fields.h"
#include "api/reply.h"

static void add_logprobs(const reply *r, const cJSON *logprobs, buf *out)
{
    buf_add_text(out, ",\"logprobs\":");
    if (r->logprobs && logprobs) {
        buf_add_text(out, "{\"content\":");
        json_add(out, logprobs);
        buf_add_text(out, ",\"refusal\":null}");
    } else {
        buf_add_text(out, "null");
    }
}

static void begin(reply *r, reply_choice *choice, buf *out)
{
    (void)r;
    (void)choice;
    buf_add_text(out, ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                      "\"finish_reason\":null");
}

static void finish(reply *r, reply_choice *choice, buf *out)
{
    (void)r;
    buf_printf(out, ",\"delta\":{},\"logprobs\":null,\"finish_reason\":\"%s\"", choice->finish);
}

/* {"id","type","function":{"name","arguments"}} without its {. */
static void add_call(const run_event *event, const char *arguments, buf *out)
{
    buf_add_text(out, "\"id\":");
    json_add_quoted(out, json_text(event->call_id));
    buf_add_text(out, ",\"type\":\"function\",\"function\":{\"name\":");
    json_add_quoted(out, json_text(event->name ? event->name : ""));
    buf_add_text(out, ",\"arguments\":");
    json_add_quoted(out, json_text(arguments));
    buf_add_text(out, "}}");
}

static void add_call_delta(reply_choice *choice, const run_event *event, buf *out)
{
    bool begins = event->type == RUN_ITEM_BEGIN;
    choice->n_calls += begins;
    buf_printf(out, ",\"delta\":{\"tool_calls\":[{\"index\":%" PRIu32 ",", choice->n_calls - 1);
    if (begins) {
        add_call(event, "", out);
    } else {
        buf_add_text(out, "\"function\":{\"arguments\":");
        json_add_quoted(out, json_text(event->text));
        buf_add_text(out, "}}");
    }
    buf_add_text(out, "]}");
}

static bool delta(reply *r, reply_choice *choice, const run_event *event, buf *out)
{
    bool begins = event->type == RUN_ITEM_BEGIN;
    if (event->kind == RUN_ITEM_CALL ? !begins && !event->text : begins || !event->text)
        return false;
    if (event->kind == RUN_ITEM_CALL) {
        add_call_delta(choice, event, out);
    } else {
        buf_printf(out, ",\"delta\":{\"%s\":",
                   event->kind == RUN_ITEM_REASONING ? "reasoning_content" : "content");
        json_add_quoted(out, json_text(event->text));
        buf_add_text(out, "}");
    }
    add_logprobs(r, event->logprobs, out);
    buf_add_text(out, ",\"finish_reason\":null");
    return true;
}

/* Moves the event's entries behind those that are there. */
static void gather_logprobs(reply_choice *choice, run_event *event)
{
    if (!choice->logprobs) {
        choice->logprobs = event->logprobs;
        event->logprobs = NULL;
        return;
    }
    cJSON *entry;
    while ((entry = cJSON_DetachItemFromArray(event->logprobs, 0)) != NULL)
        field_add(choice->logprobs, NULL, entry);
}

static void gather(reply *r, reply_choice *choice, run_event *event)
{
    const char *text = event->text ? event->text : "";
    (void)r;
    switch (event->kind) {
    case RUN_ITEM_MESSAGE:
        choice->has_text = true;
        buf_add_text(&choice->text, text);
        if (event->logprobs)
            gather_logprobs(choice, event);
        break;
    case RUN_ITEM_REASONING:
        buf_add_text(&choice->reasoning, text);
        break;
    case RUN_ITEM_CALL:
        buf_add_text(&choice->calls, choice->n_calls++ ? ",{" : "{");
        add_call(event, text, &choice->calls);
        break;
    }
}

static void whole(reply *r, reply_choice *choice, buf *out)
{
    buf_add_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (choice->has_text || !choice->n_calls)
        json_add_quoted(out, buf_bytes(&choice->text));
    else
        buf_add_text(out, "null");
    buf_add_text(out, ",\"refusal\":null");
    if (choice->reasoning.size) {
        buf_add_text(out, ",\"reasoning_content\":");
        json_add_quoted(out, buf_bytes(&choice->reasoning));
    }
    if (choice->n_calls)
        buf_printf(out, ",\"tool_calls\":[%s]", buf_text(&choice->calls));
    buf_add_text(out, "}");
    add_logprobs(r, choice->logprobs, out);
    buf_printf(out, ",\"finish_reason\":\"%s\"", choice->finish ? choice->finish : "stop");
}

const reply_dialect reply_chat = {.id_prefix = "chatcmpl-",
                                  .object = "chat.completion",
                                  .chunk = "chat.completion.chunk",
                                  .begin = begin,
                                  .finish = finish,
                                  .whole = whole,
                                  .delta = delta,
                                  .gather = gather};
