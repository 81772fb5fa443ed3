/*
 * net/socket_turn.c - from messages to turns. See socket.h.
 *
 * A message that is no request is answered at once; requests wait in their lanes. A
 * request's parent is looked up when its turn comes, in the memory of all lanes; what is
 * not there, api asks the store for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/socket.h"

#include "net/access.h"

#include <stdlib.h>
#include <string.h>

/* Messages at the worker; with so many, the socket is not read until one is back. */
#define MAX_PARSING 8
#define MAX_PARSING_BYTES ((size_t)8 << 20)

static const char too_busy[] = "The server has too much to do; try again soon.";
static const char no_memory[] = "There is no memory left.";

static socket_conn *socket_of(exchange *ex)
{
    return (socket_conn *)ex->conn;
}

void socket_drop_frame(void *frame)
{
    api_frame_free(frame);
}

/* ------------------------------------------------------------------- turns ---- */

static void take_out(socket_conn *s, socket_turn *t)
{
    socket_turn **at = &s->turns;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    lanes_done(s->lanes, t->of_lane);
    s->base.server->n_lanes--;
}

/* A turn was answered; the next of its lane may run. */
static void end_turn(socket_turn *t)
{
    socket_conn *s = socket_of(&t->base);
    take_out(s, t);
    exchange_release(&t->base);
    socket_pump(s);
    socket_advance(s);
}

/* [worker] */
static api_call *make_call(exchange *ex, run_listener listener)
{
    socket_turn *t = (socket_turn *)ex;
    return api_frame_start(ex->conn->server->runtime, t->frame, &t->caller, t->parent, listener);
}

/* An error frame ends a turn before it began; the parent that the lane's client relied
 * on is forgotten with it. */
static void on_ready(exchange *ex)
{
    socket_turn *t = (socket_turn *)ex;
    socket_conn *s = socket_of(ex);
    const char *parent = api_frame_parent(t->frame);
    run_record_release(t->parent);
    t->parent = NULL;
    if (ex->call && api_call_kind(ex->call) == API_STREAM)
        return;
    size_t size = 0;
    t->status = ex->call ? api_call_status(ex->call) : 500;
    const char *body = ex->call ? api_call_body(ex->call, &size) : NULL;
    t->bytes = size;
    if (body)
        conn_send(&s->base, body, size);
    else
        socket_send_error(s, 500, "server_error", NULL, no_memory, lanes_name(t->of_lane));
    if (parent)
        lanes_forget(s->lanes, t->of_lane, parent);
    end_turn(t);
}

static void on_message(exchange *ex, const char *name, const char *json, size_t size)
{
    (void)name;
    ((socket_turn *)ex)->bytes += size;
    conn_send(ex->conn, json, size);
}

static void on_over(exchange *ex)
{
    socket_turn *t = (socket_turn *)ex;
    t->status = 200;
    lanes_remember(socket_of(ex)->lanes, t->of_lane, api_call_record(ex->call));
    end_turn(t);
}

static void drop_turn(socket_turn *t)
{
    run_record_release(t->parent);
    api_frame_free(t->frame);
    free(t);
}

/* The last that is known of it. */
static void free_turn(exchange *ex)
{
    socket_turn *t = (socket_turn *)ex;
    access_write(ex->conn->server, &(access_entry){.method = "WS",
                                                   .path = SOCKET_PATH,
                                                   .status = t->status ? t->status : ACCESS_GONE,
                                                   .bytes = t->bytes,
                                                   .began = t->began,
                                                   .request_id = t->request_id,
                                                   .lane = api_frame_lane(t->frame),
                                                   .call = ex->call});
    drop_turn(t);
}

static const exchange_owner owner = {make_call, on_ready, on_message, on_over, free_turn};

/* A request that comes too late. */
static void refuse(socket_conn *s, lane *l, api_frame *frame)
{
    if (s->base.server->draining)
        socket_send_error(s, 503, "server_is_overloaded", NULL, "The server is shutting down.",
                          lanes_name(l));
    else
        socket_send_error(s, 400, "websocket_connection_limit_reached", NULL,
                          "This connection is about to close; open a new one and send it there.",
                          lanes_name(l));
    api_frame_free(frame);
}

