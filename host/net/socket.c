/*
 * net/socket.c - the life of a WebSocket. See socket.h.
 *
 * libwebsockets answers pings itself, on this thread, whatever the engine does. Its
 * own pings (and the hanging up after two misses) come from the retry policy that
 * server.c sets; any message counts as a sign of life.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/socket.h"

#include "net/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT_S 5 /* for cancelled turns to end, and for a close frame to leave */

/* Frames below SMALL_FRAME bytes: so many a second, and so many seconds' worth at once. */
#define SMALL_FRAME 1024
#define SMALL_PER_S 200
#define SMALL_BURST_S 10

static socket_conn *as_socket(conn *c)
{
    return (socket_conn *)c;
}

void socket_send_error(socket_conn *s, int status, const char *code, const char *param,
                       const char *message, const char *name)
{
    const char *type = status == 429   ? "rate_limit_error"
                       : status >= 500 ? "server_error"
                                       : "invalid_request_error";
    char *text = api_error_frame(status, type, code, param, message, name);
    access_write(s->base.server, &(access_entry){.method = "WS",
                                                 .path = SOCKET_PATH,
                                                 .status = status,
                                                 .bytes = text ? strlen(text) : 0,
                                                 .lane = name,
                                                 .code = code});
    if (text)
        conn_send(&s->base, text, strlen(text));
    else
        conn_kill(&s->base, "there was no memory for an error message to it");
    free(text);
}

/* ------------------------------------------------------------------ ending ---- */

void socket_advance(socket_conn *s)
{
    if ((s->stage == SOCKET_LEAVING || s->stage == SOCKET_CUTTING) && !s->turns && !s->parsing) {
        s->stage = SOCKET_CLOSING;
        conn_set_timer(&s->base, CUT_S);
    }
    if (s->stage == SOCKET_CLOSING)
        conn_want_write(&s->base);
}

static void cut(socket_conn *s)
{
    s->stage = SOCKET_CUTTING;
    conn_set_timer(&s->base, CUT_S);
    socket_cut_all(s);
    socket_advance(s);
}

void socket_leave(socket_conn *s, int code, const char *why, int grace)
{
    if (s->stage != SOCKET_OPEN && grace > 0)
        return;
    if (s->stage == SOCKET_OPEN) {
        s->close_code = code;
        s->close_why = why;
        s->stage = SOCKET_LEAVING;
        socket_pump(s);
        conn_uncount_bytes(&s->base, s->message.size);
        buf_clear(&s->message);
    }
    if (grace > 0)
        conn_set_timer(&s->base, grace);
    else if (s->stage == SOCKET_LEAVING)
        cut(s);
    socket_advance(s);
}

static int on_timer(socket_conn *s)
{
    switch (s->stage) {
    case SOCKET_OPEN:
        socket_send_error(s, 400, "websocket_connection_limit_reached", NULL,
                          "This connection has lived as long as it may; open a new one and go on "
                          "there.",
                          NULL);
        socket_leave(s, LWS_CLOSE_STATUS_NORMAL, "lifetime", s->base.server->socket_grace);
        return 0;
    case SOCKET_LEAVING:
        cut(s);
        return 0;
    case SOCKET_CUTTING:
        s->stage = SOCKET_CLOSING;
        conn_set_timer(&s->base, CUT_S);
        conn_want_write(&s->base);
        return 0;
    default:
        return -1;
    }
}

static int on_writable(socket_conn *s)
{
    struct lws *wsi = s->base.wsi;
    size_t size;
    unsigned char *data = outq_first(&s->base.out, &size);
    if (data) {
        int n = lws_write(wsi, data, size, LWS_WRITE_TEXT);
        conn_sent(&s->base, true);
        if (n < 0)
            return -1;
        socket_pull(s);
        socket_advance(s);
        if (s->base.out.first)
            conn_want_write(&s->base);
        return 0;
    }
    if (s->stage != SOCKET_CLOSING)
        return 0;
    char why[32];
    snprintf(why, sizeof why, "%s", s->close_why);
    lws_close_reason(wsi, (enum lws_close_status)s->close_code, (unsigned char *)why, strlen(why));
    return -1;
}

/* ---------------------------------------------------------------- messages ---- */

static void refuse_message(socket_conn *s, int status, const char *code, const char *message,
                           int close_code, const char *why)
{
    socket_send_error(s, status, code, NULL, message, NULL);
    socket_leave(s, close_code, why, 0);
}

