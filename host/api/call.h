/*
 * api/call.h - what an api_call is inside the room, and how a dialect fills it.
 *
 * A call is made by one of the makers below and handed to net. One that runs has a
 * dialect: a table of functions over its own state, through which the events of its
 * turn go.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_CALL_H
#define API_CALL_H

#include "api/error.h"
#include "base/buf.h"
#include "run/log.h"

#define CALL_MAX_BODY ((size_t)512 << 20) /* bytes of a reply */

typedef struct call_dialect {
    /* One event; emit is NULL for API_FOLD. At END of an API_FOLD it sets status and
     * body. What it wants to keep of the event it takes out of it. [loop] */
    void (*on_event)(api_call *call, void *state, run_event *event, api_emit emit, void *arg);
    void (*close)(void *state);
    /* The events that were to come next are no longer kept: says so to the client of an
     * API_STREAM. NULL: nothing is said. [loop] */
    void (*on_lost)(void *state, const api_error *error, api_emit emit, void *arg);
} call_dialect;

struct api_call {
    enum api_call_kind kind;
    int status;
    int retry_after;
    buf body;
    const char *content_type;         /* NULL: that of its kind; static     */
    char id[CLOCK_ID_SIZE];           /* "" none                            */
    const call_dialect *dialect;      /* NULL: a reply                      */
    void *state;                      /* the dialect's                      */
    run_turn *turns[RUN_MAX_CHOICES]; /* n_turns that can be cancelled      */
    size_t n_turns;
    run_log *log;       /* a reference: of its events, or NULL    */
    run_reader *reader; /* of it, where events are pulled; or NULL */
    bool pulled;
    run_record *record; /* after END                          */
    run_usage usage;    /* the same, of all choices           */
    run_times times;
    const char *stop_reason;
    bool done;
};

/* All of these: NULL without memory. */
api_call *call_reply(int status);               /* its body is to be filled          */
api_call *call_refused(const api_error *error); /* an HTTP error                     */
api_call *call_text(int status, const char *json);
/* Takes the state in every case. */
api_call *call_running(enum api_call_kind kind, const call_dialect *dialect, void *state);
/* The same, but its events are pulled from a log. Takes state and reader; the log's
 * reference stays the caller's. */
api_call *call_reading(enum api_call_kind kind, const call_dialect *dialect, void *state,
                       run_log *log, run_reader *reader);
/* Sets status and body from an error, for a FOLD that ends badly. */
void call_set_error(api_call *call, const api_error *error);

#endif /* API_CALL_H */