/* Starts a request whose lane is free. False: it was answered with an error. */
static bool start(socket_conn *s, lane *l, api_frame *frame)
{
    const char *parent = api_frame_parent(frame);
    if (s->stage != SOCKET_OPEN) {
        refuse(s, l, frame);
        return false;
    }
    socket_turn *t = calloc(1, sizeof *t);
    if (!t) {
        socket_send_error(s, 500, "server_error", NULL, no_memory, lanes_name(l));
        api_frame_free(frame);
        return false;
    }
    t->of_lane = l;
    t->frame = frame;
    t->caller = s->base.caller;
    run_record *found = parent ? lanes_recall(s->lanes, parent) : NULL;
    t->parent = found ? run_record_retain(found) : NULL;
    t->began = access_now(s->base.server);
    clock_new_id(run_clock(s->base.server->runtime), "req_", t->request_id);
    if (exchange_start(&t->base, &owner, &s->base)) {
        t->next = s->turns;
        s->turns = t;
        s->base.server->n_lanes++;
        return true;
    }
    drop_turn(t);
    socket_send_error(s, 503, "server_is_overloaded", NULL, too_busy, lanes_name(l));
    return false;
}

void socket_pump(socket_conn *s)
{
    lane *l;
    api_frame *frame;
    while (s->base.wsi && (frame = lanes_next(s->lanes, &l)) != NULL) {
        if (!start(s, l, frame))
            lanes_done(s->lanes, l);
    }
}

/* -------------------------------------------------------------- cancelling ---- */

/* response.cancel: by the response's id, or what its lane runs. True: it does not run on
 * this socket, so that its end is still to be told. */
static bool cancel(socket_conn *s, const api_frame *frame)
{
    const char *id = api_frame_response_id(frame), *name = api_frame_lane(frame);
    const lane *l = lanes_find(s->lanes, name);
    for (socket_turn *t = s->turns; t; t = t->next) {
        const char *own = t->base.ready ? api_call_id(t->base.call) : NULL;
        if (id ? own && strcmp(own, id) == 0 : t->of_lane == l) {
            exchange_cancel(&t->base);
            return false;
        }
    }
    if (id && api_cancel(s->base.server->runtime, &s->base.caller, id))
        return true;
    socket_send_error(
        s, 400, "response_not_found", id ? "response_id" : "stream_id",
        id ? "No response with this id is running." : "No response is running on this lane.", name);
    return false;
}

void socket_pull(socket_conn *s)
{
    socket_turn *next;
    for (socket_turn *t = s->turns; t; t = next) {
        next = t->next;
        exchange_pump(&t->base); /* which may end this one, but no other */
    }
}

/* Lets go of a turn, whose client will not see its end here. */
static void leave_turn(socket_conn *s, socket_turn *t)
{
    take_out(s, t);
    exchange_leave(&t->base);
    exchange_release(&t->base);
}

void socket_cut_all(socket_conn *s)
{
    socket_turn *next;
    for (socket_turn *t = s->turns; t; t = next) {
        next = t->next;
        bool stays = t->base.ready && api_call_stays(t->base.call);
        if (stays && !s->base.server->draining) /* which nobody can come back to */
            leave_turn(s, t);
        else
            exchange_cancel(&t->base);
    }
    socket_pump(s); /* what waits behind them is refused */
}

void socket_abandon(socket_conn *s)
{
    lanes_drop_waiting(s->lanes);
    while (s->turns)
        leave_turn(s, s->turns);
}

/* ---------------------------------------------------------------- messages ---- */

