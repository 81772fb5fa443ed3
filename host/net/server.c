/*
 * net/server.c - the loop: opening, serving, stopping; libwebsockets' callbacks.
 *
 * The only file that makes a libwebsockets context. Of that library the loop thread
 * uses everything, other threads lws_cancel_service() alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/server.h"

#include "base/log.h"
#include "net/access.h"
#include "net/address.h"
#include "net/http.h"
#include "net/socket.h"
#include "net/tls.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define STOP_S 10                     /* for all connections to end           */
#define HURRY_S 2                     /* the same, when it is asked for twice */
#define SPARE_CONNECTIONS 64          /* over the maximum: these get a 503    */
#define SPARE_PER_ADDRESS 8           /* likewise of one client: a 429        */
#define SEND_BUFFER (256 << 10)       /* of the kernel: so that who does not read shows */
#define MAX_MESSAGE ((size_t)1 << 30) /* of scratch; events are far smaller   */

/* -------------------------------------------------------------------- the loop ---- */

/* [any]; also from a signal handler, since it only writes to an eventfd. */
static void wake(void *arg)
{
    net_server *server = arg;
    lws_cancel_service(server->context);
}

/* Nonzero: the connection is closed without a word. */
static int accept_or_not(net_server *server, int fd)
{
    const peer *p = peers_look(&server->peers, fd);
    bool limited = p && (!p->loopback || server->loopback_counts);
    return server->stopping || server->n_conns >= server->max_connections + SPARE_CONNECTIONS ||
           (limited && p->n >= server->max_per_address + SPARE_PER_ADDRESS);
}

static int on_connect(net_server *server, struct lws *wsi)
{
    conn *c = http_open(server, wsi);
    if (!c)
        return -1;
    int buffer = SEND_BUFFER, fd = lws_get_socket_fd(wsi);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    c->peer = peers_join(&server->peers, fd);
    lws_set_opaque_user_data(wsi, c);
    server->n_conns++;
    return 0;
}

/* A handshake was granted: the HTTP connection becomes a socket. */
static int on_established(net_server *server, struct lws *wsi, conn *http)
{
    if (!http)
        return -1;
    peer *from = http->peer;
    run_caller caller = http->caller;
    http->peer = NULL;
    conn_gone(http);
    conn *c = socket_open(server, wsi);
    if (!c) {
        peers_leave(&server->peers, from);
        server->n_conns--;
        return -1;
    }
    conn_inherit(c, from, &caller);
    lws_set_opaque_user_data(wsi, c);
    return 0;
}

static int on_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                       size_t len)
{
    (void)user;
    net_server *server = lws_context_user(lws_get_context(wsi));
    conn *c = NULL;
    switch (reason) {
    case LWS_CALLBACK_EVENT_WAIT_CANCELLED:
        inbox_drain(&server->inbox);
        return 0;
    case LWS_CALLBACK_FILTER_NETWORK_CONNECTION:
        return accept_or_not(server, (int)(intptr_t)in);
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        return on_connect(server, wsi);
    case LWS_CALLBACK_RAW_ADOPT: /* CONNECT, which nobody needs */
    case LWS_CALLBACK_RAW_RX:
        return -1;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        c = lws_get_opaque_user_data(wsi);
        return c ? http_upgrade(c, in) : -1;
    case LWS_CALLBACK_ESTABLISHED:
        return on_established(server, wsi, lws_get_opaque_user_data(wsi));
    case LWS_CALLBACK_WSI_DESTROY:
        c = lws_get_opaque_user_data(wsi);
        if (c) {
            server->n_conns--;
            conn_gone(c);
        }
        return 0;
    case LWS_CALLBACK_HTTP:
    case LWS_CALLBACK_HTTP_BODY:
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
    case LWS_CALLBACK_HTTP_WRITEABLE:
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_SERVER_WRITEABLE:
    case LWS_CALLBACK_TIMER:
        c = lws_get_opaque_user_data(wsi);
        return c ? c->kind->on_callback(c, reason, in, len) : -1;
    default:
        return 0;
    }
}

/* --------------------------------------------------------------------- opening ---- */

/* What libwebsockets calls an error is mostly a client's. */
/* Its warnings are about what clients do, who could fill the log with them. */
static void log_library(int level, const char *line)
{
    log_write(level == LLL_ERR ? PAWL_LOG_ERROR : PAWL_LOG_DEBUG, "net", "lws: %.*s",
              (int)strcspn(line, "\r\n"), line);
}

static int seconds_or(uint32_t given, int otherwise)
{
    return given == 0 ? otherwise : given > 0x7fffff ? 0x7fffff : (int)given;
}

