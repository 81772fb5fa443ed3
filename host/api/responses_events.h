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

#include "api/api.h"
#include "base/buf.h"

typedef struct responses_stream responses_stream;

/* Takes from the request what it needs of it: id, time, echo. lane: stream_id that each
 * event carries, or NULL. NULL without memory. */
responses_stream *responses_stream_open(const run_request *request, const char *lane);
void responses_stream_close(responses_stream *stream); /* NULL allowed */

/* One event of run; emit NULL: only gathers. The event stays the caller's, but for its
 * item, which is taken. */
void responses_stream_event(responses_stream *stream, run_event *event, api_emit emit, void *arg);

/* After END: the whole answer of a call that does not stream. Returns the HTTP status. */
int responses_stream_body(responses_stream *stream, buf *out);

#endif /* API_RESPONSES_EVENTS_H */
