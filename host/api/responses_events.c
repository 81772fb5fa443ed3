/*
 * api/responses_events.c - a turn's events in the Responses dialect. See the header.
 *
 *   run            client
 *   CREATED        response.created; of a background response also response.queued
 *   IN_PROGRESS    response.in_progress
 *   ITEM_BEGIN     response.output_item.added, response.content_part.added (not of a call)
 *   DELTA          response.output_text.delta | .reasoning_text.delta |
 *                  .function_call_arguments.delta
 *   ITEM_END       the same with .done, response.content_part.done, response.output_item.done
 *   END            response.completed | .incomplete | .failed
 *
 * A cancelled turn ends as response.incomplete whose response has the status "cancelled",
 * since clients know no event of that name. Where there is no memory for an event the
 * stream is broken: nothing more is sent but, at the end, one error.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/responses_events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "api/fields.h"
#include "api/responses_object.h"

#define MAX_EVENT_BYTES ((size_t)512 << 20)

struct responses_stream {
    char id[CLOCK_ID_SIZE];
    int64_t created_ms;
    cJSON *echo;
    char *lane;           /* or NULL                                    */
    cJSON *output;        /* items that are done                        */
    run_record *record;   /* after END; NULL: there was no memory for it */
    run_usage usage;      /* after END                                  */
    uint64_t next_number; /* sequence_number of the next event          */
    uint64_t first;       /* of the first one that is sent              */
    bool background;
    bool resumed; /* items may be missing from output           */
    buf text;     /* the event that is being written            */
    bool broken;  /* an event was lost                          */
};

/* Where an event goes while it is written. */
typedef struct sender {
    responses_stream *stream;
    const run_event *event;
    api_emit emit;
    void *arg;
} sender;

/* What differs between the kinds of items. */
typedef struct kind_names {
    const char *part_type; /* NULL: the item has no parts              */
    const char *delta;     /* event                                    */
    const char *done;      /* event                                    */
} kind_names;

static const kind_names names_of[] = {
    [RUN_ITEM_MESSAGE] = {"output_text", "response.output_text.delta", "response.output_text.done"},
    [RUN_ITEM_REASONING] = {"reasoning_text", "response.reasoning_text.delta",
                            "response.reasoning_text.done"},
    [RUN_ITEM_CALL] = {NULL, "response.function_call_arguments.delta",
                       "response.function_call_arguments.done"},
};

static void add_text(buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    json_add_quoted(out, json_text(text ? text : ""));
}

static void add_logprobs(buf *out, const cJSON *logprobs)
{
    buf_add_text(out, ",\"logprobs\":");
    if (cJSON_IsArray(logprobs))
        json_add(out, logprobs);
    else
        buf_add_text(out, "[]");
}

/* {"type","sequence_number","stream_id"? */
static buf *begin(const sender *to, const char *type)
{
    responses_stream *stream = to->stream;
    buf_reset(&stream->text);
    buf_printf(&stream->text, "{\"type\":\"%s\",\"sequence_number\":%" PRIu64, type,
               stream->next_number);
    if (stream->lane)
        add_text(&stream->text, "stream_id", stream->lane);
    return &stream->text;
}

static void finish(const sender *to, const char *type)
{
    responses_stream *stream = to->stream;
    buf_add_text(&stream->text, "}");
    if (stream->text.failed)
        stream->broken = true;
    if (stream->broken)
        return;
    bool last = stream->first == RESPONSES_LAST && to->event->type == RUN_END;
    if (stream->next_number++ >= stream->first || last)
        to->emit(to->arg, type, stream->text.data, stream->text.size);
}

/* ,"output_index","item_id" and, where the item has parts, "content_index" */
static void add_place(buf *out, const run_event *event)
{
    add_text(out, "item_id", event->item_id);
    buf_printf(out, ",\"output_index\":%" PRIu32, event->output_index);
    if (names_of[event->kind].part_type)
        buf_add_text(out, ",\"content_index\":0");
}

