/*
 * api/responses_follow.c - reading the events that are kept of a response.
 *
 *   GET /responses/{id}?stream=true&starting_after=N    from a place, then as they come
 *   response.retrieve                                   the same on a socket
 *   a background response                               for whoever asked for it
 *   POST /responses/{id}/cancel, response.cancel        until its end
 *
 * All make a call whose events net pulls. They are made anew from run's events, with the
 * numbers that they had. Runs on run's worker; the dialects' functions on net's loop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/follow.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/responses_events.h"
#include "api/responses_object.h"

bool follow_refuse_unknown(api_error *error, const char *id)
{
    return api_refuse(error, 404, NULL, NULL, "Response with id '%.100s' not found.", id);
}

/* ------------------------------------------------------------------- readers -- */

/* The echo of a response, whether it runs or has ended; record: of an ended one. */
static cJSON *echo_of(run_log *log, const run_record *record)
{
    cJSON *echo = NULL;
    run_request *request = record ? NULL : run_log_request(log);
    if (request)
        echo = cJSON_Duplicate(request->echo, true);
    else if (record && json_parse(record->request, strlen(record->request), &echo, NULL) != PAWL_OK)
        echo = NULL;
    run_request_free(request);
    return echo;
}

/* The stored response of a log, whole. */
static run_record *find_own(run_runtime *runtime, const run_log *log)
{
    run_caller owner = RUN_NOBODY;
    snprintf(owner.tenant, sizeof owner.tenant, "%s", run_log_tenant(log));
    return run_find(runtime, &owner, run_log_id(log), false);
}

run_reader *follow_open(run_runtime *runtime, run_log *log, run_record **record, run_tally *skipped,
                        api_error *error)
{
    run_reader *reader = run_reader_open(log, skipped);
    *record = NULL;
    if (!reader) {
        api_refuse_memory(error);
        return NULL;
    }
    if (run_log_is_running(log)) /* its end will bring the record along */
        return reader;
    *record = run_log_record(log);
    if (!*record && run_log_is_stored(log))
        *record = find_own(runtime, log);
    if (*record) {
        run_reader_give(reader, *record);
        return reader;
    }
    run_reader_close(reader);
    follow_refuse_unknown(error, run_log_id(log));
    return NULL;
}

/* ------------------------------------------------------------------ streaming -- */

static void on_event(api_call *call, void *state, run_event *event, api_emit emit, void *arg)
{
    responses_stream_event(state, event, emit, arg);
    if (call->kind == API_FOLD && event->type == RUN_END)
        call->status = responses_stream_body(state, &call->body);
}

static void close_stream(void *state)
{
    responses_stream_close(state);
}

static void on_lost(void *state, const api_error *error, api_emit emit, void *arg)
{
    responses_stream_lost(state, error, emit, arg);
}

static const call_dialect stream_dialect = {on_event, close_stream, on_lost};

api_call *follow_stream(run_runtime *runtime, run_log *log, enum api_call_kind kind,
                        const char *lane, uint64_t first, api_error *error)
{
    run_record *record;
    run_tally skipped;
    run_reader *reader = follow_open(runtime, log, &record, &skipped, error);
    if (!reader)
        return NULL;
    cJSON *echo = echo_of(log, record);
    run_record_release(record);
    responses_stream *stream = responses_stream_resume(log, echo, lane, first, &skipped);
    if (!stream) {
        run_reader_close(reader);
        api_refuse_memory(error);
        return NULL;
    }
    api_call *call = call_reading(kind, &stream_dialect, stream, log, reader);
    if (!call)
        api_refuse_memory(error);
    return call;
}

bool follow_check(run_log *log, uint64_t first, api_error *error)
{
    run_tally seen, dropped;
    bool background = run_log_is_background(log);
    run_log_tally(log, &seen, &dropped);
    uint64_t total = responses_stream_numbers(&seen, background);
    if (first < responses_stream_numbers(&dropped, background))
        return api_refuse_expired(error, run_log_id(log));
    if (first <= total)
        return true;
    return api_refuse(error, 409, "cursor_expired", "starting_after",
                      "Response '%.100s' has no event %" PRIu64 ": there are %" PRIu64
                      " so far. GET /v1/responses/%.100s without 'stream' gives what there is.",
                      run_log_id(log), first - 1, total, run_log_id(log));
}

bool follow_number(const char *text, uint64_t *first, api_error *error)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && n < FIELD_MAX_INTEGER) {
        *first = (uint64_t)n + 1;
        return true;
    }
    return api_refuse(error, 400, "invalid_value", "starting_after",
                      "Invalid value for 'starting_after': the sequence_number of the last event "
                      "that was received is expected.");
}

/* -------------------------------------------------------------- until accepted -- */

/* The answer to who asks for a background response without wanting to see its events: it
 * is queued, and the store has it. */
static void on_accepted(api_call *call, void *state, run_event *event, api_emit emit, void *arg)
{
    (void)emit;
    (void)arg;
    if (event->type == RUN_CREATED) {
        if (!responses_stream_add(state, "queued", &call->body))
            call->status = 500;
        call->done = true;
    } else if (event->type == RUN_END) { /* it never came so far */
        responses_stream_event(state, event, NULL, NULL);
        call->status = responses_stream_body(state, &call->body);
    }
}

static const call_dialect accepted_dialect = {on_accepted, close_stream, NULL};

api_call *follow_accepted(run_runtime *runtime, run_log *log, api_error *error)
{
    api_call *call = follow_stream(runtime, log, API_FOLD, NULL, 0, error);
    if (call)
        call->dialect = &accepted_dialect;
    return call;
}

/* ----------------------------------------------------------------- until its end -- */

static void on_ended(api_call *call, void *state, run_event *event, api_emit emit, void *arg)
{
    api_error error;
    (void)state;
    (void)emit;
    (void)arg;
    if (event->type != RUN_END ||
        (event->record && responses_record_add(&call->body, event->record)))
        return;
    api_refuse_memory(&error);
    call_set_error(call, &error);
}

static void close_nothing(void *state)
{
    (void)state;
}

static const call_dialect ended_dialect = {on_ended, close_nothing, NULL};

api_call *follow_end(run_runtime *runtime, run_log *log, api_error *error)
{
    run_record *record;
    run_tally skipped;
    run_reader *reader = follow_open(runtime, log, &record, &skipped, error);
    run_record_release(record);
    if (!reader)
        return NULL;
    api_call *call = call_reading(API_FOLD, &ended_dialect, NULL, log, reader);
    if (!call)
        api_refuse_memory(error);
    return call;
}
