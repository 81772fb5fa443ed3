/*
 * net/access.c - access lines, and what is measured of connections. See access.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/access.h"

#include "base/log.h"

#include <string.h>

void access_collect(const net_server *server)
{
    size_t queued = 0;
    for (const conn *c = server->conns; c; c = c->next)
        queued += c->out.bytes;
    metric_set(server->measures.connections, server->n_conns);
    metric_set(server->measures.sockets, server->n_sockets);
    metric_set(server->measures.lanes, server->n_lanes);
    metric_set(server->measures.jobs, server->n_jobs);
    metric_set(server->measures.queued, (double)queued);
}

void access_open(net_server *server, metrics *all)
{
    static const metric_spec requests = {METRIC_COUNTER,
                                         "pawl_http_requests_total",
                                         "Requests that were answered.",
                                         {"endpoint", "status"},
                                         NULL};
    static const metric_spec connections = {
        METRIC_GAUGE, "pawl_connections", "Open connections, sockets included.", {0}, NULL};
    static const metric_spec sockets = {
        METRIC_GAUGE, "pawl_ws_connections", "Open WebSockets.", {0}, NULL};
    static const metric_spec lanes = {
        METRIC_GAUGE, "pawl_ws_lanes_running", "Lanes of sockets with a turn.", {0}, NULL};
    static const metric_spec jobs = {
        METRIC_GAUGE, "pawl_requests_open", "Requests that are not answered yet.", {0}, NULL};
    static const metric_spec queued = {
        METRIC_GAUGE, "pawl_send_queue_bytes", "Bytes that clients have not taken yet.", {0}, NULL};
    static const metric_spec slow = {METRIC_COUNTER,
                                     "pawl_slow_closed_total",
                                     "Connections closed because they did not read.",
                                     {0},
                                     NULL};
    server->measures = (net_measures){.requests = metrics_family(all, &requests),
                                      .connections = metrics_single(all, &connections),
                                      .sockets = metrics_single(all, &sockets),
                                      .lanes = metrics_single(all, &lanes),
                                      .jobs = metrics_single(all, &jobs),
                                      .queued = metrics_single(all, &queued),
                                      .slow = metrics_single(all, &slow)};
}

int64_t access_now(const net_server *server)
{
    return server->clock->monotonic_ns(server->clock->context);
}

/* What its turn came to. */
static void add_turn(log_line *line, const api_call *call)
{
    api_summary turn;
    if (!call || !api_call_summary(call, &turn))
        return;
    log_text(line, "model", turn.model);
    log_text(line, "response_id", turn.response_id);
    log_text(line, "finish", turn.stop_reason);
    log_number(line, "input_tokens", turn.usage.input_tokens);
    log_number(line, "cached_tokens", turn.usage.cached_tokens);
    log_number(line, "output_tokens", turn.usage.output_tokens);
    log_ms(line, "queue_ms", turn.times.queue);
    log_ms(line, "prefill_ms", turn.times.prefill);
    log_ms(line, "decode_ms", turn.times.decode);
}

void access_write(const net_server *server, const access_entry *e)
{
    char status[16];
    log_line line;
    bool socket = strcmp(e->method, "WS") == 0;
    snprintf(status, sizeof status, "%d", e->status);
    metric_add(metric_with(server->measures.requests,
                           socket ? "websocket" : api_endpoint(e->method, e->path), status),
               1);
    if (!server->log_access)
        return;
    log_begin(&line, PAWL_LOG_INFO, "access", "answered");
    log_text(&line, "method", e->method);
    log_text(&line, "path", e->path);
    log_number(&line, "status", (uint64_t)e->status);
    log_number(&line, "bytes", e->bytes);
    if (e->request_id)
        log_text(&line, "request_id", e->request_id);
    if (e->lane)
        log_text(&line, "lane", e->lane);
    if (e->code)
        log_text(&line, "code", e->code);
    if (e->began)
        log_ms(&line, "total_ms", access_now(server) - e->began);
    add_turn(&line, e->call);
    log_end(&line);
}
