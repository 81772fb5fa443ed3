/*
 * api/frames.c - text frames of a socket: what they ask for, and what they are answered.
 *
 *   response.create   all of a request, and stream_id, the lane
 *   response.retrieve response_id, starting_after: its events again (ours, not OpenAI's)
 *   response.cancel   response_id or stream_id (ours too)
 *   response.steer    refused by the event that the protocol has for it
 *
 * An error goes to the lane that the frame names, whenever that can be read: clients that
 * run several lanes drop the whole socket for an error that belongs to none. Everything
 * runs on run's worker; a frame owns the tree it was parsed to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "api/follow.h"
#include "api/handlers.h"
#include "api/responses_events.h"
#include "run/logs.h"

#define MAX_LANE 256
#define MAX_STEER_BYTES ((size_t)64 << 20)

struct api_frame {
    enum api_frame_type type;
    cJSON *body;      /* NULL: the frame is no JSON object   */
    const char *lane; /* in body, or NULL                    */
    api_error error;  /* of a REFUSED frame                  */
    bool steer;       /* REFUSED because it wanted to steer  */
    bool retrieve;    /* CREATE, but of what is there        */
    uint64_t first;   /* event that it begins with           */
};

static bool lane_is_valid(const char *lane)
{
    size_t size = strlen(lane);
    return size > 0 && size <= MAX_LANE &&
           strspn(lane, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
               size;
}

static bool parse_lane(api_frame *frame)
{
    const char *lane = NULL;
    if (!field_text(frame->body, "", "stream_id", SIZE_MAX, &lane, &frame->error))
        return false;
    if (lane && !lane_is_valid(lane))
        return api_refuse(&frame->error, 400, "invalid_value", "stream_id",
                          "Invalid value for 'stream_id': it has from 1 to %d characters, letters, "
                          "digits, '_', '.' and '-'. Leave it out for the default lane.",
                          MAX_LANE);
    frame->lane = lane;
    return true;
}

static bool parse_retrieve(api_frame *frame)
{
    const char *response_id = NULL;
    int64_t after = -1;
    frame->type = API_FRAME_CREATE;
    frame->retrieve = true;
    if (!field_text(frame->body, "", "response_id", PARSE_MAX_ID, &response_id, &frame->error) ||
        !field_integer(frame->body, "", "starting_after", 0, FIELD_MAX_INTEGER, &after,
                       &frame->error))
        return false;
    frame->first = (uint64_t)(after + 1);
    return response_id ? true : field_missing("", "response_id", &frame->error);
}

static bool parse_type(api_frame *frame)
{
    const char *type = NULL;
    const char *response_id = NULL;
    if (!field_text(frame->body, "", "type", SIZE_MAX, &type, &frame->error))
        return false;
    if (!type)
        return field_missing("", "type", &frame->error);
    if (strcmp(type, "response.create") == 0) {
        const char *key = NULL;
        frame->type = API_FRAME_CREATE;
        return field_text(frame->body, "", "idempotency_key", STORE_MAX_KEY, &key, &frame->error);
    }
    if (strcmp(type, "response.cancel") == 0) {
        frame->type = API_FRAME_CANCEL;
        return field_text(frame->body, "", "response_id", PARSE_MAX_ID, &response_id,
                          &frame->error);
    }
    if (strcmp(type, "response.retrieve") == 0)
        return parse_retrieve(frame);
    if (strcmp(type, "response.steer") == 0) {
        frame->steer = true;
        return api_refuse(&frame->error, 400, "steering_not_supported", NULL,
                          "Steering is not supported here; send the input with the next "
                          "response.create.");
    }
    return api_refuse(&frame->error, 400, "invalid_value", "type",
                      "Unknown event type '%.60s'. Known are: response.create, response.retrieve, "
                      "response.cancel.",
                      type);
}

api_frame *api_frame_parse(run_runtime *runtime, const char *data, size_t size)
{
    api_frame *frame = calloc(1, sizeof *frame);
    (void)runtime;
    if (!frame)
        return NULL;
    frame->body = handlers_body(data, size, &frame->error);
    if (!frame->body || !parse_lane(frame) || !parse_type(frame))
        frame->type = API_FRAME_REFUSED;
    return frame;
}

enum api_frame_type api_frame_type(const api_frame *frame)
{
    return frame->type;
}

const char *api_frame_lane(const api_frame *frame)
{
    return frame->lane;
}

const char *api_frame_parent(const api_frame *frame)
{
    return json_get_text(frame->body, "previous_response_id");
}

const char *api_frame_response_id(const api_frame *frame)
{
    return json_get_text(frame->body, "response_id");
}

void api_frame_free(api_frame *frame)
{
    if (!frame)
        return;
    cJSON_Delete(frame->body);
    free(frame);
}

/* Reads what is kept; of a CANCEL, the closing event alone. NULL: refused. */
static api_call *follow(run_runtime *runtime, const api_frame *frame, const run_caller *caller,
                        api_error *error)
{
    const char *id = api_frame_response_id(frame);
    bool cancel = frame->type == API_FRAME_CANCEL;
    api_call *call = NULL;
    run_log *log = run_logs_find(run_logs_of(runtime), caller->tenant, id);
    if (log && run_log_is_stored(log)) {
        if (cancel || follow_check(log, frame->first, error))
            call = follow_stream(runtime, log, API_STREAM, frame->lane,
                                 cancel ? RESPONSES_LAST : frame->first, error);
    } else {
        run_record *record = run_find(runtime, caller, id, false);
        if (record)
            api_refuse_expired(error, id);
        else
            api_refuse(error, 404, "response_not_found", "response_id",
                       "Response with id '%.100s' not found.", id);
        run_record_release(record);
    }
    run_log_release(log);
    return call;
}

api_call *api_frame_start(run_runtime *runtime, api_frame *frame, const run_caller *caller,
                          run_record *parent, run_listener listener)
{
    api_error error;
    api_context context = {
        .runtime = runtime, .caller = caller ? *caller : RUN_NOBODY, .listener = listener};
    responses_order order = {.body = frame->body,
                             .key = json_get_text(frame->body, "idempotency_key"),
                             .key_name = "idempotency_key",
                             .lane = frame->lane,
                             .parent = parent,
                             .kind = API_STREAM};
    bool again = frame->retrieve || frame->type == API_FRAME_CANCEL;
    api_call *call = again ? follow(runtime, frame, &context.caller, &error)
                           : responses_start(&context, &order, &error);
    if (call)
        return call;
    char *text = api_error_frame_text(&error, frame->lane);
    call = text ? call_text(error.status, text) : NULL;
    if (call)
        call->retry_after = error.retry_after;
    free(text);
    return call;
}

/* {"type":"response.steer.failed"} gives back what was sent, so that nothing is lost. */
static char *steer_failed(const api_frame *frame)
{
    buf out;
    const cJSON *input = json_get(frame->body, "input");
    const char *parent = api_frame_parent(frame);
    buf_init(&out, MAX_STEER_BYTES);
    buf_add_text(&out, "{\"type\":\"response.steer.failed\",\"sequence_number\":0");
    if (frame->lane) {
        buf_add_text(&out, ",\"stream_id\":");
        json_add_quoted(&out, json_text(frame->lane));
    }
    buf_printf(&out, ",\"error\":{\"type\":\"%s\",\"code\":\"%s\",\"message\":", frame->error.type,
               frame->error.code);
    json_add_quoted(&out, json_text(frame->error.message));
    buf_add_text(&out, "},\"steer\":{\"previous_response_id\":");
    json_add_quoted(&out, json_text(parent ? parent : ""));
    buf_add_text(&out, ",\"input\":");
    if (cJSON_IsString(input) || cJSON_IsArray(input))
        json_add(&out, input);
    else
        buf_add_text(&out, "\"\"");
    buf_add_text(&out, "}}");
    return buf_take(&out);
}

char *api_frame_error(const api_frame *frame)
{
    if (frame->steer)
        return steer_failed(frame);
    return api_error_frame_text(&frame->error, frame->lane);
}
