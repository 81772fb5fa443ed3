/*
 * net/http_head.h - the head of a request, read from libwebsockets and judged.
 *
 * Everything that can be refused without the body is refused here: a broken head, a
 * Host or Origin that may not ask, a missing key, a body that is too large,
 * a server that is full or stops. Loop thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_HTTP_HEAD_H
#define NET_HTTP_HEAD_H

#include "net/conn.h"

#include "base/clock.h"

typedef struct http_head {
    const char *method;    /* static: "GET", "POST", …                      */
    char *path;            /* decoded; NULL: it could not be read           */
    char *query;           /* encoded, "" none                              */
    char *key;             /* Idempotency-Key, or NULL                      */
    uint64_t body_size;    /* of Content-Length                             */
    bool chunked;          /* the body has no length but chunks             */
    bool bodiless;         /* neither                                       */
    bool expects_continue; /* the client waits for 100 Continue             */
    bool http_1_0;
    bool close;       /* the client wants the connection closed              */
    bool preflight;   /* a browser asks whether a page may ask               */
    const char *cors; /* the server's: for Access-Control-Allow-Origin, or NULL */
} http_head;

/* Why a request is refused. */
typedef struct http_refusal {
    int status;
    int retry_after;  /* seconds; 0: no header */
    const char *type; /* static, like code     */
    const char *code;
    char message[200];
} http_refusal;

/* Fills a refusal; type and retry_after follow from the status. Always false. */
bool http_refuse(http_refusal *refusal, int status, const char *code, const char *format, ...)
    PAWL_PRINTF(4, 5);

/* Reads the head of the current request. False: *refusal says why not; the head is to
 * be cleared all the same. */
bool http_head_read(conn *c, http_head *head, http_refusal *refusal);
void http_head_clear(http_head *head);
/* Whether this client may ask for this at all; then c->caller is who it is. */
bool http_head_admit(conn *c, http_head *head, http_refusal *refusal);
/* Whether this may still be asked for: a server that drains takes no new work, but says
 * how it is. */
bool http_head_in_time(conn *c, const http_head *head, http_refusal *refusal);
/* Whether it asks for /livez, or for /readyz or /health, which the loop answers itself. */
bool http_head_is_live(const http_head *head);
bool http_head_is_ready(const http_head *head);
/* Whether it asks for /metrics. */
bool http_head_is_metrics(const http_head *head);
/* The client's own X-Request-Id, if it is a plain one. False: there is none. */
bool http_head_request_id(conn *c, char id[CLOCK_ID_SIZE]);
/* Whether the head is a WebSocket handshake that can be granted; otherwise *why (static)
 * tells what is missing. The path is judged too: *why is NULL when no socket lives there. */
bool http_head_is_handshake(conn *c, const http_head *head, const char **why);

#endif /* NET_HTTP_HEAD_H */
