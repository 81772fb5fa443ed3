/*
 * net/exchange.c - calls and their events between the threads. See exchange.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/exchange.h"

#include "base/log.h"

#include <stdlib.h>

#define PUMP_EVENTS 128                /* in one go, before others have theirs   */
#define PUMP_BYTES ((size_t)256 << 10) /* that may wait for the client meanwhile */

static exchange *of_made(inbox_item *item)
{
    return (exchange *)((char *)item - offsetof(exchange, made));
}

/* Frees what nobody needs. */
static void settle(exchange *ex)
{
    if (!ex->over || !ex->released || ex->pinned)
        return;
    if (ex->pulled) {
        api_call_unplug(ex->call); /* nobody wakes us from here on */
        if (atomic_load(&ex->waking))
            return; /* deliver_more() comes back here */
    }
    conn *c = ex->conn;
    api_call *call = ex->call;
    ex->owner->free(ex); /* which may still look at the call */
    api_call_free(call);
    conn_release(c);
}

static void finish(exchange *ex)
{
    ex->over = true;
    ex->conn->server->n_jobs--;
}

static void emit(void *arg, const char *name, const char *json, size_t size)
{
    exchange *ex = arg;
    if (!ex->released && !atomic_load(&ex->lost))
        ex->owner->on_message(ex, name, json, size);
}

/* One event of a call that is there. Its owner may release the exchange meanwhile. */
static void take_event(exchange *ex, run_event *event)
{
    bool end = event->type == RUN_END;
    ex->pinned = true;
    api_call_event(ex->call, event, emit, ex);
    if (atomic_load(&ex->lost))
        conn_kill(ex->conn, "there was no memory for an event of its response");
    if (end) {
        finish(ex);
        if (!ex->released)
            ex->owner->on_over(ex);
    }
    ex->pinned = false;
    settle(ex);
}

static void free_event(exchange *ex, exchange_event *e)
{
    if (e != &ex->end)
        free(e);
}

/* [loop] */
static void deliver_event(inbox_item *item)
{
    exchange_event *e = (exchange_event *)item;
    exchange *ex = e->of;
    if (!ex->ready) {
        e->next = NULL;
        *ex->held_last = e;
        ex->held_last = &e->next;
        return;
    }
    run_event *event = e->event;
    free_event(ex, e);
    take_event(ex, event);
}

/* The listener of the turn. [worker, engine, store] */
static void on_event(void *arg, run_event *event)
{
    exchange *ex = arg;
    inbox *box = &ex->conn->server->inbox;
    bool end = event->type == RUN_END;
    exchange_event *e = end ? &ex->end : malloc(sizeof *e);
    if (e) {
        *e = (exchange_event){.item.deliver = deliver_event, .of = ex, .event = event};
        if (inbox_push(box, &e->item, end))
            return;
        free(e);
    }
    atomic_store(&ex->lost, true);
    run_event_free(event);
}

/* Events that came before their call. The last one may free the exchange. */
static void take_held(exchange *ex)
{
    exchange_event *e = ex->held;
    ex->held = NULL;
    while (e) {
        exchange_event *next = e->next;
        run_event *event = e->event;
        free_event(ex, e);
        take_event(ex, event);
        e = next;
    }
}

/* ------------------------------------------------------------------- pulling -- */

static void deliver_more(inbox_item *item)
{
    exchange *ex = (exchange *)((char *)item - offsetof(exchange, more));
    atomic_store(&ex->waking, false);
    exchange_pump(ex);
}

/* [any] */
static void wake(void *arg)
{
    exchange *ex = arg;
    if (!atomic_exchange(&ex->waking, true))
        inbox_push(&ex->conn->server->inbox, &ex->more, true);
}

static bool has_room(const exchange *ex)
{
    return ex->conn->wsi && ex->conn->out.bytes < PUMP_BYTES;
}

void exchange_pump(exchange *ex)
{
    enum api_pull got = API_PULL_MORE;
    if (!ex->pulled || ex->pinned)
        return;
    ex->pinned = true;
    for (int n = 0; !ex->over && n < PUMP_EVENTS && got == API_PULL_MORE && has_room(ex); n++)
        got = api_call_pull(ex->call, emit, ex);
    if (!ex->over && got == API_PULL_MORE && has_room(ex))
        wake(ex); /* after the others */
    if (got == API_PULL_DONE) {
        finish(ex);
        ex->owner->on_over(ex);
    }
    ex->pinned = false;
    settle(ex);
}

/* Its client is there no longer, and no event will come by itself. */
static void end_pulled(exchange *ex)
{
    if (ex->pulled && ex->released && !ex->over)
        finish(ex);
}

/* -------------------------------------------------------------------- making -- */

/* [loop] */
static void deliver_made(inbox_item *item)
{
    exchange *ex = of_made(item);
    ex->ready = true;
    ex->pulled = ex->call && api_call_is_pulled(ex->call);
    if (ex->call && ex->cancelled)
        api_call_cancel(ex->call);
    else if (ex->call && ex->left)
        api_call_leave(ex->call);
    if (!ex->call || api_call_kind(ex->call) == API_REPLY)
        finish(ex);
    ex->pinned = true;
    if (!ex->released)
        ex->owner->on_ready(ex);
    ex->pinned = false;
    if (ex->pulled) {
        api_call_on_more(ex->call, wake, ex);
        end_pulled(ex);
        exchange_pump(ex);
    } else if (ex->over) {
        settle(ex);
    } else {
        take_held(ex);
    }
}

/* [worker] */
static void make(void *arg)
{
    exchange *ex = arg;
    ex->call = ex->owner->make(ex, (run_listener){on_event, ex});
    inbox_push(&ex->conn->server->inbox, &ex->made, true);
}

bool exchange_start(exchange *ex, const exchange_owner *owner, conn *c)
{
    ex->owner = owner;
    ex->conn = c;
    ex->call = NULL;
    ex->made.deliver = deliver_made;
    ex->held = NULL;
    ex->held_last = &ex->held;
    ex->more.deliver = deliver_more;
    atomic_init(&ex->lost, false);
    atomic_init(&ex->waking, false);
    ex->ready = ex->pulled = ex->over = ex->released = ex->cancelled = ex->left = ex->pinned =
        false;
    c->server->n_jobs++;
    conn_retain(c);
    if (run_defer(c->server->runtime, make, ex))
        return true;
    c->server->n_jobs--;
    conn_release(c);
    return false;
}

void exchange_cancel(exchange *ex)
{
    if (ex->cancelled || ex->over)
        return;
    ex->cancelled = true;
    if (ex->ready && ex->call)
        api_call_cancel(ex->call);
}

void exchange_leave(exchange *ex)
{
    if (ex->left || ex->cancelled || ex->over)
        return;
    ex->left = true;
    if (ex->ready && ex->call)
        api_call_leave(ex->call);
}

void exchange_release(exchange *ex)
{
    ex->released = true;
    if (!ex->pinned)
        end_pulled(ex);
    settle(ex);
}
