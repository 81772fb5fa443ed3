/*
 * net/conn.h - what all connections have in common, and the server that holds them.
 *
 * A conn is born when a client connects and is told of every libwebsockets callback
 * of its socket. It is counted, because a request may outlive its client: the
 * socket holds one reference, every exchange and every deferred job another. When
 * the client goes, `wsi` becomes NULL and nothing is sent any more. Loop thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_CONN_H
#define NET_CONN_H

#include "net/inbox.h"
#include "net/outq.h"
#include "net/server.h"

#include "base/buf.h"

#include <libwebsockets.h>

#include <stdatomic.h>

typedef struct conn conn;

/* What an HTTP connection and a socket do differently. */
typedef struct conn_kind {
    /* A callback of libwebsockets; nonzero closes the connection. */
    int (*on_callback)(conn *c, enum lws_callback_reasons reason, void *in, size_t len);
    void (*on_gone)(conn *c); /* the client has gone; wsi is NULL already     */
    /* The server stops: end by yourself within so many seconds; 0: now. */
    void (*on_stop)(conn *c, int grace);
    void (*free)(conn *c); /* the last reference is gone                   */
} conn_kind;

struct conn {
    const conn_kind *kind;
    net_server *server;
    struct lws *wsi; /* NULL: the client has gone */
    conn *next;      /* in the server's list      */
    conn *previous;
    unsigned references;
    bool killed; /* it is to close without a word */
    outq out;
};

/* What is measured (access.c); NULL each where nothing is. */
typedef struct net_measures {
    metric_family *requests; /* by endpoint and status */
    metric *connections;
    metric *sockets;
    metric *lanes;
    metric *jobs;
    metric *queued;
    metric *slow;
} net_measures;

struct net_server {
    run_runtime *runtime;
    const base_clock *clock; /* the runtime's, which it outlives */
    size_t max_body;
    uint32_t max_connections;
    int socket_lifetime; /* all in seconds; 0: no limit */
    int socket_grace;
    int comment_interval;
    int idle_timeout;
    int drain;
    bool log_access;
    net_measures measures;
    char **keys;
    size_t n_keys;

    struct lws_context *context;
    struct lws_vhost *vhost;
    struct lws_protocols protocols[2];
    lws_retry_bo_t ping;
    lws_sorted_usec_list_t deadline; /* of the end of net_serve() */
    inbox inbox;                     /* [any]                     */
    atomic_uint stops;               /* calls of net_stop(). [any] */
    bool draining;                   /* nothing new is taken      */
    bool stopping;                   /* what ran is cancelled     */
    bool expired;                    /* the deadline has come     */

    conn *conns;
    uint32_t n_conns; /* sockets that are open                              */
    uint32_t n_sockets;
    uint32_t n_lanes;  /* of all sockets, that run a turn                    */
    uint32_t n_jobs;   /* exchanges that are not over and jobs that are out  */
    size_t body_bytes; /* of all bodies and messages that are being received */
    buf scratch;       /* for one message that is being built                */
};

/* Bodies that are being received, of all connections together. */
#define NET_MAX_BODY_BYTES ((size_t)512 << 20)

/* Puts a new conn into the server's list, with the reference of its socket. */
void conn_init(conn *c, const conn_kind *kind, net_server *server, struct lws *wsi);
void conn_retain(conn *c);
void conn_release(conn *c);
/* The socket is no more: tells the kind and drops the socket's reference. */
void conn_gone(conn *c);

/* Queues bytes and asks for a turn to write. A client that reads too slowly is killed.
 * Nothing happens when it has gone. */
void conn_send(conn *c, const void *data, size_t size);
void conn_want_write(conn *c);
/* Closes soon, whatever is still to be sent. */
void conn_kill(conn *c, const char *why);
/* Calls back with LWS_CALLBACK_TIMER after so many seconds, once; 0: not any more. */
void conn_set_timer(conn *c, int seconds);
/* Counts bytes of a body that comes in against NET_MAX_BODY_BYTES; false: too many. */
bool conn_count_bytes(conn *c, size_t more);
void conn_uncount_bytes(conn *c, size_t less);

#endif /* NET_CONN_H */
