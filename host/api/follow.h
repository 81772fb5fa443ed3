/*
 * api/follow.h - calls that read the events that are kept of a response.
 *
 * Each gives a call, or NULL and an error. The log stays the caller's. All run on run's
 * worker.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_FOLLOW_H
#define API_FOLLOW_H

#include "api/call.h"
#include "api/fields.h"

/* A reader from the oldest event that is kept; *skipped: what was before. *record: a
 * reference, of a response that has ended, else NULL. */
run_reader *follow_open(run_runtime *runtime, run_log *log, run_record **record, run_tally *skipped,
                        api_error *error);
/* In the Responses dialect: its events from the number `first` on (RESPONSES_LAST: the
 * closing one alone), or the Response when it has ended. lane: stream_id, or NULL. */
api_call *follow_stream(run_runtime *runtime, run_log *log, enum api_call_kind kind,
                        const char *lane, uint64_t first, api_error *error);
/* Of a background response: the Response, as soon as it is accepted. */
api_call *follow_accepted(run_runtime *runtime, run_log *log, api_error *error);
/* The Response, when it has ended, also where it failed. */
api_call *follow_end(run_runtime *runtime, run_log *log, api_error *error);

/* Whether the event `first` is kept, or is the next one to come. */
bool follow_check(run_log *log, uint64_t first, api_error *error);
/* starting_after, as text: what comes after it. */
bool follow_number(const char *text, uint64_t *first, api_error *error);
/* 404, always false. */
bool follow_refuse_unknown(api_error *error, const char *id);

#endif /* API_FOLLOW_H */