static void add_part(buf *out, const run_event *event, const char *text)
{
    const char *type = names_of[event->kind].part_type;
    buf_printf(out, "{\"type\":\"%s\"", type);
    add_text(out, "text", text);
    if (event->kind == RUN_ITEM_MESSAGE) {
        buf_add_text(out, ",\"annotations\":[]");
        add_logprobs(out, event->logprobs);
    }
    buf_add_text(out, "}");
}

/* The item of an ITEM_BEGIN (nothing in it yet) or, for an event that brought none,
 * of an ITEM_END. */
static void add_item(buf *out, const run_event *event)
{
    bool begins = event->type == RUN_ITEM_BEGIN;
    const char *status = begins ? "in_progress" : event->complete ? "completed" : "incomplete";
    buf_add_text(out, "{\"id\":");
    json_add_quoted(out, json_text(event->item_id));
    switch (event->kind) {
    case RUN_ITEM_MESSAGE:
        buf_printf(out, ",\"type\":\"message\",\"status\":\"%s\",\"role\":\"assistant\"", status);
        buf_add_text(out, ",\"content\":[");
        break;
    case RUN_ITEM_REASONING:
        buf_printf(out, ",\"type\":\"reasoning\",\"status\":\"%s\",\"summary\":[]", status);
        buf_add_text(out, ",\"content\":[");
        break;
    case RUN_ITEM_CALL:
        buf_printf(out, ",\"type\":\"function_call\",\"status\":\"%s\"", status);
        add_text(out, "call_id", event->call_id);
        add_text(out, "name", event->name);
        add_text(out, "arguments", begins ? "" : event->text);
        buf_add_text(out, "}");
        return;
    }
    if (!begins)
        add_part(out, event, event->text);
    buf_add_text(out, "]}");
}

/* The finished item: run's own, so that what is stored and what is sent agree. */
static cJSON *take_item(run_event *event)
{
    cJSON *item = event->item;
    event->item = NULL;
    if (!item) {
        buf text;
        buf_init(&text, MAX_EVENT_BYTES);
        add_item(&text, event);
        if (text.failed || json_parse(text.data, text.size, &item, NULL) != PAWL_OK)
            item = NULL;
        buf_clear(&text);
    }
    if (item && responses_item_complete(item))
        return item;
    cJSON_Delete(item);
    return NULL;
}

static void send_response(const sender *to, const char *type, const responses_view *view)
{
    buf *out = begin(to, type);
    buf_add_text(out, ",\"response\":");
    responses_object_add(out, view);
    finish(to, type);
}

static responses_view view_running(const responses_stream *stream, const char *status)
{
    return (responses_view){
        .id = stream->id, .status = status, .created_ms = stream->created_ms, .echo = stream->echo};
}

static void send_item_begin(const sender *to)
{
    const run_event *event = to->event;
    buf *out = begin(to, "response.output_item.added");
    buf_printf(out, ",\"output_index\":%" PRIu32 ",\"item\":", event->output_index);
    add_item(out, event);
    finish(to, "response.output_item.added");
    if (!names_of[event->kind].part_type)
        return;
    out = begin(to, "response.content_part.added");
    add_place(out, event);
    buf_add_text(out, ",\"part\":");
    add_part(out, event, "");
    finish(to, "response.content_part.added");
}

static void send_delta(const sender *to)
{
    const run_event *event = to->event;
    const char *type = names_of[event->kind].delta;
    if (!event->text || (!*event->text && !event->logprobs))
        return;
    if (to->stream->next_number < to->stream->first) { /* most of what is skipped */
        to->stream->next_number++;
        return;
    }
    buf *out = begin(to, type);
    add_place(out, event);
    add_text(out, "delta", event->text);
    if (event->kind == RUN_ITEM_MESSAGE)
        add_logprobs(out, event->logprobs);
    finish(to, type);
}

