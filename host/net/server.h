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
    const char *listen;        /* "HOST:PORT", a loopback address; port 0: any free one */
    run_runtime *runtime;      /* outlives net_serve()                                  */
    size_t max_body;           /* 0: 32 MiB, of a body and of a socket message          */
    uint32_t max_connections;  /* 0: 1024                                               */
    uint32_t socket_lifetime;  /* 0: 3600; NET_FOREVER: no limit                        */
    uint32_t socket_grace;     /* 0: 30, for what runs when a socket's life is over     */
    uint32_t ping_interval;    /* 0: 30, for sockets; two misses end one                */
    uint32_t comment_interval; /* 0: 15, between bytes of an event stream               */
    uint32_t idle_timeout;     /* 0: 120, for an HTTP connection between requests       */
    uint32_t drain;            /* how long what runs may go on after net_stop(); 0: not */
    bool log_access;           /* a line for each answered request                     */
    metrics *metrics;          /* outlives the server; NULL: nothing is measured        */
    const char *const *keys;   /* n_keys secrets, one of which clients must show as     */
    size_t n_keys;             /* "Authorization: Bearer …"; 0: nobody needs one        */
} net_config;

#define NET_FOREVER UINT32_MAX

/* Binds and listens; clients wait until net_serve(). The error names the address.
 * Copies what config points at, but not the runtime. */
pawl_status net_open(const net_config *config, net_server **server, pawl_error *error);
/* The port that was bound. */
uint16_t net_port(const net_server *server);
/* Serves until net_stop(). Then it drains: new work is refused (503), idle sockets are
 * closed (1001), what runs may end, for `drain` seconds at most; then cancels what still
 * runs, closes all connections and returns, after 10 further seconds at the latest. */
pawl_status net_serve(net_server *server);
/* Ends net_serve(); a second call ends the draining, a third the waiting for clients.
 * From any thread, and from a signal handler. */
void net_stop(net_server *server);
void net_close(net_server *server); /* NULL allowed */

#endif /* NET_SERVER_H */
