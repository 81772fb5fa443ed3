/*
 * net/http_reply.c - from an answer to bytes on the wire. See http.h.
 *
 * Heads and events go through the connection's out-queue; a body stays where it is
 * and is written in slices, after the queue is empty.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/http.h"

#include "net/wire.h"

#include <stdlib.h>
#include <string.h>

#define SLICE ((size_t)48 << 10)    /* of a body, in one write */
#define ONE_WRITE ((size_t)8 << 10) /* a body that goes out together with its head */

static const char json_type[] = "application/json";

bool http_has_output(const http_conn *h)
{
    return h->base.out.first || h->reply_sent < h->reply_size;
}

/* Sends what has been built in the server's scratch buffer. */
static void send_scratch(http_conn *h)
{
    buf *scratch = &h->base.server->scratch;
    if (scratch->failed)
        conn_kill(&h->base, "there was no memory for a message to it");
    else
        conn_send(&h->base, scratch->data, scratch->size);
    buf_reset(scratch);
    if (scratch->room > 1 << 20)
        buf_clear(scratch);
    h->moved = true;
}

/* Reading was off while the request ran; libwebsockets writes only with it on. */
static void resume_reading(http_conn *h)
{
    if (h->rx_paused && h->base.wsi)
        lws_rx_flow_control(h->base.wsi, 1);
    h->rx_paused = false;
}

static void reply(http_conn *h, wire_head *head, const char *body)
{
    buf *scratch = &h->base.server->scratch;
    resume_reading(h);
    h->status = head->status;
    h->close = h->close || h->head.close || !h->body_read || h->base.server->draining;
    h->phase = HTTP_REPLY;
    head->request_id = h->request_id;
    head->close = h->close;
    head->http_1_0 = h->head.http_1_0;
    head->cors = h->head.cors;
    wire_add_head(scratch, head);
    h->reply = body;
    h->reply_size = strcmp(h->head.method, "HEAD") == 0 ? 0 : head->size;
    h->reply_sent = 0;
    if (h->reply_size <= ONE_WRITE) {
        buf_add(scratch, body, h->reply_size);
        h->reply_size = 0;
    }
    send_scratch(h);
    conn_set_timer(&h->base, 0); /* from here conn_watch() sees to it */
}

void http_reply_refusal(http_conn *h, const http_refusal *refusal)
{
    static const char no_memory[] = "{\"error\":{\"message\":\"There is no memory left.\",\"type\":"
                                    "\"server_error\",\"param\":null,\"code\":\"server_error\"}}";
    free(h->text);
    h->text = api_error_body(refusal->type, refusal->code, NULL, refusal->message);
    const char *body = h->text ? h->text : no_memory;
    reply(h,
          &(wire_head){.status = refusal->status,
                       .content_type = json_type,
                       .size = strlen(body),
                       .retry_after = refusal->retry_after},
          body);
}

void http_reply_preflight(http_conn *h)
{
    char names[1024];
    enum lws_token_indexes token = WSI_TOKEN_HTTP_AC_REQUEST_HEADERS;
    bool given = lws_hdr_copy(h->base.wsi, names, sizeof names, token) > 0;
    reply(h,
          &(wire_head){.status = 204,
                       .preflight = given && wire_is_name_list(names)
                                        ? names
                                        : "authorization, content-type"},
          "");
}

void http_reply_static(http_conn *h, const char *json)
{
    reply(h, &(wire_head){.status = 200, .content_type = json_type, .size = strlen(json)}, json);
}

void http_reply_call(http_conn *h, const api_call *call)
{
    size_t size = 0;
    const char *body = api_call_body(call, &size);
    const char *type = api_call_content_type(call);
    reply(h,
          &(wire_head){.status = api_call_status(call),
                       .content_type = type ? type : json_type,
                       .size = body ? size : 0,
                       .retry_after = api_call_retry_after(call)},
          body);
}

void http_stream_begin(http_conn *h, const api_call *call)
{
    const char *type = api_call_content_type(call);
    resume_reading(h);
    h->status = 200;
    h->streaming = true;
    h->close = h->close || h->head.close || h->head.http_1_0;
    wire_add_head(&h->base.server->scratch,
                  &(wire_head){.status = 200,
                               .content_type = type ? type : "text/event-stream; charset=utf-8",
                               .request_id = h->request_id,
                               .stream = true,
                               .chunked = !h->head.http_1_0,
                               .cors = h->head.cors,
                               .close = h->close});
    send_scratch(h);
    conn_set_timer(&h->base, http_stream_tick(h));
}

void http_stream_message(http_conn *h, const char *name, const char *json, size_t size)
{
    wire_add_event(&h->base.server->scratch, name, json, size, !h->head.http_1_0);
    send_scratch(h);
}

void http_stream_comment(http_conn *h)
{
    wire_add_comment(&h->base.server->scratch, !h->head.http_1_0);
    send_scratch(h);
}

int http_stream_tick(const http_conn *h)
{
    int interval = h->base.server->comment_interval;
    return interval > 1 ? interval / 2 : 1;
}

void http_stream_end(http_conn *h)
{
    h->phase = HTTP_REPLY;
    if (!h->head.http_1_0)
        conn_send(&h->base, "0\r\n\r\n", 5);
    conn_want_write(&h->base);
    conn_set_timer(&h->base, 0);
}

/* lws_write() says how much it took, and keeps what the socket did not. */
static int put(http_conn *h, unsigned char *data, size_t size)
{
    h->sent += size;
    return lws_write(h->base.wsi, data, size, LWS_WRITE_HTTP) < 0 ? -1 : 0;
}

int http_write(http_conn *h)
{
    size_t size;
    unsigned char *data = outq_first(&h->base.out, &size);
    h->moved = true;
    if (data) {
        int failed = put(h, data, size);
        conn_sent(&h->base, true);
        return failed;
    }
    unsigned char slice[LWS_PRE + SLICE];
    size = h->reply_size - h->reply_sent;
    if (size > SLICE)
        size = SLICE;
    if (!size)
        return 0;
    memcpy(slice + LWS_PRE, h->reply + h->reply_sent, size);
    h->reply_sent += size;
    conn_sent(&h->base, false);
    return put(h, slice + LWS_PRE, size);
}
