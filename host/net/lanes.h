/*
 * net/lanes.h - the lanes of one socket: who runs, who waits, what is remembered.
 *
 * A request names a lane, or none: the default lane. Requests of one lane run one
 * after another in their order, lanes run in parallel, at most LANES_MAX_RUNNING at a
 * time; among heads of idle lanes the oldest goes first. The socket remembers the
 * responses of its lanes, so that a next turn finds its parent though no store has it.
 *
 * Knows no socket and no JSON: requests are opaque. Loop thread only; everything here
 * belongs to the lanes object, a lane lives as long as it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_LANES_H
#define NET_LANES_H

#include "run/record.h"

#define LANES_MAX_NAMED 32
#define LANES_MAX_RUNNING 16
#define LANES_MAX_WAITING 64                       /* requests                     */
#define LANES_MAX_WAITING_BYTES ((size_t)64 << 20) /* of them                      */
#define LANES_MAX_RECORDS 64                       /* more than there can be lanes */

typedef struct lanes lanes;
typedef struct lane lane;

enum lanes_answer {
    LANES_ADDED,
    LANES_TOO_MANY,   /* a lane more than LANES_MAX_NAMED  */
    LANES_QUEUE_FULL, /* too many requests or bytes wait   */
    LANES_NO_MEMORY
};

/* drop: how a request that never ran is freed. NULL without memory. */
lanes *lanes_open(void (*drop)(void *request));
void lanes_close(lanes *all); /* NULL allowed */

/* Queues a request of so many bytes. Unless added, it stays the caller's. */
enum lanes_answer lanes_add(lanes *all, const char *name, void *request, size_t size);
/* The next request that may run; its lane is busy until lanes_done(). NULL: none. */
void *lanes_next(lanes *all, lane **of);
void lanes_done(lanes *all, lane *l);
/* Drops all that waits. */
void lanes_drop_waiting(lanes *all);
/* The lane of this name, NULL being the default lane; NULL: there is no such lane. */
lane *lanes_find(lanes *all, const char *name);
const char *lanes_name(const lane *l); /* NULL: the default lane */

/* What a lane's turn came to; kept if a turn may follow it. Takes a reference of its own. */
void lanes_remember(lanes *all, lane *l, run_record *record);
/* A remembered response of any lane, borrowed; NULL: none. */
run_record *lanes_recall(lanes *all, const char *id);
/* Drops it from this lane's memory; another lane's is left alone. */
void lanes_forget(lanes *all, lane *l, const char *id);

#endif /* NET_LANES_H */