static void send_item_end(const sender *to, const cJSON *item)
{
    const run_event *event = to->event;
    const kind_names *names = &names_of[event->kind];
    buf *out = begin(to, names->done);
    add_place(out, event);
    if (event->kind == RUN_ITEM_CALL) {
        add_text(out, "name", event->name);
        add_text(out, "arguments", event->text);
    } else {
        add_text(out, "text", event->text);
    }
    if (event->kind == RUN_ITEM_MESSAGE)
        add_logprobs(out, event->logprobs);
    finish(to, names->done);
    if (names->part_type) {
        out = begin(to, "response.content_part.done");
        add_place(out, event);
        buf_add_text(out, ",\"part\":");
        add_part(out, event, event->text);
        finish(to, "response.content_part.done");
    }
    out = begin(to, "response.output_item.done");
    buf_printf(out, ",\"output_index\":%" PRIu32 ",\"item\":", event->output_index);
    json_add(out, item);
    finish(to, "response.output_item.done");
}

static void on_item_end(const sender *to, run_event *event)
{
    responses_stream *stream = to->stream;
    cJSON *item = take_item(event);
    if (!item) {
        stream->broken = true;
        return;
    }
    if (to->emit)
        send_item_end(to, item);
    if (!field_add(stream->output, NULL, item))
        stream->broken = true;
}

/* The finished response; *result is the caller's to delete. */
static responses_view view_finished(const responses_stream *stream, cJSON **result)
{
    const run_record *record = stream->record;
    responses_view view = view_running(stream, "failed");
    view.status = record ? record->status : "failed";
    view.completed_ms = record ? record->completed_ms : stream->created_ms;
    view.output = stream->output;
    view.usage = &stream->usage;
    *result = NULL;
    if (record && record->result &&
        json_parse(record->result, strlen(record->result), result, NULL) == PAWL_OK)
        view.result = *result;
    return view;
}

static void send_end(const sender *to)
{
    responses_stream *stream = to->stream;
    cJSON *result;
    responses_view view = view_finished(stream, &result);
    const char *type = "response.incomplete"; /* also of a cancelled one */
    if (strcmp(view.status, "completed") == 0)
        type = "response.completed";
    else if (strcmp(view.status, "failed") == 0)
        type = "response.failed";
    if (!stream->broken)
        send_response(to, type, &view);
    cJSON_Delete(result);
    if (!stream->broken)
        return;
    char *text =
        api_error_frame(500, "server_error", "server_error", NULL,
                        "The server had no memory for an event of this response.", stream->lane);
    if (text)
        to->emit(to->arg, "error", text, strlen(text));
    free(text);
}

/* Who did not see all items takes them from the record. */
static void complete_output(responses_stream *stream)
{
    cJSON *output = NULL;
    cJSON *each;
    const char *text = stream->record ? stream->record->output : NULL;
    if (!text || json_parse(text, strlen(text), &output, NULL) != PAWL_OK)
        return;
    cJSON_ArrayForEach(each, output)
    {
        stream->broken = stream->broken || !responses_item_complete(each);
    }
    cJSON_Delete(stream->output);
    stream->output = output;
}

static void on_end(const sender *to, const run_event *event)
{
    responses_stream *stream = to->stream;
    stream->record = event->record ? run_record_retain(event->record) : NULL;
    stream->usage = event->usage;
    if (stream->resumed)
        complete_output(stream);
    if (to->emit)
        send_end(to);
}

static void send_created(const sender *to)
{
    const responses_stream *stream = to->stream;
    responses_view view = view_running(stream, stream->background ? "queued" : "in_progress");
    send_response(to, "response.created", &view);
    if (stream->background)
        send_response(to, "response.queued", &view);
}

static void send_in_progress(const sender *to)
{
    responses_view view = view_running(to->stream, "in_progress");
    send_response(to, "response.in_progress", &view);
}

void responses_stream_event(responses_stream *stream, run_event *event, api_emit emit, void *arg)
{
    sender to = {stream, event, emit, arg};
    switch (event->type) {
    case RUN_CREATED:
        if (emit)
            send_created(&to);
        break;
    case RUN_IN_PROGRESS:
        if (emit)
            send_in_progress(&to);
        break;
    case RUN_ITEM_BEGIN:
        if (emit)
            send_item_begin(&to);
        break;
    case RUN_DELTA:
        if (emit)
            send_delta(&to);
        break;
    case RUN_ITEM_END:
        on_item_end(&to, event);
        break;
    case RUN_CHOICE_END: /* a response has one choice */
        break;
    case RUN_END:
        on_end(&to, event);
        break;
    }
}

