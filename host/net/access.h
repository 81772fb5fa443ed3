/*
 * net/access.h - one log line and one count for each request that was answered.
 *
 * The line says who asked for what and what it took, never what was said. A request
 * whose client went before its answer was complete is logged with the status 499.
 * Loop thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_ACCESS_H
#define NET_ACCESS_H

#include "net/conn.h"

#include "api/api.h"

#define ACCESS_GONE 499 /* the client did not wait for the answer */

typedef struct access_entry {
    const char *method; /* "WS": a message on a socket                        */
    const char *path;
    int status;
    uint64_t bytes;         /* that were sent                                     */
    int64_t began;          /* monotonic ns; 0: not known                         */
    const char *request_id; /* or NULL                                            */
    const char *lane;       /* of a socket, or NULL                               */
    const char *code;       /* of a refusal on a socket, or NULL                  */
    const api_call *call;   /* where its turn has ended; NULL: none               */
} access_entry;

/* Finds the series; all may be NULL. */
void access_open(net_server *server, metrics *all);
void access_write(const net_server *server, const access_entry *entry);
/* Sets the gauges, for whoever is about to ask for the metrics: those are written on the
 * worker, and connections are the loop's. */
void access_collect(const net_server *server);
int64_t access_now(const net_server *server); /* for began */

#endif /* NET_ACCESS_H */
