/*
 * net/http_head.c - reading and judging request heads. See http_head.h.
 *
 * libwebsockets has decoded the path ("%2F" is "/" by now) and cut the query into
 * decoded arguments, from which it is put together again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/http_head.h"

#include "api/api.h"
#include "net/wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_KEY 255     /* characters of an Idempotency-Key */
#define MAX_HEADER 1024 /* of those that are looked at; the rest may be longer */

#define DRAIN_RETRY_S 5 /* after which a server that shuts down may be back */

/* Order of LWSHUMETH_*. */
static const struct {
    const char *name;
    enum lws_token_indexes token;
} methods[] = {
    {"GET", WSI_TOKEN_GET_URI},         {"POST", WSI_TOKEN_POST_URI},
    {"OPTIONS", WSI_TOKEN_OPTIONS_URI}, {"PUT", WSI_TOKEN_PUT_URI},
    {"PATCH", WSI_TOKEN_PATCH_URI},     {"DELETE", WSI_TOKEN_DELETE_URI},
    {"CONNECT", WSI_TOKEN_CONNECT},     {"HEAD", WSI_TOKEN_HEAD_URI},
};

bool http_refuse(http_refusal *refusal, int status, const char *code, const char *format, ...)
{
    bool ours = status >= 500;
    *refusal = (http_refusal){.status = status,
                              .retry_after = ours ? 1 : 0,
                              .type = ours            ? "server_error"
                                      : status == 429 ? "rate_limit_error"
                                                      : "invalid_request_error",
                              .code = code};
    va_list args;
    va_start(args, format);
    vsnprintf(refusal->message, sizeof refusal->message, format, args);
    va_end(args);
    return false;
}

/* A header's value; "" where it is absent. False: it is too long. */
static bool get(conn *c, enum lws_token_indexes token, char value[MAX_HEADER])
{
    value[0] = '\0';
    return lws_hdr_total_length(c->wsi, token) == 0 ||
           lws_hdr_copy(c->wsi, value, MAX_HEADER, token) >= 0;
}

static char *get_path(conn *c, enum lws_token_indexes token)
{
    int size = lws_hdr_total_length(c->wsi, token) + 16;
    char *path = malloc((size_t)size);
    if (!path)
        return NULL;
    int n = lws_hdr_copy(c->wsi, path, size, token);
    if (n > 0 && path[0] == '/' && strlen(path) == (size_t)n && wire_is_clean(path))
        return path;
    free(path);
    return NULL;
}

static char *get_query(conn *c)
{
    buf query;
    char argument[MAX_HEADER];
    buf_init(&query, 8 * MAX_HEADER);
    buf_add_text(&query, "");
    for (int i = 0; lws_hdr_fragment_length(c->wsi, WSI_TOKEN_HTTP_URI_ARGS, i) > 0; i++) {
        int n =
            lws_hdr_copy_fragment(c->wsi, argument, sizeof argument, WSI_TOKEN_HTTP_URI_ARGS, i);
        if (n < 0)
            query.failed = true;
        else
            wire_add_query(&query, argument, (size_t)n);
    }
    if (query.failed) {
        buf_clear(&query);
        return NULL;
    }
    return buf_take(&query);
}

/* How the body comes. */
static bool read_framing(conn *c, http_head *head, http_refusal *refusal)
{
    char length[MAX_HEADER], coding[MAX_HEADER], expect[MAX_HEADER];
    bool fits = get(c, WSI_TOKEN_HTTP_CONTENT_LENGTH, length);
    fits &= get(c, WSI_TOKEN_HTTP_TRANSFER_ENCODING, coding);
    fits &= get(c, WSI_TOKEN_HTTP_EXPECT, expect);
    bool body_method = strcmp(head->method, "POST") == 0 || strcmp(head->method, "PUT") == 0 ||
                       strcmp(head->method, "PATCH") == 0;
    head->chunked = *coding != '\0';
    head->expects_continue = strcasecmp(expect, "100-continue") == 0;
    head->bodiless = fits && !*length && !*coding;
    if (!fits || (*length && !wire_parse_size(length, &head->body_size)) || (*length && *coding) ||
        (*coding && head->http_1_0))
        return http_refuse(
            refusal, 400, "invalid_request",
            "The length of the body is not clear: send Content-Length with one number, "
            "or Transfer-Encoding: chunked.");
    head->bodiless = head->bodiless || (*length && head->body_size == 0);
    if (*coding && strcasecmp(coding, "chunked") != 0)
        return http_refuse(refusal, 501, "unsupported_value",
                           "The only Transfer-Encoding that is understood is chunked.");
    if (*coding && !body_method)
        return http_refuse(refusal, 400, "invalid_request", "This method takes no body in chunks.");
    if (head->body_size > c->server->max_body)
        return http_refuse(refusal, 413, "request_too_large",
                           "The body has %llu bytes; this server accepts %zu.",
                           (unsigned long long)head->body_size, c->server->max_body);
    return true;
}

