/*
 * net/http.c - taking requests from an HTTP connection. See http.h.
 *
 * What libwebsockets 4.1 leaves to its user, and this file does:
 *
 * - Request bodies in chunks arrive with their framing. "100 Continue" is not sent.
 *   Requests without a body are left with a timeout running.
 * - A request with a body that was read together with the end of another one is
 *   misread, with memory that may be freed already. So a connection is kept only where
 *   that cannot be: after a request whose body had a length, unless more than it came.
 * - While such a client is answered the library spins, so it is put up with for
 *   RESTLESS rounds only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/http.h"

#include "net/access.h"
#include "run/ready.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINGER_S 2       /* for a client to stop sending what nobody wants */
#define LINGER_ROUNDS 15 /* of LINGER_S, for one that goes on sending */
#define RESTLESS 20000

static http_conn *as_http(conn *c)
{
    return (http_conn *)c;
}

/* ---------------------------------------------------------------- exchange ---- */

/* [worker] */
static api_call *make_call(exchange *ex, run_listener listener)
{
    http_exchange *x = (http_exchange *)ex;
    api_http_request request = {.method = strcmp(x->method, "HEAD") == 0 ? "GET" : x->method,
                                .path = x->path,
                                .query = x->query,
                                .body = x->body,
                                .body_size = x->body_size,
                                .request_id = x->request_id,
                                .key = x->key,
                                .caller = &x->caller};
    api_call *call = api_http(ex->conn->server->runtime, &request, listener);
    free(x->body);
    x->body = NULL;
    return call;
}

static void on_ready(exchange *ex)
{
    http_conn *h = as_http(ex->conn);
    http_refusal refusal;
    if (!ex->call) {
        http_refuse(&refusal, 500, "server_error", "There is no memory left.");
        http_reply_refusal(h, &refusal);
    } else if (api_call_kind(ex->call) == API_REPLY) {
        http_reply_call(h, ex->call);
    } else if (api_call_kind(ex->call) == API_STREAM) {
        http_stream_begin(h, ex->call);
    }
}

static void on_message(exchange *ex, const char *name, const char *json, size_t size)
{
    http_conn *h = as_http(ex->conn);
    if (h->streaming)
        http_stream_message(h, name, json, size);
}

static void on_over(exchange *ex)
{
    http_conn *h = as_http(ex->conn);
    if (h->streaming)
        http_stream_end(h);
    else
        http_reply_call(h, ex->call);
}

static void drop_exchange(http_exchange *x)
{
    free(x->path);
    free(x->query);
    free(x->body);
    free(x->key);
    free(x);
}

/* The last that is known of it. */
static void free_exchange(exchange *ex)
{
    http_exchange *x = (http_exchange *)ex;
    access_write(ex->conn->server, &(access_entry){.method = x->method,
                                                   .path = x->path,
                                                   .status = x->status,
                                                   .bytes = x->bytes,
                                                   .began = x->began,
                                                   .request_id = x->request_id,
                                                   .call = ex->call});
    drop_exchange(x);
}

static const exchange_owner owner = {make_call, on_ready, on_message, on_over, free_exchange};

/* ----------------------------------------------------------------- request ---- */

/* The request is over for its client: what of it is logged now, or when its turn ends. */
static void log_request(http_conn *h)
{
    bool whole = h->phase == HTTP_LINGER || (h->phase == HTTP_REPLY && h->base.wsi);
    int status = whole ? h->status : ACCESS_GONE;
    if (h->exchange) {
        h->exchange->status = status;
        h->exchange->bytes = h->sent;
    } else if (h->phase != HTTP_IDLE) {
        access_write(h->base.server, &(access_entry){.method = h->head.method,
                                                     .path = h->head.path ? h->head.path : "",
                                                     .status = status,
                                                     .bytes = h->sent,
                                                     .began = h->began,
                                                     .request_id = h->request_id});
    }
}