/* Every connection needs a descriptor; models, store and logs need some too. */
static uint32_t fit_connections(uint32_t wanted)
{
    struct rlimit limit;
    uint32_t spare = SPARE_CONNECTIONS + 128;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= (rlim_t)wanted + spare)
        return wanted;
    return limit.rlim_cur > 2 * spare ? (uint32_t)limit.rlim_cur - spare : spare;
}

static void configure(net_server *server, const net_config *config)
{
    int ping = seconds_or(config->ping_interval, 15);
    server->runtime = config->runtime;
    server->clock = run_clock(config->runtime);
    server->drain = config->drain ? seconds_or(config->drain, 0) : 0;
    server->log_access = config->log_access;
    access_open(server, config->metrics);
    server->max_body = config->max_body ? config->max_body : (size_t)32 << 20;
    server->max_connections =
        fit_connections(config->max_connections ? config->max_connections : 1024);
    server->socket_lifetime =
        config->socket_lifetime == NET_FOREVER ? 0 : seconds_or(config->socket_lifetime, 3600);
    server->socket_grace = seconds_or(config->socket_grace, 30);
    server->comment_interval = seconds_or(config->comment_interval, 15);
    server->idle_timeout = seconds_or(config->idle_timeout, 120);
    server->header_timeout = seconds_or(config->header_timeout, 10);
    server->body_timeout = seconds_or(config->body_timeout, 15);
    server->write_timeout = seconds_or(config->write_timeout, 30);
    server->loopback_counts = config->max_per_address > 0;
    server->max_per_address =
        config->max_per_address ? config->max_per_address : (server->max_connections + 3) / 4;
    server->tls = config->tls_cert || config->tls_key;
    server->ping.secs_since_valid_ping = (uint16_t)(ping < 10000 ? ping : 10000);
    server->ping.secs_since_valid_hangup = (uint16_t)(server->ping.secs_since_valid_ping * 6);
    server->protocols[0] = (struct lws_protocols){
        .name = "pawl", .callback = on_callback, .rx_buffer_size = 16384, .tx_packet_size = 65536};
}

/* Who may ask; and that not everybody may on a network. */
static pawl_status open_doors(net_server *server, const net_config *config,
                              const net_address *address, pawl_error *error)
{
    pawl_status status =
        keyring_open(config->key_file, config->key, config->runtime, &server->keys, error);
    if (!status)
        status = allow_open(&server->allow, !address->loopback, config->hosts, config->n_hosts,
                            config->origins, config->n_origins, error);
    if (!status && server->tls)
        status = tls_check(config->tls_cert, config->tls_key, error);
    if (status || address->loopback)
        return status;
    if (!keyring_required(server->keys))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "on %s anybody on the network could use this server: give it a key "
                         "(`pawl key add`, --api-key-file or PAWL_API_KEY), or listen on 127.0.0.1",
                         address->host);
    if (!server->tls)
        log_write(PAWL_LOG_WARN, "net",
                  "keys and conversations cross the network unencrypted; give --tls-cert and "
                  "--tls-key, or put a proxy that does TLS before this server");
    return PAWL_OK;
}

static pawl_status listen_on(net_server *server, const net_config *config,
                             const net_address *address, pawl_error *error)
{
    struct lws_context_creation_info info = {0};
    info.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND;
    if (!address->v6)
        info.options |= LWS_SERVER_OPTION_DISABLE_IPV6;
    info.port = CONTEXT_PORT_NO_LISTEN;
    info.gid = -1;
    info.uid = -1;
    info.user = server;
    /* Of bodies and closing; conn_watch() comes before it, with words. */
    info.timeout_secs = (unsigned)server->body_timeout + 5;
    info.pt_serv_buf_size = 65536;
    info.max_http_header_data = 16384;
    lws_set_log_level(LLL_ERR | LLL_WARN, log_library);
    if (server->tls)
        tls_configure(&info, config->tls_cert, config->tls_key);
    server->context = lws_create_context(&info);
    if (!server->context)
        return pawl_fail(error, PAWL_E_MEMORY, "libwebsockets could not be started");
    info.port = address->port;
    info.iface = address->any ? NULL : address->host;
    info.vhost_name = "pawl";
    info.protocols = server->protocols;
    info.retry_and_idle_policy = &server->ping;
    info.keepalive_timeout = server->idle_timeout;
    /* How long a request may take: libwebsockets holds its headers until it is answered
     * and closes a connection that holds them for longer than this. */
    info.timeout_secs_ah_idle = 30 * 24 * 3600;
    server->vhost = lws_create_vhost(server->context, &info);
    if (!server->vhost && server->tls)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s and %s cannot be used together: the certificate of the server comes "
                         "first in its file, and the key must be its own; OpenSSL's words are in "
                         "the log",
                         config->tls_cert, config->tls_key);
    if (!server->vhost)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "cannot listen on %s, port %u", address->host,
                         address->port);
    if (server->tls)
        tls_report(server->vhost, config->tls_cert);
    snprintf(server->shown, sizeof server->shown, "%s://%s%s%s:%u", server->tls ? "https" : "http",
             address->v6 ? "[" : "", address->host, address->v6 ? "]" : "", net_port(server));
    return PAWL_OK;
}

