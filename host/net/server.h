/*
 * net/server.h - the server: HTTP, server-sent events and WebSocket on one port.
 *
 * One thread, the loop, owns every connection; it is the thread that calls
 * net_serve(). Requests go to run's worker, events come back from the worker, the
 * engine and the store through one inbox. Order of life:
 *
 *   net_open()  net_serve() … net_stop() from anywhere  run_close()  net_close()
 *
 * net_close() comes after run_close(), because turns that are still running give
 * their last event to the server.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include "run/runtime.h"

typedef struct net_server net_server;

/* Where 0 is given, the number after it holds, but for drain. Times are in seconds. */
typedef struct net_config {
    const char *listen;         /* "HOST:PORT"; port 0: any free one. Other addresses than
                                 * loopback only with keys                               */
    run_runtime *runtime;       /* outlives net_serve()                                  */
    size_t max_body;            /* 0: 32 MiB, of a body and of a socket message          */
    uint32_t max_connections;   /* 0: 1024                                               */
    uint32_t socket_lifetime;   /* 0: 3600; NET_FOREVER: no limit                        */
    uint32_t socket_grace;      /* 0: 30, for what runs when a socket's life is over     */
    uint32_t ping_interval;     /* 0: 15, for sockets; five misses end one               */
    uint32_t comment_interval;  /* 0: 15, between bytes of an event stream               */
    uint32_t idle_timeout;      /* 0: 120, for an HTTP connection between requests       */
    uint32_t header_timeout;    /* 0: 10, from a connection to its first whole head      */
    uint32_t body_timeout;      /* 0: 15, in which 1 KiB of a body or a message must come */
    uint32_t write_timeout;     /* 0: 30, in which a client must take a byte of what waits */
    uint32_t max_per_address;   /* connections of one client; 0: a quarter of all, and
                                 * from loopback all                                     */
    const char *key_file;       /* a key a line, or NULL. Where there are keys (also of   */
    const char *key;            /* the store), clients must show one. One more, or NULL  */
    const char *const *hosts;   /* n_hosts names that clients may call it by, beside its */
    size_t n_hosts;             /* own; "*": any                                         */
    const char *const *origins; /* n_origins pages that may use it; "*": any             */
    size_t n_origins;
    const char *tls_cert; /* PEM files, or NULL both: no TLS                       */
    const char *tls_key;
    uint32_t drain;   /* how long what runs may go on after net_stop(); 0: not       */
    bool log_access;  /* a line for each answered request                           */
    metrics *metrics; /* outlives the server; NULL: nothing is measured              */
} net_config;

#define NET_FOREVER UINT32_MAX

/* Binds and listens; clients wait until net_serve(). The error says what is amiss.
 * Copies what config points at, but not the runtime. */
pawl_status net_open(const net_config *config, net_server **server, pawl_error *error);
/* The port that was bound. */
uint16_t net_port(const net_server *server);
/* "https://0.0.0.0:8443"; as long as the server. */
const char *net_shown_address(const net_server *server);
/* Serves until net_stop(). Then it drains: new work is refused (503), idle sockets are
 * closed (1001), what runs may end, for `drain` seconds at most; then cancels what still
 * runs, closes all connections and returns, after 10 further seconds at the latest. */
pawl_status net_serve(net_server *server);
/* Ends net_serve(); a second call ends the draining, a third the waiting for clients.
 * From any thread, and from a signal handler. */
void net_stop(net_server *server);
void net_close(net_server *server); /* NULL allowed */

#endif /* NET_SERVER_H */
