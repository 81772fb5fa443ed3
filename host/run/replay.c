/*
 * run/replay.c - the events of a response once more. See replay.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS 100000 /* of one response */

/* Events until all are made. */
typedef struct list {
    run_event **events;
    size_t n;
    bool failed;
} list;

/* NULL: no memory. The event belongs to the list. */
static run_event *add(list *l, enum run_event_type type)
{
    run_event *event = l->failed || l->n == MAX_EVENTS ? NULL : run_event_new(type);
    run_event **events = event ? realloc(l->events, (l->n + 1) * sizeof *events) : NULL;
    if (!events) {
        run_event_free(event);
        l->failed = true;
        return NULL;
    }
    l->events = events;
    l->events[l->n++] = event;
    return event;
}

static void take_text(char **to, const char *text, list *l)
{
    *to = text ? strdup(text) : NULL;
    l->failed = l->failed || (text && !*to);
}

static void take_id(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

/* An event about an item; NULL: no memory. */
static run_event *item_event(list *l, enum run_event_type type, const cJSON *item, uint32_t index)
{
    const char *kind = json_get_text(item, "type");
    run_event *event = add(l, type);
    if (!event)
        return NULL;
    event->output_index = index;
    event->kind = RUN_ITEM_MESSAGE;
    if (kind && strcmp(kind, "reasoning") == 0)
        event->kind = RUN_ITEM_REASONING;
    else if (kind && strcmp(kind, "function_call") == 0)
        event->kind = RUN_ITEM_CALL;
    take_id(event->item_id, sizeof event->item_id, json_get_text(item, "id"));
    if (event->kind == RUN_ITEM_CALL) {
        take_id(event->call_id, sizeof event->call_id, json_get_text(item, "call_id"));
        take_text(&event->name, json_get_text(item, "name"), l);
    }
    return event;
}

static void add_text(list *l, run_event *event, const cJSON *item)
{
    const cJSON *part = cJSON_GetArrayItem(json_get(item, "content"), 0);
    const cJSON *logprobs = json_get(part, "logprobs");
    const char *text = event->kind == RUN_ITEM_CALL ? json_get_text(item, "arguments")
                                                    : json_get_text(part, "text");
    take_text(&event->text, text ? text : "", l);
    if (cJSON_GetArraySize(logprobs) > 0)
        event->logprobs = cJSON_Duplicate(logprobs, true);
}

static void add_item(list *l, const cJSON *item, uint32_t index)
{
    const char *status = json_get_text(item, "status");
    item_event(l, RUN_ITEM_BEGIN, item, index);
    run_event *event = item_event(l, RUN_DELTA, item, index);
    if (event)
        add_text(l, event, item);
    event = item_event(l, RUN_ITEM_END, item, index);
    if (!event)
        return;
    add_text(l, event, item);
    event->complete = !status || strcmp(status, "incomplete") != 0;
    event->item = cJSON_Duplicate(item, true);
    l->failed = l->failed || !event->item;
}

static void add_end(list *l, run_record *record)
{
    static const char *const reasons[][2] = {
        {"completed", "stop"}, {"incomplete", "length"}, {"cancelled", "cancelled"}};
    run_event *event = add(l, RUN_END);
    if (!event)
        return;
    event->record = run_record_retain(record);
    event->stop_reason = "error";
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strcmp(record->status, reasons[i][0]) == 0)
            event->stop_reason = reasons[i][1];
}

bool run_replay(run_record *record, run_listener listener)
{
    list l = {0};
    cJSON *output = NULL;
    const cJSON *item;
    uint32_t index = 0;
    l.failed = json_parse(record->output, strlen(record->output), &output, NULL) != PAWL_OK;
    add(&l, RUN_CREATED);
    add(&l, RUN_IN_PROGRESS);
    cJSON_ArrayForEach(item, output)
    {
        add_item(&l, item, index++);
    }
    add_end(&l, record);
    cJSON_Delete(output);
    for (size_t i = 0; i < l.n; i++) {
        if (l.failed)
            run_event_free(l.events[i]);
        else
            listener.on_event(listener.arg, l.events[i]);
    }
    free(l.events);
    return !l.failed;
}