int responses_stream_body(responses_stream *stream, buf *out)
{
    cJSON *result;
    responses_view view = view_finished(stream, &result);
    int status = 200;
    bool failed = stream->broken || strcmp(view.status, "failed") == 0;
    if (!failed)
        failed = !responses_object_add(out, &view);
    if (failed) {
        const char *message = json_get_text(json_get(view.result, "error"), "message");
        char *text = api_error_body("server_error", "server_error", NULL,
                                    message ? message : "The engine failed.");
        status = 500;
        buf_reset(out);
        if (text)
            buf_add_text(out, text);
        free(text);
    }
    cJSON_Delete(result);
    return status;
}

bool responses_stream_add(const responses_stream *stream, const char *status, buf *out)
{
    responses_view view = view_running(stream, status);
    return responses_object_add(out, &view);
}

void responses_stream_lost(const responses_stream *stream, const api_error *error, api_emit emit,
                           void *arg)
{
    char *text = api_error_frame_text(error, stream->lane);
    if (text)
        emit(arg, "error", text, strlen(text));
    free(text);
}

uint64_t responses_stream_numbers(const run_tally *tally, bool background)
{
    uint64_t n = tally->n[RUN_CREATED][0] * (background ? 2 : 1) + tally->n[RUN_IN_PROGRESS][0] +
                 tally->n[RUN_END][0];
    for (int kind = RUN_ITEM_MESSAGE; kind <= RUN_ITEM_CALL; kind++) {
        uint64_t part = names_of[kind].part_type ? 1 : 0;
        n += tally->n[RUN_ITEM_BEGIN][kind] * (1 + part) + tally->n[RUN_DELTA][kind] +
             tally->n[RUN_ITEM_END][kind] * (2 + part);
    }
    return n;
}

/* Takes the echo in every case. */
static responses_stream *new_stream(const char *id, int64_t created_ms, cJSON *echo,
                                    const char *lane)
{
    responses_stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        cJSON_Delete(echo);
        return NULL;
    }
    buf_init(&stream->text, MAX_EVENT_BYTES);
    memcpy(stream->id, id, strnlen(id, sizeof stream->id - 1));
    stream->created_ms = created_ms;
    stream->echo = echo;
    stream->background = json_get_bool(echo, "background", false);
    stream->output = cJSON_CreateArray();
    stream->lane = lane ? strdup(lane) : NULL;
    if (stream->echo && stream->output && (!lane || stream->lane))
        return stream;
    responses_stream_close(stream);
    return NULL;
}

responses_stream *responses_stream_open(const run_request *request, const char *lane)
{
    return new_stream(request->id, request->created_ms, cJSON_Duplicate(request->echo, true), lane);
}

responses_stream *responses_stream_resume(const run_log *log, cJSON *echo, const char *lane,
                                          uint64_t first, const run_tally *skipped)
{
    responses_stream *stream = new_stream(run_log_id(log), run_log_created(log), echo, lane);
    if (!stream)
        return NULL;
    stream->next_number = responses_stream_numbers(skipped, stream->background);
    stream->first = first;
    stream->resumed = true;
    return stream;
}

responses_stream *responses_stream_replay(const run_record *record, const char *lane)
{
    cJSON *echo = NULL;
    if (json_parse(record->request, strlen(record->request), &echo, NULL) != PAWL_OK)
        return NULL;
    return new_stream(record->id, record->created_ms, echo, lane);
}

void responses_stream_close(responses_stream *stream)
{
    if (!stream)
        return;
    buf_clear(&stream->text);
    cJSON_Delete(stream->echo);
    cJSON_Delete(stream->output);
    run_record_release(stream->record);
    free(stream->lane);
    free(stream);
}