/* A request takes its place in its lane. */
static void queue_frame(socket_conn *s, api_frame *frame, size_t size)
{
    const char *name = api_frame_lane(frame);
    if (!keyring_still_good(s->base.server->keys, &s->base.caller)) {
        socket_send_error(s, 401, "invalid_api_key", NULL,
                          "The API key that this connection was opened with is no longer valid.",
                          name);
        api_frame_free(frame);
        socket_leave(s, LWS_CLOSE_STATUS_POLICY_VIOLATION, "key revoked",
                     s->base.server->socket_grace);
        return;
    }
    switch (lanes_add(s->lanes, name, frame, size)) {
    case LANES_ADDED:
        socket_pump(s);
        return;
    case LANES_TOO_MANY:
        socket_send_error(s, 400, "websocket_stream_limit_reached", "stream_id",
                          "A connection may have 32 named lanes; use one of those, or another "
                          "connection.",
                          name);
        break;
    case LANES_QUEUE_FULL:
        socket_send_error(s, 429, "rate_limit_exceeded", NULL,
                          "Too many requests wait on this connection (64, or 64 MiB); send it "
                          "again when others have ended.",
                          name);
        break;
    case LANES_NO_MEMORY:
        socket_send_error(s, 500, "server_error", NULL, no_memory, name);
        break;
    }
    api_frame_free(frame);
}

static void set_reading(socket_conn *s, bool on)
{
    if (s->rx_paused == !on || !s->base.wsi)
        return;
    s->rx_paused = !on;
    lws_rx_flow_control(s->base.wsi, on);
}

static void send_frame_error(socket_conn *s, const api_frame *frame, const char *text)
{
    access_write(s->base.server, &(access_entry){.method = "WS",
                                                 .path = SOCKET_PATH,
                                                 .status = 400,
                                                 .bytes = strlen(text),
                                                 .lane = api_frame_lane(frame)});
    conn_send(&s->base, text, strlen(text));
}

static void take_frame(socket_conn *s, api_frame *frame, size_t size)
{
    char *text = NULL;
    switch (api_frame_type(frame)) {
    case API_FRAME_CREATE:
        queue_frame(s, frame, size);
        return;
    case API_FRAME_CANCEL:
        if (cancel(s, frame)) {
            queue_frame(s, frame, size);
            return;
        }
        break;
    case API_FRAME_REFUSED:
        text = api_frame_error(frame);
        if (text)
            send_frame_error(s, frame, text);
        else
            socket_send_error(s, 500, "server_error", NULL, no_memory, api_frame_lane(frame));
        break;
    }
    free(text);
    api_frame_free(frame);
}

/* A message is back from the worker. [loop] */
static void deliver_frame(inbox_item *item)
{
    socket_job *job = (socket_job *)item;
    socket_conn *s = job->of;
    api_frame *frame = job->frame;
    size_t size = job->size;
    free(job);
    s->base.server->n_jobs--;
    s->parsing--;
    s->parsing_bytes -= size;
    set_reading(s, true);
    if (!frame)
        socket_send_error(s, 500, "server_error", NULL, no_memory, NULL);
    else if (s->base.wsi && (s->stage == SOCKET_OPEN || s->stage == SOCKET_LEAVING))
        take_frame(s, frame, size);
    else
        api_frame_free(frame);
    socket_advance(s);
    conn_release(&s->base);
}

/* [worker] */
static void parse(void *arg)
{
    socket_job *job = arg;
    net_server *server = job->of->base.server;
    job->frame = api_frame_parse(server->runtime, job->data, job->size);
    free(job->data);
    inbox_push(&server->inbox, &job->item, true);
}

void socket_take_message(socket_conn *s, char *data, size_t size)
{
    socket_job *job = calloc(1, sizeof *job);
    if (job) {
        *job = (socket_job){.item.deliver = deliver_frame, .of = s, .data = data, .size = size};
        conn_retain(&s->base);
        s->base.server->n_jobs++;
        if (run_defer(s->base.server->runtime, parse, job)) {
            s->parsing++;
            s->parsing_bytes += size;
            if (s->parsing >= MAX_PARSING || s->parsing_bytes >= MAX_PARSING_BYTES)
                set_reading(s, false);
            return;
        }
        s->base.server->n_jobs--;
        conn_release(&s->base);
    }
    free(job);
    free(data);
    socket_send_error(s, 503, "server_is_overloaded", NULL, too_busy, NULL);
}
