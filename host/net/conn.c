/*
 * net/conn.c - the common part of connections. See conn.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/conn.h"

#include "base/log.h"

void conn_init(conn *c, const conn_kind *kind, net_server *server, struct lws *wsi)
{
    c->kind = kind;
    c->server = server;
    c->wsi = wsi;
    c->references = 1;
    outq_init(&c->out);
    c->previous = NULL;
    c->next = server->conns;
    if (c->next)
        c->next->previous = c;
    server->conns = c;
}

void conn_retain(conn *c)
{
    c->references++;
}

void conn_release(conn *c)
{
    if (--c->references)
        return;
    outq_clear(&c->out);
    c->kind->free(c);
}

void conn_gone(conn *c)
{
    if (!c->wsi)
        return;
    lws_set_opaque_user_data(c->wsi, NULL);
    c->wsi = NULL;
    if (c->previous)
        c->previous->next = c->next;
    else
        c->server->conns = c->next;
    if (c->next)
        c->next->previous = c->previous;
    outq_clear(&c->out);
    c->kind->on_gone(c);
    conn_release(c);
}

void conn_send(conn *c, const void *data, size_t size)
{
    if (!c->wsi || c->killed)
        return;
    if (!outq_push(&c->out, data, size)) {
        metric_add(c->server->measures.slow, 1);
        conn_kill(c, "it does not read what it is sent");
        return;
    }
    conn_want_write(c);
}

void conn_want_write(conn *c)
{
    if (c->wsi)
        lws_callback_on_writable(c->wsi);
}

void conn_kill(conn *c, const char *why)
{
    if (!c->wsi || c->killed)
        return;
    c->killed = true;
    outq_clear(&c->out);
    log_write(PAWL_LOG_WARN, "net", "a connection is closed: %s", why);
    lws_set_timeout(c->wsi, PENDING_TIMEOUT_KILLED_BY_PARENT, LWS_TO_KILL_ASYNC);
}

void conn_set_timer(conn *c, int seconds)
{
    if (c->wsi)
        lws_set_timer_usecs(c->wsi, seconds > 0 ? (lws_usec_t)seconds * LWS_US_PER_SEC
                                                : LWS_SET_TIMER_USEC_CANCEL);
}

bool conn_count_bytes(conn *c, size_t more)
{
    if (more > NET_MAX_BODY_BYTES - c->server->body_bytes)
        return false;
    c->server->body_bytes += more;
    return true;
}

void conn_uncount_bytes(conn *c, size_t less)
{
    c->server->body_bytes -= less;
}
