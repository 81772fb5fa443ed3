/*
 * api/call.c - an api_call's life: made on the worker, run and freed on net's loop.
 *
 * See api.h for the outside, call.h for the inside. Owns the body, the dialect's state
 * and its references to the turn and the record.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/call.h"

#include <stdlib.h>
#include <string.h>

static api_call *new_call(enum api_call_kind kind, int status)
{
    api_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->kind = kind;
    call->status = status;
    buf_init(&call->body, CALL_MAX_BODY);
    return call;
}

api_call *call_reply(int status)
{
    return new_call(API_REPLY, status);
}

api_call *call_text(int status, const char *json)
{
    api_call *call = call_reply(status);
    if (call && buf_add_text(&call->body, json))
        return call;
    api_call_free(call);
    return NULL;
}

void call_set_error(api_call *call, const api_error *error)
{
    char *text = api_error_text(error);
    buf_reset(&call->body);
    call->status = error->status;
    call->retry_after = error->retry_after;
    if (text)
        buf_add_text(&call->body, text);
    free(text);
}

api_call *call_refused(const api_error *error)
{
    api_call *call = call_reply(error->status);
    if (call)
        call_set_error(call, error);
    return call;
}

api_call *call_running(enum api_call_kind kind, const call_dialect *dialect, void *state)
{
    api_call *call = new_call(kind, 200);
    if (!call) {
        dialect->close(state);
        return NULL;
    }
    call->dialect = dialect;
    call->state = state;
    return call;
}

api_call *call_reading(enum api_call_kind kind, const call_dialect *dialect, void *state,
                       run_log *log, run_reader *reader)
{
    api_call *call = call_running(kind, dialect, state);
    if (!call) {
        run_reader_close(reader);
        return NULL;
    }
    memcpy(call->id, run_log_id(log), strlen(run_log_id(log)) + 1);
    call->log = run_log_retain(log);
    call->reader = reader;
    call->pulled = true;
    return call;
}

enum api_call_kind api_call_kind(const api_call *call)
{
    return call->kind;
}

int api_call_status(const api_call *call)
{
    return call->status;
}

const char *api_call_body(const api_call *call, size_t *size)
{
    *size = call->body.size;
    return buf_text(&call->body);
}

const char *api_call_content_type(const api_call *call)
{
    if (call->content_type)
        return call->content_type;
    return call->kind == API_STREAM ? "text/event-stream; charset=utf-8" : "application/json";
}

int api_call_retry_after(const api_call *call)
{
    return call->retry_after;
}

const char *api_call_id(const api_call *call)
{
    return *call->id ? call->id : NULL;
}

void api_call_event(api_call *call, run_event *event, api_emit emit, void *arg)
{
    bool stream = call->kind == API_STREAM;
    call->dialect->on_event(call, call->state, event, stream ? emit : NULL, stream ? arg : NULL);
    if (event->type == RUN_END || event->type == RUN_CHOICE_END) {
        call->usage.input_tokens = event->usage.input_tokens;
        call->usage.cached_tokens = event->usage.cached_tokens;
        call->usage.output_tokens += event->usage.output_tokens;
    }
    if (event->type == RUN_END) {
        call->record = event->record;
        event->record = NULL;
        call->times = event->times;
        call->stop_reason = event->stop_reason;
        call->done = true;
    }
    run_event_free(event);
}

bool api_call_done(const api_call *call)
{
    return call->done;
}

run_record *api_call_record(api_call *call)
{
    return call->record;
}

bool api_call_summary(const api_call *call, api_summary *summary)
{
    if (!call->record)
        return false;
    *summary = (api_summary){.model = call->record->model,
                             .response_id = call->record->id,
                             .stop_reason = call->stop_reason,
                             .usage = call->usage,
                             .times = call->times};
    return true;
}

bool api_call_is_pulled(const api_call *call)
{
    return call->pulled;
}

void api_call_on_more(api_call *call, void (*more)(void *arg), void *arg)
{
    run_reader_on_wake(call->reader, more, arg);
}

static void on_lost(api_call *call, api_emit emit, void *arg)
{
    api_error error;
    api_refuse_expired(&error, call->id);
    if (call->kind == API_FOLD)
        call_set_error(call, &error);
    else if (call->dialect->on_lost)
        call->dialect->on_lost(call->state, &error, emit, arg);
    call->done = true;
}

enum api_pull api_call_pull(api_call *call, api_emit emit, void *arg)
{
    run_event *event = NULL;
    switch (run_reader_next(call->reader, &event)) {
    case READ_EVENT:
        api_call_event(call, event, emit, arg);
        break;
    case READ_WAIT:
        return API_PULL_WAIT;
    case READ_OVER:
        call->done = true;
        break;
    case READ_LOST:
        on_lost(call, emit, arg);
        break;
    }
    return call->done ? API_PULL_DONE : API_PULL_MORE;
}

void api_call_unplug(api_call *call)
{
    run_reader_close(call->reader);
    call->reader = NULL;
}

void api_call_leave(api_call *call)
{
    if (call->pulled) /* it goes with its reader */
        return;
    if (call->log)
        run_log_leave(call->log);
    else
        api_call_cancel(call);
}

bool api_call_stays(const api_call *call)
{
    return call && call->log && run_log_stays(call->log);
}

void api_call_cancel(api_call *call)
{
    if (call->pulled)
        run_log_cancel(call->log);
    for (size_t i = 0; i < call->n_turns; i++)
        run_cancel(call->turns[i]);
}

void api_call_free(api_call *call)
{
    if (!call)
        return;
    run_reader_close(call->reader);
    run_log_release(call->log);
    if (call->dialect)
        call->dialect->close(call->state);
    for (size_t i = 0; i < call->n_turns; i++)
        run_turn_release(call->turns[i]);
    run_record_release(call->record);
    buf_clear(&call->body);
    free(call);
}