/* Makes the connection ready for its next request. */
static void reset(http_conn *h)
{
    log_request(h);
    if (h->exchange)
        exchange_release(&h->exchange->base);
    h->exchange = NULL;
    http_head_clear(&h->head);
    conn_uncount_bytes(&h->base, h->body.size);
    buf_clear(&h->body);
    free(h->text);
    h->text = NULL;
    h->reply = NULL;
    h->reply_size = h->reply_sent = 0;
    h->bad_upgrade = NULL;
    h->body_read = h->streaming = h->moved = h->close = false;
    h->restless = 0;
    h->status = 0;
    h->sent = 0;
    h->phase = HTTP_IDLE;
}

static void refuse(http_conn *h, int status, const char *code, const char *message)
{
    http_refusal refusal;
    http_refuse(&refusal, status, code, "%s", message);
    http_reply_refusal(h, &refusal);
}

static void refuse_for_now(http_conn *h, const char *message)
{
    http_refusal refusal;
    http_refuse(&refusal, 503, "server_is_overloaded", "%s", message);
    refusal.retry_after = run_retry_after(h->base.server->runtime);
    http_reply_refusal(h, &refusal);
}

/* The whole request is there. Started from the writable callback, because
 * libwebsockets sets a timeout of its own after the callbacks that read. */
static void request_is_whole(http_conn *h)
{
    h->body_read = true;
    h->phase = HTTP_READY;
    conn_want_write(&h->base);
}

