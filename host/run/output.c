/*
 * run/output.c - the output items of one reply, and the events that build them.
 * See output.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/output.h"

#include <stdlib.h>
#include <string.h>

void run_output_init(run_output *o, const base_clock *clock, run_listener listener)
{
    *o = (run_output){.clock = clock, .listener = listener, .items = cJSON_CreateArray()};
    buf_init(&o->text, RUN_MAX_ITEM_BYTES);
    o->failed = !o->items;
}

static void forget_item(run_output *o)
{
    free(o->name);
    o->name = NULL;
    cJSON_Delete(o->logprobs);
    o->logprobs = NULL;
    buf_clear(&o->text);
    o->open = false;
}

void run_output_clear(run_output *o)
{
    forget_item(o);
    cJSON_Delete(o->pending);
    cJSON_Delete(o->items);
    *o = (run_output){0};
}

/* An event about the open item. NULL without memory. */
static run_event *item_event(run_output *o, enum run_event_type type)
{
    run_event *event = run_event_new(type);
    if (!event) {
        o->failed = true;
        return NULL;
    }
    event->output_index = (uint32_t)cJSON_GetArraySize(o->items);
    event->kind = o->kind;
    memcpy(event->item_id, o->item_id, sizeof event->item_id);
    if (o->kind == RUN_ITEM_CALL) {
        memcpy(event->call_id, o->call_id, sizeof event->call_id);
        event->name = strdup(o->name);
        o->failed = o->failed || !event->name;
    }
    return event;
}

static void send(run_output *o, run_event *event)
{
    if (event)
        o->listener.on_event(o->listener.arg, event);
}

static void open_item(run_output *o, enum run_item_kind kind, const char *name, size_t size)
{
    static const char *const prefix[] = {"msg_", "rs_", "fc_"};
    run_output_close(o, true);
    o->kind = kind;
    clock_new_id(o->clock, prefix[kind], o->item_id);
    if (kind == RUN_ITEM_CALL) {
        clock_new_id(o->clock, "call_", o->call_id);
        o->name = strndup(name, size);
        if (!o->name) {
            o->failed = true;
            return;
        }
    }
    o->open = true;
    send(o, item_event(o, RUN_ITEM_BEGIN));
}

/* Moves the log-probabilities that wait to the open message and copies them into
 * the event of the text that they belong to. Those of thoughts and calls are nobody's. */
static void attach_logprobs(run_output *o, run_event *event)
{
    if (o->kind != RUN_ITEM_MESSAGE) {
        cJSON_Delete(o->pending);
        o->pending = NULL;
    }
    if (!o->pending)
        return;
    event->logprobs = o->pending;
    o->pending = NULL;
    if (!o->logprobs)
        o->logprobs = cJSON_CreateArray();
    const cJSON *entry;
    cJSON_ArrayForEach(entry, event->logprobs)
    {
        cJSON *copy = cJSON_Duplicate(entry, true);
        if (!copy || !cJSON_AddItemToArray(o->logprobs, copy))
            o->failed = true;
    }
}

static void delta(run_output *o, const char *text, size_t size)
{
    if (!o->open || size == 0)
        return;
    if (!buf_add(&o->text, text, size)) {
        o->failed = true;
        return;
    }
    run_event *event = item_event(o, RUN_DELTA);
    if (!event)
        return;
    event->text = strndup(text, size);
    o->failed = o->failed || !event->text;
    attach_logprobs(o, event);
    send(o, event);
}

void run_output_text(run_output *o, enum run_item_kind kind, const char *text, size_t size)
{
    if (!o->open || o->kind != kind)
        open_item(o, kind, NULL, 0);
    delta(o, text, size);
}

void run_output_call(run_output *o, const char *name, size_t size)
{
    open_item(o, RUN_ITEM_CALL, name, size);
}

void run_output_arguments(run_output *o, const char *text, size_t size)
{
    if (o->kind == RUN_ITEM_CALL)
        delta(o, text, size);
}

static void add_text_part(cJSON *item, const char *type, const char *text)
{
    cJSON *content = cJSON_AddArrayToObject(item, "content");
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "type", type);
    cJSON_AddStringToObject(part, "text", text);
    cJSON_AddItemToArray(content, part);
}

/* The open item as JSON, in the shape of api.md 4. */
static cJSON *item_json(const run_output *o, bool complete)
{
    static const char *const type[] = {"message", "reasoning", "function_call"};
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "id", o->item_id);
    cJSON_AddStringToObject(item, "type", type[o->kind]);
    cJSON_AddStringToObject(item, "status", complete ? "completed" : "incomplete");
    if (o->kind == RUN_ITEM_MESSAGE) {
        cJSON_AddStringToObject(item, "role", "assistant");
        add_text_part(item, "output_text", buf_text(&o->text));
        cJSON *part = cJSON_GetArrayItem(cJSON_GetObjectItem(item, "content"), 0);
        cJSON_AddArrayToObject(part, "annotations");
        cJSON_AddItemToObject(part, "logprobs",
                              o->logprobs ? cJSON_Duplicate(o->logprobs, true)
                                          : cJSON_CreateArray());
    } else if (o->kind == RUN_ITEM_REASONING) {
        cJSON_AddArrayToObject(item, "summary");
        add_text_part(item, "reasoning_text", buf_text(&o->text));
    } else {
        cJSON_AddStringToObject(item, "call_id", o->call_id);
        cJSON_AddStringToObject(item, "name", o->name);
        cJSON_AddStringToObject(item, "arguments", buf_text(&o->text));
    }
    return item;
}

void run_output_close(run_output *o, bool complete)
{
    if (!o->open)
        return;
    cJSON *item = item_json(o, complete);
    run_event *event = item_event(o, RUN_ITEM_END);
    if (event) {
        event->complete = complete;
        event->text = strdup(buf_text(&o->text));
        event->item = cJSON_Duplicate(item, true);
        event->logprobs = o->logprobs;
        o->logprobs = NULL;
        o->failed = o->failed || !event->text || !event->item;
    }
    if (!item || !cJSON_AddItemToArray(o->items, item))
        o->failed = true;
    if (o->kind == RUN_ITEM_CALL && complete)
        o->n_calls++;
    forget_item(o);
    send(o, event);
}

void run_output_logprob(run_output *o, cJSON *entry)
{
    if (!o->pending)
        o->pending = cJSON_CreateArray();
    if (!entry || !cJSON_AddItemToArray(o->pending, entry))
        o->failed = true;
}
