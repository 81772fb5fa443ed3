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

#include "net/allow.h"
#include "net/inbox.h"
#include "net/keyring.h"
#include "net/outq.h"
#include "net/peers.h"
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
    /* Whether there is something to send, and whether a body or a message has begun to
     * come and has not ended. For conn_watch(). */
    bool (*is_sending)(const conn *c);
    bool (*is_receiving)(const conn *c);
    void (*on_slow)(conn *c); /* what it sends comes too slowly: refuse it    */
    void (*free)(conn *c);    /* the last reference is gone                   */
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
    peer *peer;                 /* its address, or NULL                                  */
    run_caller caller;          /* who asks: the key of the current request, or of the socket */
    uint64_t acknowledged;      /* bytes, by the client's kernel, when last looked at      */
    lws_usec_t unsent_since;    /* when a byte left last, while some wait; 0: none wait  */
    lws_usec_t receiving_since; /* begin of the window in which bytes are counted        */
    size_t received;            /* in it                                                 */
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
    const run_pipelines *pipelines; /* NULL: none */
    const base_clock *clock;        /* the runtime's, which it outlives */
    size_t max_body;
    uint32_t max_connections;
    int socket_lifetime; /* all in seconds; 0: no limit */
    int socket_grace;
    int comment_interval;
    int idle_timeout;
    int header_timeout;
    int body_timeout;
    int write_timeout;
    int drain;
    uint32_t max_per_address; /* of one client address                       */
    bool loopback_counts;     /* the same holds for loopback                 */
    bool log_access;
    bool tls;
    char shown[64]; /* "http://127.0.0.1:8080"                     */
    keyring *keys;
    allow_list allow;
    peers peers;
    net_measures measures;

    struct lws_context *context;
    struct lws_vhost *vhost;
    struct lws_protocols protocols[2];
    lws_retry_bo_t ping;
    lws_sorted_usec_list_t deadline; /* of the end of net_serve() */
    lws_sorted_usec_list_t watch;    /* looks at all connections every second */
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
    size_t out_bytes;  /* of all out-queues                                  */
    buf scratch;       /* for one message that is being built                */
};

/* Of all connections together: bodies that are being received; what waits to be sent,
 * beyond which the queues that are longer than their share are given up. */
#define NET_MAX_BODY_BYTES ((size_t)512 << 20)
#define NET_MAX_OUT_BYTES ((size_t)512 << 20)
#define NET_OUT_SHARE ((size_t)256 << 10)
/* Of a body or a message there must come so much in each body_timeout. */
#define NET_MIN_RECEIVED 1024

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
/* The oldest message has been written, or a piece of something else was: drops it, and
 * notes that the client reads. */
void conn_sent(conn *c, bool from_queue);
/* Every second: gives up who does not read, and tells the kind of who sends too slowly. */
void conn_watch(conn *c, lws_usec_t now);
/* It goes on as another kind of connection: its address and its key move. */
void conn_inherit(conn *to, peer *from, const run_caller *caller);
/* Closes soon, whatever is still to be sent. */
void conn_kill(conn *c, const char *why);
/* Ends the transport at once; libwebsockets, which closes next, would wait for the client
 * to agree. */
void conn_cut(conn *c);
/* Calls back with LWS_CALLBACK_TIMER after so many seconds, once; 0: not any more. */
void conn_set_timer(conn *c, int seconds);
/* Counts bytes of a body that comes in against NET_MAX_BODY_BYTES; false: too many. */
bool conn_count_bytes(conn *c, size_t more);
void conn_uncount_bytes(conn *c, size_t less);

#endif /* NET_CONN_H */