/* Whether one more frame may begin: small ones have a rate, since each costs work that
 * its bytes do not show. */
static bool may_begin(socket_conn *s, size_t size)
{
    lws_usec_t now = lws_now_usecs();
    if (size >= SMALL_FRAME)
        return true;
    if (s->small_until < now)
        s->small_until = now;
    s->small_until += LWS_US_PER_SEC / SMALL_PER_S;
    return s->small_until - now <= SMALL_BURST_S * LWS_US_PER_SEC;
}

static void receive(socket_conn *s, const char *data, size_t size)
{
    struct lws *wsi = s->base.wsi;
    size_t left = lws_remaining_packet_payload(wsi), max = s->message.max;
    bool begins = !s->in_frame;
    lws_validity_confirmed(wsi);
    s->in_frame = left > 0;
    if (s->stage != SOCKET_OPEN && s->stage != SOCKET_LEAVING)
        return;
    if (begins && !may_begin(s, size + left)) {
        refuse_message(s, 429, "rate_limit_exceeded",
                       "Too many small frames; send whole messages, 200 a second at most.", 1008,
                       "too many frames");
        return;
    }
    if (size > max - s->message.size || left > max - s->message.size - size) {
        char text[96];
        snprintf(text, sizeof text, "A message may have %zu bytes at most.", max);
        refuse_message(s, 413, "request_too_large", text, LWS_CLOSE_STATUS_MESSAGE_TOO_LARGE,
                       "message too large");
        return;
    }
    if (!conn_count_bytes(&s->base, size) || !buf_add(&s->message, data, size)) {
        refuse_message(s, 503, "server_is_overloaded",
                       "Too many large requests arrive at once; try again soon.", 1013,
                       "try again later");
        return;
    }
    if (!lws_is_final_fragment(wsi))
        return;
    size_t whole = s->message.size;
    conn_uncount_bytes(&s->base, whole);
    char *text = buf_take(&s->message);
    if (text)
        socket_take_message(s, text, whole);
}

/* --------------------------------------------------------------- callbacks ---- */

static int on_callback(conn *c, enum lws_callback_reasons reason, void *in, size_t len)
{
    socket_conn *s = as_socket(c);
    if (c->killed)
        return reason == LWS_CALLBACK_SERVER_WRITEABLE || reason == LWS_CALLBACK_RECEIVE ? -1 : 0;
    switch (reason) {
    case LWS_CALLBACK_RECEIVE:
        receive(s, in, len);
        return 0;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return on_writable(s);
    case LWS_CALLBACK_TIMER:
        return on_timer(s);
    default:
        return 0;
    }
}

static void on_gone(conn *c)
{
    socket_conn *s = as_socket(c);
    c->server->n_sockets--;
    conn_uncount_bytes(c, s->message.size);
    buf_clear(&s->message);
    socket_abandon(s);
}

static void on_stop(conn *c, int grace)
{
    socket_leave(as_socket(c), LWS_CLOSE_STATUS_GOINGAWAY, "shutting down", grace);
}

static void free_conn(conn *c)
{
    lanes_close(as_socket(c)->lanes);
    free(c);
}

static bool is_sending(const conn *c)
{
    return c->out.first != NULL;
}

static bool is_receiving(const conn *c)
{
    const socket_conn *s = (const socket_conn *)c;
    return s->stage == SOCKET_OPEN && (s->in_frame || s->message.size > 0);
}

static void on_slow(conn *c)
{
    refuse_message(as_socket(c), 408, "request_timeout", "A message comes too slowly.", 1008,
                   "message too slow");
}

static const conn_kind kind = {.on_callback = on_callback,
                               .on_gone = on_gone,
                               .on_stop = on_stop,
                               .is_sending = is_sending,
                               .is_receiving = is_receiving,
                               .on_slow = on_slow,
                               .free = free_conn};

conn *socket_open(net_server *server, struct lws *wsi)
{
    socket_conn *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->lanes = lanes_open(socket_drop_frame);
    if (!s->lanes) {
        free(s);
        return NULL;
    }
    buf_init(&s->message, server->max_body);
    conn_init(&s->base, &kind, server, wsi);
    server->n_sockets++;
    conn_set_timer(&s->base, server->socket_lifetime);
    return &s->base;
}
