/*
 * net/http.h - a connection that speaks HTTP: one request after another.
 *
 *   IDLE ─ head ─► BODY ─ all of it ─► READY ─ worker ─► RUNNING ─ answer ─► REPLY ─► IDLE
 *     └── refused ───┴──────────────────────────────────────────────────────►┘   └─► LINGER
 *
 * http.c takes requests, http_reply.c answers them. Loop thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "net/chunked.h"
#include "net/exchange.h"
#include "net/http_head.h"

#include "base/clock.h"

enum http_phase {
    HTTP_IDLE,    /* waits for a head                                              */
    HTTP_BODY,    /* reads a body                                                  */
    HTTP_READY,   /* the request is whole; the next writable moment starts it      */
    HTTP_RUNNING, /* the worker has it, or its turn runs; events may be streamed   */
    HTTP_REPLY,   /* all that will be sent is known                                */
    HTTP_LINGER   /* answered without reading the body: what still comes is dropped */
};

/* One request while it is answered. */
typedef struct http_exchange {
    exchange base; /* first */
    char *path;
    char *query;
    char *key; /* Idempotency-Key, or NULL */
    const char *method;
    char *body; /* freed as soon as the call is made */
    size_t body_size;
    char request_id[CLOCK_ID_SIZE];
    run_caller caller;
    int64_t began; /* for its access line, like the two below */
    uint64_t bytes;
    int status;
} http_exchange;

typedef struct http_conn {
    conn base; /* first */
    enum http_phase phase;
    http_head head;
    char request_id[CLOCK_ID_SIZE];
    const char *bad_upgrade; /* why a handshake became a plain request (static) */
    buf body;
    chunked chunks;
    bool body_read;    /* nothing of the request is left on the wire          */
    bool rx_paused;    /* reading is off, until there is something to write   */
    unsigned restless; /* rounds with more data than the request, or lingering  */

    http_exchange *exchange;
    int status;     /* of the reply; 0: none was begun                     */
    uint64_t sent;  /* bytes of it                                         */
    int64_t began;  /* monotonic ns, of the request                        */
    bool streaming; /* the reply is an event stream                        */
    bool moved;     /* bytes went either way since the timer went off      */
    bool close;     /* the connection ends after this reply                */
    char *text;     /* a body of our own, else it is the call's            */
    const char *reply;
    size_t reply_size;
    size_t reply_sent;
} http_conn;

/* A connection that was just accepted. NULL without memory. */
conn *http_open(net_server *server, struct lws *wsi);
/* A handshake: 0 grants it; or makes the request a plain one that will be refused, by
 * blanking the value of its Upgrade header, which libwebsockets looks at afterwards;
 * -1: close. */
int http_upgrade(conn *c, char *value);

/* http_reply.c */
void http_reply_refusal(http_conn *h, const http_refusal *refusal);
/* To a browser that asks whether a page of an allowed origin may ask. */
void http_reply_preflight(http_conn *h);
/* A body that needs nobody: static. */
void http_reply_static(http_conn *h, const char *json);
/* The answer of the call: a whole body. */
void http_reply_call(http_conn *h, const api_call *call);
/* The head of an event stream, one of its messages, its end. */
void http_stream_begin(http_conn *h, const api_call *call);
void http_stream_message(http_conn *h, const char *name, const char *json, size_t size);
void http_stream_comment(http_conn *h);
/* Half of what may pass between bytes of a stream. */
int http_stream_tick(const http_conn *h);
void http_stream_end(http_conn *h);
/* Writes the next piece. Nonzero: the connection is broken. */
int http_write(http_conn *h);
bool http_has_output(const http_conn *h);

#endif /* NET_HTTP_H */
