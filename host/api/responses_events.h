/*
 * api/responses_events.h - a turn's events as a client of the Responses dialect sees them.
 *
 * A responses_stream numbers the events of one response from 0 and gathers its output
 * items, so that the closing Response holds exactly the items that were sent. It belongs
 * to one api_call and to the thread that has the call.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_RESPONSES_EVENTS_H
#define API_RESPONSES_EVENTS_H

#include "api/error.h"
#include "base/buf.h"
#include "run/log.h"

#define RESPONSES_LAST UINT64_MAX

typedef struct responses_stream responses_stream;

/* Takes from the request what it needs of it: id, time, echo. lane: stream_id that each
 * event carries, or NULL. NULL without memory. */
responses_stream *responses_stream_open(const run_request *request, const char *lane);
/* One that reads kept events. Takes the echo in every case. first: the number of the first
 * event that is sent, RESPONSES_LAST for the closing one alone; skipped: the events before
 * those that will come. */
responses_stream *responses_stream_resume(const run_log *log, cJSON *echo, const char *lane,
                                          uint64_t first, const run_tally *skipped);
/* One of run_replay()'s events. */
responses_stream *responses_stream_replay(const run_record *record, const char *lane);
/* How many events of the dialect so many events of run are. */
uint64_t responses_stream_numbers(const run_tally *tally, bool background);
void responses_stream_close(responses_stream *stream); /* NULL allowed */

/* One event of run; emit NULL: only gathers. The event stays the caller's, but for its
 * item, which is taken. */
void responses_stream_event(responses_stream *stream, run_event *event, api_emit emit, void *arg);

/* The response as it is now: queued or in progress. False: it did not fit. */
bool responses_stream_add(const responses_stream *stream, const char *status, buf *out);
/* An error instead of what should have come next. */
void responses_stream_lost(const responses_stream *stream, const api_error *error, api_emit emit,
                           void *arg);
/* After END: the whole answer of a call that does not stream. Returns the HTTP status. */
int responses_stream_body(responses_stream *stream, buf *out);

#endif /* API_RESPONSES_EVENTS_H */
