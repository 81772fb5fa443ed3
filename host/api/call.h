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

#define CALL_MAX_BODY ((size_t)512 << 20) /* bytes of a reply */

typedef struct call_dialect {
    /* One event; emit is NULL for API_FOLD. At END of an API_FOLD it sets status and
     * body. What it wants to keep of the event it takes out of it. [loop] */
    void (*on_event)(api_call *call, void *state, run_event *event, api_emit emit, void *arg);
    void (*close)(void *state);
    void (*cancel)(void *state); /* END is wanted soon; NULL: its turns are cancelled. [any] */
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
/* Sets status and body from an error, for a FOLD that ends badly. */
void call_set_error(api_call *call, const api_error *error);

#endif /* API_CALL_H */
