/*
 * api/api.h - the dialects, as host/net sees them: bytes in, bytes out.
 *
 * net knows sockets and no dialect; api knows dialects and no socket. A request
 * becomes an api_call, which is either answered at once (a reply) or runs: then
 * the events of its turn come to the listener that net gave, net brings them to
 * its loop thread and hands each to api_call_event(), which turns it into what
 * the client is sent.
 *
 *   HTTP   body ──api_http()──► api_call ── reply, or events ──► SSE blocks / one body
 *   socket frame ─api_frame_parse()─► api_frame ─api_frame_start()─► api_call ── events ──► frames
 *
 * [worker]: on run's worker thread, through run_defer(). [loop]: on net's thread.
 * A call may also read the events that are kept of a response (run/log.h), from the
 * beginning or from a place: then net pulls them at the pace of its client.
 *
 * An api_call and an api_frame belong to one thread at a time; handing them over
 * through a queue is the only synchronisation they need.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_API_H
#define API_API_H

#include "run/runtime.h"

typedef struct api_call api_call;
typedef struct api_frame api_frame;

/* ------------------------------------------------------------------- HTTP ---- */

typedef struct api_http_request {
    const char *method; /* "GET", "POST", "DELETE"                            */
    const char *path;   /* percent-decoded, without query: "/v1/responses/resp_…" */
    const char *query;  /* raw, without '?'; "" none                          */
    const char *body;   /* body_size bytes; NULL where there is none          */
    size_t body_size;
    const char *request_id;   /* also in the header x-request-id                    */
    const char *key;          /* Idempotency-Key, or NULL                           */
    const run_caller *caller; /* who asks; NULL: RUN_NOBODY                         */
} api_http_request;

enum api_call_kind {
    API_REPLY, /* status and body are there, nothing else will come              */
    API_FOLD,  /* events come; when api_call_done(), status and body are there   */
    API_STREAM /* events come, each makes blocks for the client (SSE, status 200),
                * or frames on a socket                                          */
};

/* What a key must allow for this request (enum store_scope); 0: none is needed. What no
 * endpoint answers is asked for like inference, so that strangers learn nothing. [any] */
uint32_t api_scope_needed(const char *method, const char *path);

/* The endpoint of a request as its pattern, "/responses/{id}": one of few, whatever
 * clients ask for; "none" where there is none. Static. [any] */
const char *api_endpoint(const char *method, const char *path);
/* Routes one whole request. Never NULL unless there is no memory. [worker] */
api_call *api_http(run_runtime *runtime, const api_http_request *request, run_listener listener);

/* ----------------------------------------------------------------- socket ---- */

/* What a text frame asks for. */
enum api_frame_type {
    API_FRAME_CREATE, /* response.create or .retrieve: start it when its lane is free */
    API_FRAME_CANCEL, /* response.cancel: of api_frame_response_id or of the lane */
    API_FRAME_REFUSED /* send api_frame_error() and go on                        */
};

/* Parses one text frame. Never NULL unless there is no memory. [worker] */
api_frame *api_frame_parse(run_runtime *runtime, const char *data, size_t size);
enum api_frame_type api_frame_type(const api_frame *frame);
const char *api_frame_lane(const api_frame *frame);   /* stream_id, or NULL: the default lane */
const char *api_frame_parent(const api_frame *frame); /* previous_response_id, or NULL */
const char *api_frame_response_id(const api_frame *frame); /* of a cancel, or NULL */
void api_frame_free(api_frame *frame);

/* Ends a response of this caller's whose events are kept. False: there is none that runs.
 * [any] */
bool api_cancel(run_runtime *runtime, const run_caller *caller, const char *response_id);
/* Starts a CREATE frame; or a CANCEL frame, which is answered by the closing event. caller: who
 * asks; NULL: RUN_NOBODY. parent: the record from the connection's memory, borrowed, or NULL: api
 * looks in the store. The frame stays the caller's. The kind is API_STREAM, or API_REPLY when
 * refused: then api_call_body() is the error frame. [worker]
 */
api_call *api_frame_start(run_runtime *runtime, api_frame *frame, const run_caller *caller,
                          run_record *parent, run_listener listener);

/* The text of an error frame, to be free()d; lane may be NULL. For what net itself
 * refuses (lane limits, queue full, binary frames, time limit). [any] */
char *api_error_frame(int status, const char *type, const char *code, const char *param,
                      const char *message, const char *lane);
char *api_frame_error(const api_frame *frame); /* of a REFUSED frame, to be free()d */

/* ------------------------------------------------------------------- both ---- */

/* What a turn came to, for logs. Texts are borrowed from the call. */
typedef struct api_summary {
    const char *model;
    const char *response_id;
    const char *stop_reason;
    run_usage usage;
    run_times times;
} api_summary;

enum api_call_kind api_call_kind(const api_call *call);
int api_call_status(const api_call *call);                     /* HTTP status         */
const char *api_call_body(const api_call *call, size_t *size); /* of a reply       */
const char *api_call_content_type(const api_call *call);
int api_call_retry_after(const api_call *call); /* seconds; 0: no header */
const char *api_call_id(const api_call *call);  /* "resp_…", or NULL    */

/* Sends one message to the client: an event's name and its JSON text. name NULL: an
 * SSE block without an event line. */
typedef void (*api_emit)(void *arg, const char *name, const char *json, size_t size);

/* Takes one event of the call's turn (the event becomes api's) and emits what the
 * client is to see of it. For API_FOLD it emits nothing. [loop] */
void api_call_event(api_call *call, run_event *event, api_emit emit, void *arg);
bool api_call_done(const api_call *call); /* END has come                    */

enum api_pull {
    API_PULL_MORE, /* ask again                                              */
    API_PULL_WAIT, /* more() will be called when there is something          */
    API_PULL_DONE  /* nothing else comes                                     */
};

/* Whether its events are to be pulled; then none comes to the listener. [any] */
bool api_call_is_pulled(const api_call *call);
/* Who is to be called, from any thread, after API_PULL_WAIT. [loop] */
void api_call_on_more(api_call *call, void (*more)(void *arg), void *arg);
/* The next event, as api_call_event(). [loop] */
enum api_pull api_call_pull(api_call *call, api_emit emit, void *arg);
/* Stops reading; more() is not called from here on. [loop] */
void api_call_unplug(api_call *call);
/* False: no turn of this call has ended. [loop] */
bool api_call_summary(const api_call *call, api_summary *summary);
run_record *api_call_record(api_call *call); /* after END, borrowed; may be NULL */
/* The client is gone: as it was asked for, the turn ends or runs on. END will still come. [any] */
void api_call_leave(api_call *call);
bool api_call_stays(const api_call *call); /* whether it runs on when its client goes. [any] */
void api_call_cancel(api_call *call);      /* the turn ends; END will still come. [any] */
void api_call_free(api_call *call);        /* after END or for a reply. NULL allowed */

/* A whole error body {"error":{…}}, to be free()d. [any] */
char *api_error_body(const char *type, const char *code, const char *param, const char *message);

#endif /* API_API_H */