/* What it may be made of, host/api knows; here is only how long it may be. */
static bool read_key(conn *c, http_head *head, http_refusal *refusal)
{
    static const char name[] = "idempotency-key:";
    char key[MAX_KEY + 2];
    int n = lws_hdr_custom_length(c->wsi, name, sizeof name - 1);
    if (n < 0)
        return true;
    if (n > MAX_KEY || lws_hdr_custom_copy(c->wsi, key, sizeof key, name, sizeof name - 1) != n)
        return http_refuse(refusal, 400, "invalid_value",
                           "The header Idempotency-Key may have %d characters.", MAX_KEY);
    head->key = strndup(key, (size_t)n);
    return head->key || http_refuse(refusal, 500, "server_error", "There is no memory left.");
}

bool http_head_read(conn *c, http_head *head, http_refusal *refusal)
{
    char *uri = NULL;
    int size = 0;
    int method = lws_http_get_uri_and_method(c->wsi, &uri, &size);
    *head = (http_head){.method = "GET", .close = true};
    if (method < 0 || method >= (int)(sizeof methods / sizeof *methods))
        return http_refuse(refusal, 405, "method_not_allowed", "This method is not known.");
    head->method = methods[method].name;
    char version[MAX_HEADER], connection[MAX_HEADER];
    if (!get(c, WSI_TOKEN_HTTP, version) || !get(c, WSI_TOKEN_CONNECTION, connection))
        return http_refuse(refusal, 400, "invalid_request", "A header is too long.");
    head->http_1_0 = strcmp(version, "HTTP/1.1") != 0;
    head->close = head->http_1_0 ? !wire_has_token(connection, "keep-alive")
                                 : wire_has_token(connection, "close");
    if (!read_framing(c, head, refusal))
        return false;
    head->path = get_path(c, methods[method].token);
    head->query = get_query(c);
    if (!head->path || !head->query)
        return http_refuse(refusal, 400, "invalid_request", "The URL is not valid.");
    return read_key(c, head, refusal);
}

void http_head_clear(http_head *head)
{
    free(head->path);
    free(head->query);
    free(head->key);
    head->path = head->query = head->key = NULL;
}

static bool is_path(const http_head *head, const char *wanted)
{
    const char *path = strncmp(head->path, "/v1/", 4) == 0 ? head->path + 3 : head->path;
    return strcmp(path, wanted) == 0;
}

static bool is_get(const http_head *head)
{
    return strcmp(head->method, "GET") == 0 || strcmp(head->method, "HEAD") == 0;
}

bool http_head_is_live(const http_head *head)
{
    return is_get(head) && is_path(head, "/livez");
}

bool http_head_is_ready(const http_head *head)
{
    return is_get(head) && (is_path(head, "/readyz") || is_path(head, "/health"));
}

bool http_head_is_metrics(const http_head *head)
{
    return is_path(head, "/metrics");
}

bool http_head_in_time(conn *c, const http_head *head, http_refusal *refusal)
{
    if (!c->server->draining || http_head_is_live(head) || http_head_is_metrics(head))
        return true;
    http_refuse(refusal, 503, "server_is_overloaded", "The server is shutting down.");
    refusal->retry_after = DRAIN_RETRY_S;
    return false;
}

bool http_head_request_id(conn *c, char id[CLOCK_ID_SIZE])
{
    static const char name[] = "x-request-id:", allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                                            "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                            "0123456789_.-";
    int n = lws_hdr_custom_copy(c->wsi, id, CLOCK_ID_SIZE, name, sizeof name - 1);
    return n > 0 && strspn(id, allowed) == (size_t)n;
}

