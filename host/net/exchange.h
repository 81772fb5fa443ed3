/*
 * net/exchange.h - one api_call, from the worker that makes it to its last event.
 *
 * An exchange is part of what its owner allocates (an HTTP request, a turn of a
 * socket). It is over when its call has been answered: at once, or by the END of its
 * turn. It lives until it is over and its owner has released it, so a client may go
 * at any time.
 *
 *   loop                          worker              engine, store
 *   exchange_start() ───────────► make() ─► call
 *        on_ready() ◄─ inbox ─────────┘                  │
 *        on_message()… on_over() ◄─ inbox ◄─ the listener┘
 *
 * Events may come before the call does; they are held back until it is there.
 *
 * A call that reads kept events is pulled instead: as long as its client takes what it is
 * sent, some events at a time. It is over as soon as its client goes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_EXCHANGE_H
#define NET_EXCHANGE_H

#include "net/conn.h"

#include "api/api.h"

typedef struct exchange exchange;

typedef struct exchange_owner {
    /* Makes the call. [worker] */
    api_call *(*make)(exchange *ex, run_listener listener);
    /* The call is there; ex->call NULL: there was no memory for it. [loop] */
    void (*on_ready)(exchange *ex);
    /* A message for the client. [loop] */
    void (*on_message)(exchange *ex, const char *name, const char *json, size_t size);
    /* The turn has ended and all its messages were given. [loop] */
    void (*on_over)(exchange *ex);
    void (*free)(exchange *ex);
} exchange_owner;

/* An event on its way to the loop. */
typedef struct exchange_event {
    inbox_item item; /* first */
    exchange *of;
    run_event *event;
    struct exchange_event *next; /* while it is held back */
} exchange_event;

struct exchange {
    const exchange_owner *owner;
    conn *conn;     /* a reference                                        */
    api_call *call; /* written by the worker, the loop's from on_ready()  */
    /* An event found no place: the stream has a hole. Apart from the loop's flags below,
     * which compilers read several at once. */
    atomic_bool lost;
    inbox_item made;
    inbox_item more;      /* there is something to pull                           */
    atomic_bool waking;   /* it is on its way                                     */
    exchange_event end;   /* of the END event, which must not lack memory    */
    exchange_event *held; /* events that came before the call, oldest first  */
    exchange_event **held_last;
    bool ready;
    bool pulled; /* it is ready, and its call reads kept events    */
    bool over;
    bool released;
    bool cancelled; /* as soon as the call is there, if it is not yet */
    bool left;      /* likewise                                       */
    bool pinned;    /* its owner is being called                      */
};

/* Hands the exchange to the worker. False: the worker's queue is full, or the runtime
 * stops; nothing was started and nothing is to be released. */
bool exchange_start(exchange *ex, const exchange_owner *owner, conn *c);
/* Nobody wants the answer; on_over() still comes, unless released. */
void exchange_cancel(exchange *ex);
/* The client has gone; what it asked for ends or runs on, as it wished. To be released. */
void exchange_leave(exchange *ex);
/* The client can take more. May be the end of the exchange. */
void exchange_pump(exchange *ex);
/* The owner needs it no longer; it is freed when it is over. */
void exchange_release(exchange *ex);

#endif /* NET_EXCHANGE_H */