pawl_status net_open(const net_config *config, net_server **server, pawl_error *error)
{
    net_address address;
    pawl_status status = address_parse(config->listen, &address, error);
    if (!status)
        status = address_try(&address, error);
    if (status)
        return status;
    net_server *s = calloc(1, sizeof *s);
    if (!s)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the server");
    inbox_init(&s->inbox, wake, s);
    buf_init(&s->scratch, MAX_MESSAGE);
    atomic_init(&s->stops, 0);
    configure(s, config);
    status = open_doors(s, config, &address, error);
    if (!status)
        status = listen_on(s, config, &address, error);
    if (status) {
        net_close(s);
        return status;
    }
    *server = s;
    return PAWL_OK;
}

uint16_t net_port(const net_server *server)
{
    return (uint16_t)lws_get_vhost_listen_port(server->vhost);
}

const char *net_shown_address(const net_server *server)
{
    return server->shown;
}

/* ------------------------------------------------------------ serving, stopping ---- */

static void on_watch(lws_sorted_usec_list_t *sul)
{
    net_server *server = (net_server *)((char *)sul - offsetof(net_server, watch));
    conn *next;
    for (conn *c = server->conns; c; c = next) {
        next = c->next;
        conn_watch(c, lws_now_usecs());
    }
    run_tend(server->runtime);
    lws_sul_schedule(server->context, 0, &server->watch, on_watch, LWS_US_PER_SEC);
}

static void on_deadline(lws_sorted_usec_list_t *sul)
{
    net_server *server = (net_server *)((char *)sul - offsetof(net_server, deadline));
    server->expired = true;
}

static void set_deadline(net_server *server, int seconds)
{
    server->expired = false;
    lws_sul_schedule(server->context, 0, &server->deadline, on_deadline,
                     seconds < 0 ? LWS_SET_TIMER_USEC_CANCEL : seconds * LWS_US_PER_SEC);
}

static void tell_all(net_server *server, int grace)
{
    conn *next;
    for (conn *c = server->conns; c; c = next) {
        next = c->next;
        c->kind->on_stop(c, grace);
    }
}

/* Lets what runs end. */
static bool drain(net_server *server)
{
    bool failed = false;
    server->draining = true;
    if (!server->drain)
        return true;
    log_write(PAWL_LOG_INFO, "net", "draining: %u requests may end, within %d s", server->n_jobs,
              server->drain);
    set_deadline(server, server->drain);
    tell_all(server, server->drain);
    while (!failed && !server->expired && atomic_load(&server->stops) < 2 &&
           (server->n_jobs || run_kept_running(server->runtime)))
        failed = lws_service(server->context, 0) < 0;
    return !failed;
}

/* Ends what still runs, and all connections. */
static bool stop(net_server *server)
{
    bool failed = false;
    bool hurry = atomic_load(&server->stops) > 1;
    server->stopping = true;
    if (server->n_jobs)
        log_write(PAWL_LOG_INFO, "net", "%u requests are cancelled", server->n_jobs);
    set_deadline(server, hurry ? HURRY_S : STOP_S);
    tell_all(server, 0);
    run_cancel_kept(server->runtime); /* also those that no connection knows of */
    while (!failed && !server->expired && atomic_load(&server->stops) < 3 &&
           (server->n_conns || server->n_jobs))
        failed = lws_service(server->context, 0) < 0;
    set_deadline(server, -1);
    return !failed;
}

pawl_status net_serve(net_server *server)
{
    bool failed = false;
    on_watch(&server->watch);
    while (!failed && !atomic_load(&server->stops))
        failed = lws_service(server->context, 0) < 0;
    failed = failed || !drain(server) || !stop(server);
    lws_sul_schedule(server->context, 0, &server->watch, on_watch, LWS_SET_TIMER_USEC_CANCEL);
    if (server->n_jobs)
        log_write(PAWL_LOG_WARN, "net", "stopping with %u requests unfinished", server->n_jobs);
    return failed ? PAWL_E_INTERNAL : PAWL_OK;
}

void net_stop(net_server *server)
{
    atomic_fetch_add(&server->stops, 1);
    wake(server);
}

void net_close(net_server *server)
{
    if (!server)
        return;
    if (server->context) {
        inbox_drain(&server->inbox);
        lws_context_destroy(server->context);
    }
    inbox_clear(&server->inbox);
    keyring_close(server->keys);
    allow_close(&server->allow);
    buf_clear(&server->scratch);
    free(server);
}
