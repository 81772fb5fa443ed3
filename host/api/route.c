/*
 * api/route.c - which endpoint a method and a path mean. See route.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/route.h"

#include <stdio.h>
#include <string.h>

/* A pattern's "{id}" takes one segment of a path, "{path}" all the rest. Where several
 * rows fit a path, the first one with the method wins. */
static const struct route {
    const char *method;
    const char *pattern;
    enum route_name name;
} routes[] = {
    {"POST", "/responses", ROUTE_RESPONSES_CREATE},
    {"POST", "/responses/input_tokens", ROUTE_INPUT_TOKENS},
    {"GET", "/responses/{id}", ROUTE_RESPONSE_GET},
    {"DELETE", "/responses/{id}", ROUTE_RESPONSE_DELETE},
    {"POST", "/responses/{id}/cancel", ROUTE_RESPONSE_CANCEL},
    {"GET", "/responses/{id}/input_items", ROUTE_INPUT_ITEMS},
    {"POST", "/chat/completions", ROUTE_CHAT},
    {"POST", "/completions", ROUTE_COMPLETIONS},
    {"POST", "/tokenize", ROUTE_TOKENIZE},
    {"POST", "/detokenize", ROUTE_DETOKENIZE},
    {"GET", "/models", ROUTE_MODELS},
    {"GET", "/models/{path}", ROUTE_MODEL},
    {"GET", "/livez", ROUTE_HEALTH},
    {"GET", "/readyz", ROUTE_READY},
    {"GET", "/health", ROUTE_READY},
    {"GET", "/metrics", ROUTE_METRICS},
    {"GET", "/version", ROUTE_VERSION},
    {"GET", "/pipelines", ROUTE_PIPELINES},
    {"POST", "/pipelines/{id}/runs", ROUTE_PIPELINE_START},
    {"GET", "/runs", ROUTE_RUNS},
    {"GET", "/runs/{id}", ROUTE_RUN},
    {"GET", "/runs/{id}/events", ROUTE_RUN_EVENTS},
    {"POST", "/runs/{id}/cancel", ROUTE_RUN_CANCEL},
    {"POST", "/runs/{id}/answer", ROUTE_RUN_ANSWER},
};

#define N_ROUTES (sizeof routes / sizeof routes[0])

/* Whether the path fits the pattern; what stands for the placeholder goes to id. */
static bool fits(const char *pattern, const char *path, char id[ROUTE_ID_SIZE])
{
    *id = '\0';
    while (*pattern && *pattern == *path && *pattern != '{') {
        pattern++;
        path++;
    }
    if (*pattern != '{')
        return *pattern == '\0' && (*path == '\0' || strcmp(path, "/") == 0);
    bool rest = strncmp(pattern, "{path}", 6) == 0;
    size_t size = rest ? strlen(path) : strcspn(path, "/");
    if (size == 0 || size >= ROUTE_ID_SIZE)
        return false;
    memcpy(id, path, size);
    id[size] = '\0';
    pattern = strchr(pattern, '}') + 1;
    path += size;
    return strcmp(pattern, path) == 0 || (strcmp(path, "/") == 0 && !*pattern);
}

static const char *without_prefix(const char *path)
{
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

const char *route_pattern(const char *method, const char *path)
{
    char id[ROUTE_ID_SIZE];
    for (size_t i = 0; i < N_ROUTES; i++)
        if (strcmp(routes[i].method, method) == 0 &&
            fits(routes[i].pattern, without_prefix(path), id))
            return routes[i].pattern;
    return "none";
}

static enum route_name refuse(const char *method, const char *path, const char *allowed,
                              api_error *error)
{
    if (!*allowed)
        api_refuse(error, 404, "unknown_url", NULL, "Unknown request URL: %.20s %.200s.", method,
                   path);
    else
        api_refuse(error, 405, "method_not_allowed", NULL,
                   "The method %.20s is not allowed for %.200s. Allowed: %s.", method, path,
                   allowed);
    return ROUTE_NONE;
}

enum route_name route_find(const char *method, const char *path, char id[ROUTE_ID_SIZE],
                           api_error *error)
{
    char allowed[64] = "";
    char found[ROUTE_ID_SIZE];
    const char *bare = without_prefix(path);
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!fits(routes[i].pattern, bare, found))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            memcpy(id, found, strlen(found) + 1);
            return routes[i].name;
        }
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", used ? ", " : "", routes[i].method);
    }
    if (strcmp(method, "GET") == 0 && fits("/responses", bare, found)) {
        api_refuse(error, 426, "upgrade_required", NULL,
                   "GET %.200s opens a WebSocket: send 'Upgrade: websocket', or POST a request.",
                   path);
        return ROUTE_NONE;
    }
    return refuse(method, path, allowed, error);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void decode(const char *from, size_t from_size, char *value, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < from_size && used + 1 < size; i++) {
        char c = from[i] == '+' ? ' ' : from[i];
        if (c == '%' && i + 2 < from_size && hex_digit(from[i + 1]) >= 0 &&
            hex_digit(from[i + 2]) >= 0) {
            c = (char)(hex_digit(from[i + 1]) * 16 + hex_digit(from[i + 2]));
            i += 2;
        }
        value[used++] = c ? c : '?';
    }
    value[used] = '\0';
}

const char *route_query(const char *query, const char *key, char *value, size_t size)
{
    size_t key_size = strlen(key);
    for (const char *at = query; at && *at;) {
        size_t pair = strcspn(at, "&");
        if (pair > key_size && at[key_size] == '=' && strncmp(at, key, key_size) == 0) {
            decode(at + key_size + 1, pair - key_size - 1, value, size);
            return value;
        }
        at += pair + (at[pair] == '&');
    }
    return NULL;
}