/* Host and Origin. */
static bool check_names(conn *c, http_head *head, http_refusal *refusal)
{
    const allow_list *allow = &c->server->allow;
    char host[MAX_HEADER], origin[MAX_HEADER];
    bool fits = get(c, WSI_TOKEN_HOST, host);
    fits &= get(c, WSI_TOKEN_ORIGIN, origin);
    if (!fits || (!*host && !head->http_1_0))
        return http_refuse(refusal, 400, "invalid_request", "A Host header is needed.");
    if (*host && !allow_host(allow, host))
        return http_refuse(refusal, 403, "forbidden_host",
                           "This server does not answer to the name in the Host header; start it "
                           "with --allow-host %.60s if it should.",
                           wire_is_clean(host) ? host : "NAME");
    if (*origin && !allow_origin(allow, origin, host))
        return http_refuse(refusal, 403, "forbidden_origin",
                           "Pages of this origin may not use this server; start it with "
                           "--allow-origin if they should.");
    head->cors = *origin ? allow_cors(allow, origin) : NULL;
    head->preflight = head->cors && strcmp(head->method, "OPTIONS") == 0;
    return true;
}

static bool check_key(conn *c, const http_head *head, http_refusal *refusal)
{
    char authorization[MAX_HEADER];
    uint32_t needed = api_scope_needed(head->method, head->path);
    c->caller = RUN_NOBODY;
    if (!needed || head->preflight)
        return true;
    enum keyring_answer answer = get(c, WSI_TOKEN_HTTP_AUTHORIZATION, authorization)
                                     ? keyring_find(c->server->keys, authorization, &c->caller)
                                     : KEYRING_MALFORMED;
    explicit_bzero(authorization, sizeof authorization);
    if (answer != KEYRING_GOOD)
        return http_refuse(refusal, 401, "invalid_api_key", "%s", keyring_message(answer));
    if (c->caller.scopes & (needed | STORE_SCOPE_ADMIN))
        return true;
    return http_refuse(refusal, 403, "insufficient_scope",
                       "This API key does not allow that; a key with the scope '%s' does.",
                       needed == STORE_SCOPE_ADMIN     ? "admin"
                       : needed == STORE_SCOPE_METRICS ? "metrics"
                                                       : "inference");
}

static bool refuse_for_now(conn *c, http_refusal *refusal, int status, const char *code,
                           const char *message)
{
    http_refuse(refusal, status, code, "%s", message);
    refusal->retry_after = run_retry_after(c->server->runtime);
    return false;
}

bool http_head_admit(conn *c, http_head *head, http_refusal *refusal)
{
    const net_server *server = c->server;
    if (!check_names(c, head, refusal) || !check_key(c, head, refusal))
        return false;
    if (!http_head_in_time(c, head, refusal))
        return false;
    if (server->n_conns > server->max_connections)
        return refuse_for_now(c, refusal, 503, "server_is_overloaded",
                              "The server has as many connections as it accepts; try again soon.");
    if (c->peer && c->peer->n > server->max_per_address &&
        (!c->peer->loopback || server->loopback_counts))
        return refuse_for_now(c, refusal, 429, "rate_limit_exceeded",
                              "Your address has as many connections as it may have; close some.");
    return true;
}

bool http_head_is_handshake(conn *c, const http_head *head, const char **why)
{
    char connection[MAX_HEADER], version[MAX_HEADER], key[MAX_HEADER];
    *why = NULL;
    if (strcmp(head->path, "/v1/responses") != 0 && strcmp(head->path, "/responses") != 0)
        return false;
    bool fits = get(c, WSI_TOKEN_CONNECTION, connection);
    fits &= get(c, WSI_TOKEN_VERSION, version);
    fits &= get(c, WSI_TOKEN_KEY, key);
    if (strcmp(head->method, "GET") != 0 || head->http_1_0 || !head->bodiless)
        *why = "A WebSocket handshake is a GET request of HTTP/1.1 without a body.";
    else if (!fits || !wire_has_token(connection, "upgrade"))
        *why = "A WebSocket handshake needs the header 'Connection: Upgrade'.";
    else if (strcmp(version, "13") != 0)
        *why = "A WebSocket handshake needs the header 'Sec-WebSocket-Version: 13'.";
    else if (strlen(key) != 24)
        *why = "A WebSocket handshake needs a Sec-WebSocket-Key of 16 bytes in Base64.";
    else if (lws_hdr_total_length(c->wsi, WSI_TOKEN_PROTOCOL) > 0)
        *why = "No subprotocol is spoken here; leave out Sec-WebSocket-Protocol.";
    return !*why;
}
