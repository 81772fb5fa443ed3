/*
 * net/conn.c - the common part of connections. See conn.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/conn.h"

#include "base/log.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

static void clear_out(conn *c)
{
    c->server->out_bytes -= c->out.bytes;
    outq_clear(&c->out);
}

void conn_retain(conn *c)
{
    c->references++;
}

void conn_release(conn *c)
{
    if (--c->references)
        return;
    clear_out(c);
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
    clear_out(c);
    peers_leave(&c->server->peers, c->peer);
    c->peer = NULL;
    c->kind->on_gone(c);
    conn_release(c);
}

void conn_send(conn *c, const void *data, size_t size)
{
    if (!c->wsi || c->killed)
        return;
    bool crowded = c->server->out_bytes > NET_MAX_OUT_BYTES && c->out.bytes > NET_OUT_SHARE;
    if (crowded || !outq_push(&c->out, data, size)) {
        metric_add(c->server->measures.slow, 1);
        conn_kill(c, "it does not read what it is sent");
        return;
    }
    c->server->out_bytes += size;
    conn_want_write(c);
}

void conn_want_write(conn *c)
{
    if (c->wsi)
        lws_callback_on_writable(c->wsi);
}

void conn_cut(conn *c)
{
    shutdown(lws_get_socket_fd(c->wsi), SHUT_RDWR);
}

void conn_kill(conn *c, const char *why)
{
    if (!c->wsi || c->killed)
        return;
    c->killed = true;
    clear_out(c);
    log_write(PAWL_LOG_WARN, "net", "a connection is closed: %s", why);
    conn_cut(c);
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
    c->received += more;
    return true;
}

void conn_uncount_bytes(conn *c, size_t less)
{
    c->server->body_bytes -= less;
}

void conn_sent(conn *c, bool from_queue)
{
    if (from_queue) {
        size_t before = c->out.bytes;
        outq_pop(&c->out);
        c->server->out_bytes -= before - c->out.bytes;
    }
    c->unsent_since = 0;
}

/* Whether the client's kernel has taken more bytes than when it was last asked. One
 * message may be large and leaves in one piece, so that writing does not tell. */
static bool has_taken_more(conn *c)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(lws_get_socket_fd(c->wsi), IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        info.tcpi_bytes_acked == c->acknowledged)
        return false;
    c->acknowledged = info.tcpi_bytes_acked;
    return true;
}

void conn_watch(conn *c, lws_usec_t now)
{
    const net_server *server = c->server;
    if (!c->wsi || c->killed)
        return;
    if (!c->kind->is_sending(c) && !lws_partial_buffered(c->wsi))
        c->unsent_since = 0;
    else if (!c->unsent_since || has_taken_more(c))
        c->unsent_since = now;
    else if (now - c->unsent_since > server->write_timeout * LWS_US_PER_SEC) {
        conn_kill(c, "it has not read for too long");
        return;
    }
    bool window = c->receiving_since && c->kind->is_receiving(c);
    if (window && now - c->receiving_since < server->body_timeout * LWS_US_PER_SEC)
        return;
    if (window && c->received < NET_MIN_RECEIVED)
        c->kind->on_slow(c);
    c->receiving_since = c->kind->is_receiving(c) ? now : 0;
    c->received = 0;
}

void conn_inherit(conn *to, peer *from, const run_caller *caller)
{
    to->peer = from;
    to->caller = *caller;
}