/* LWS_CALLBACK_HTTP: the head is there. */
static int begin(http_conn *h)
{
    conn *c = &h->base;
    const char *bad_upgrade = h->bad_upgrade;
    http_refusal refusal;
    reset(h);
    h->began = access_now(c->server);
    h->phase = HTTP_BODY; /* a request is there, which will have its access line */
    conn_set_timer(c, 0);
    bool fine = http_head_read(c, &h->head, &refusal);
    if (!http_head_request_id(c, h->request_id))
        clock_new_id(run_clock(c->server->runtime), "req_", h->request_id);
    h->body_read = h->head.bodiless;
    h->close = h->head.chunked || h->head.bodiless;
    fine = fine && http_head_admit(c, &h->head, &refusal);
    if (fine && bad_upgrade)
        fine = http_refuse(&refusal, 400, "invalid_request", "%s", bad_upgrade);
    if (!fine) {
        http_reply_refusal(h, &refusal);
        return 0;
    }
    if (h->head.preflight) {
        http_reply_preflight(h);
        return 0;
    }
    if (h->head.bodiless) {
        request_is_whole(h);
        return 0;
    }
    h->phase = HTTP_BODY;
    buf_init(&h->body, c->server->max_body);
    chunked_init(&h->chunks);
    if (h->head.expects_continue)
        conn_send(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return 0;
}

/* LWS_CALLBACK_HTTP_BODY */
static int take_body(http_conn *h, const char *data, size_t size)
{
    static const char too_large[] = "The body is larger than this server accepts.";
    h->moved = true;
    if (h->phase != HTTP_BODY || size == 0)
        return 0;
    size_t before = h->body.size, used = size;
    enum chunked_result result = CHUNKED_MORE;
    if (!conn_count_bytes(&h->base, size)) {
        refuse_for_now(h, "Too many large requests arrive at once; try again soon.");
        return 0;
    }
    if (h->head.chunked)
        result = chunked_feed(&h->chunks, data, size, &used, &h->body);
    else if (!buf_add(&h->body, data, size))
        result = CHUNKED_FULL;
    conn_uncount_bytes(&h->base, size - (h->body.size - before));
    if (result == CHUNKED_FULL)
        refuse(h, 413, "request_too_large", too_large);
    else if (result == CHUNKED_BAD)
        refuse(h, 400, "invalid_request", "The chunks of the body are not valid.");
    else if (result == CHUNKED_END)
        request_is_whole(h);
    return 0;
}

/* LWS_CALLBACK_HTTP_BODY_COMPLETION: comes once for a body with a length, and then
 * whenever the client has sent more than its request. */
static int body_completed(http_conn *h)
{
    if (h->phase == HTTP_BODY && !h->head.chunked) {
        request_is_whole(h);
        return 0;
    }
    if (h->phase == HTTP_LINGER || h->phase == HTTP_IDLE)
        return -1;
    if (h->phase == HTTP_BODY)
        refuse(h, 413, "request_too_large", "The chunks of the body are too many.");
    h->body_read = h->close = true;
    return ++h->restless > RESTLESS ? -1 : 0;
}

/* What the loop knows by itself, so that those who watch the server do not wait for the
 * worker. False: it is for the worker. */
static bool answer_here(http_conn *h)
{
    http_refusal late;
    if (http_head_is_live(&h->head)) {
        http_reply_static(h, "{\"status\":\"ok\"}");
        return true;
    }
    if (!http_head_in_time(&h->base, &h->head, &late)) {
        http_reply_refusal(h, &late);
        return true;
    }
    if (http_head_is_ready(&h->head)) {
        char why[200];
        if (run_is_ready(h->base.server->runtime, why, sizeof why))
            http_reply_static(h, "{\"status\":\"ok\"}");
        else
            refuse(h, 503, "server_is_overloaded", why);
        return true;
    }
    if (http_head_is_metrics(&h->head))
        access_collect(h->base.server);
    return false;
}

/* Gives the request to the worker. */
static void run(http_conn *h)
{
    conn *c = &h->base;
    lws_set_timeout(c->wsi, NO_PENDING_TIMEOUT, 0);
    if (answer_here(h))
        return;
    http_exchange *x = calloc(1, sizeof *x);
    if (!x) {
        refuse(h, 500, "server_error", "There is no memory left.");
        return;
    }
    x->method = h->head.method;
    x->path = h->head.path;
    x->query = h->head.query;
    x->caller = c->caller;
    x->key = h->head.key;
    h->head.path = h->head.query = h->head.key = NULL;
    memcpy(x->request_id, h->request_id, sizeof x->request_id);
    x->began = h->began;
    conn_uncount_bytes(c, h->body.size);
    x->body_size = h->body.size;
    x->body = x->body_size ? buf_take(&h->body) : NULL;
    h->phase = HTTP_RUNNING;
    if (!exchange_start(&x->base, &owner, c)) {
        h->head.path = x->path; /* for the access line */
        x->path = NULL;
        drop_exchange(x);
        refuse_for_now(h, "The server has too much to do; try again soon.");
        return;
    }
    h->exchange = x;
    /* After a request without a body libwebsockets leaves unread what comes next, also
     * the end of the connection, but goes on being woken by it. */
    if (h->head.bodiless) {
        lws_rx_flow_control(c->wsi, 0);
        h->rx_paused = true;
    }
}

/* The reply has been handed to libwebsockets. Nonzero: close. */
static int finish(http_conn *h)
{
    conn *c = &h->base;
    bool close = h->close || c->server->draining;
    if (close && lws_partial_buffered(c->wsi)) {
        conn_want_write(c);
        return 0;
    }
    if (!h->body_read) {
        h->phase = HTTP_LINGER;
        h->restless = 0;
        conn_set_timer(c, LINGER_S);
        return 0;
    }
    reset(h);
    if (close)
        return -1;
    conn_set_timer(c, c->server->idle_timeout);
    /* At once, not when all is flushed: the library waits for that by itself, and does
     * not read until then, while the client's next request may come right after. */
    return lws_http_transaction_completed(c->wsi) ? -1 : 0;
}

/* LWS_CALLBACK_HTTP_WRITEABLE */
static int on_writable(http_conn *h)
{
    if (http_has_output(h) && http_write(h))
        return -1;
    if (h->exchange && h->phase == HTTP_RUNNING)
        exchange_pump(&h->exchange->base);
    if (http_has_output(h))
        conn_want_write(&h->base);
    else if (h->phase == HTTP_READY)
        run(h);
    else if (h->phase == HTTP_REPLY)
        return finish(h);
    return 0;
}

static int on_timer(http_conn *h)
{
    bool moved = h->moved;
    h->moved = false;
    switch (h->phase) {
    case HTTP_RUNNING:
        if (!h->streaming)
            return 0;
        if (!moved && !h->base.out.first)
            http_stream_comment(h);
        h->moved = false;
        conn_set_timer(&h->base, http_stream_tick(h));
        return 0;
    case HTTP_LINGER:
        conn_set_timer(&h->base, LINGER_S);
        return moved && ++h->restless < LINGER_ROUNDS ? 0 : -1;
    case HTTP_IDLE:
        conn_cut(&h->base);
        return -1;
    default:
        return 0;
    }
}

/* --------------------------------------------------------------- callbacks ---- */

static int on_callback(conn *c, enum lws_callback_reasons reason, void *in, size_t len)
{
    http_conn *h = as_http(c);
    if (c->killed)
        return -1;
    switch (reason) {
    case LWS_CALLBACK_HTTP:
        return begin(h);
    case LWS_CALLBACK_HTTP_BODY:
        return take_body(h, in, len);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        return body_completed(h);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return on_writable(h);
    case LWS_CALLBACK_TIMER:
        return on_timer(h);
    default:
        return 0;
    }
}

static void on_gone(conn *c)
{
    http_conn *h = as_http(c);
    if (h->exchange)
        exchange_leave(&h->exchange->base);
    reset(h);
}

static void on_stop(conn *c, int grace)
{
    http_conn *h = as_http(c);
    if (grace > 0) /* what is asked meanwhile is answered with a 503 */
        return;
    if (h->phase == HTTP_IDLE || h->phase == HTTP_BODY)
        lws_set_timeout(c->wsi, PENDING_TIMEOUT_KILLED_BY_PARENT, LWS_TO_KILL_ASYNC);
    else if (h->exchange)
        exchange_cancel(&h->exchange->base);
}

static void free_conn(conn *c)
{
    free(c);
}

static bool is_sending(const conn *c)
{
    return http_has_output((const http_conn *)c);
}

static bool is_receiving(const conn *c)
{
    return ((const http_conn *)c)->phase == HTTP_BODY;
}

static void on_slow(conn *c)
{
    refuse(as_http(c), 408, "request_timeout", "The body of the request comes too slowly.");
}

static const conn_kind kind = {.on_callback = on_callback,
                               .on_gone = on_gone,
                               .on_stop = on_stop,
                               .is_sending = is_sending,
                               .is_receiving = is_receiving,
                               .on_slow = on_slow,
                               .free = free_conn};

conn *http_open(net_server *server, struct lws *wsi)
{
    http_conn *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    buf_init(&h->body, server->max_body);
    conn_init(&h->base, &kind, server, wsi);
    conn_set_timer(&h->base, server->header_timeout);
    return &h->base;
}

int http_upgrade(conn *c, char *value)
{
    http_conn *h = as_http(c);
    /* After refusing an upgrade that it does not know, libwebsockets 4.1 asks all the
     * same; the headers, and with them the value, may be gone by then. */
    if (lws_hdr_total_length(c->wsi, WSI_TOKEN_UPGRADE) == 0)
        return -1;
    bool socket = strcasecmp(value, "websocket") == 0;
    if (!socket && strcasecmp(value, "h2c") != 0)
        return -1;
    http_head head;
    http_refusal refusal;
    const char *why = NULL;
    bool granted = socket && http_head_read(c, &head, &refusal) &&
                   http_head_admit(c, &head, &refusal) && http_head_is_handshake(c, &head, &why);
    if (socket)
        http_head_clear(&head);
    if (granted)
        return 0;
    h->bad_upgrade = why;
    value[0] = '\0';
    return 0;
}
