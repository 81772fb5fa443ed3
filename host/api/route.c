/*
 * api/route.c - which endpoint a method and a path mean. See route.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/route.h"

#include <stdio.h>
#include <string.h>

/* A pattern's "{id}" or "{item}" takes one segment of a path, "{path}" all the rest. Where several
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
    {"POST", "/conversations", ROUTE_CONVERSATIONS_CREATE},
    {"GET", "/conversations", ROUTE_CONVERSATIONS_LIST},
    {"GET", "/conversations/{id}", ROUTE_CONVERSATION_GET},
    {"POST", "/conversations/{id}", ROUTE_CONVERSATION_UPDATE},
    {"DELETE", "/conversations/{id}", ROUTE_CONVERSATION_DELETE},
    {"GET", "/conversations/{id}/items", ROUTE_ITEMS_LIST},
    {"POST", "/conversations/{id}/items", ROUTE_ITEMS_CREATE},
    {"GET", "/conversations/{id}/items/{item}", ROUTE_ITEM_GET},
    {"DELETE", "/conversations/{id}/items/{item}", ROUTE_ITEM_DELETE},
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
};

#define N_ROUTES (sizeof routes / sizeof routes[0])

/* Takes what stands for the placeholder that both begin at; false: there is nothing, or
 * too much. */
static bool take_part(const char **pattern, const char **path, route_ids *ids)
{
    bool rest = strncmp(*pattern, "{path}", 6) == 0;
    char *to = strncmp(*pattern, "{item}", 6) == 0 ? ids->item : ids->id;
    size_t size = rest ? strlen(*path) : strcspn(*path, "/");
    if (size == 0 || size >= ROUTE_ID_SIZE)
        return false;
    memcpy(to, *path, size);
    to[size] = '\0';
    *pattern = strchr(*pattern, '}') + 1;
    *path += size;
    return true;
}

/* Whether the path fits the pattern; what stands for its placeholders goes to ids. */
static bool fits(const char *pattern, const char *path, route_ids *ids)
{
    *ids->id = *ids->item = '\0';
    while (*pattern) {
        if (*pattern == '{') {
            if (!take_part(&pattern, &path, ids))
                return false;
        } else if (*pattern++ != *path++) {
            return false;
        }
    }
    return *path == '\0' || strcmp(path, "/") == 0;
}

static const char *without_prefix(const char *path)
{
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

const char *route_pattern(const char *method, const char *path)
{
    route_ids ids;
    for (size_t i = 0; i < N_ROUTES; i++)
        if (strcmp(routes[i].method, method) == 0 &&
            fits(routes[i].pattern, without_prefix(path), &ids))
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

enum route_name route_find(const char *method, const char *path, route_ids *ids, api_error *error)
{
    char allowed[64] = "";
    route_ids found;
    const char *bare = without_prefix(path);
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!fits(routes[i].pattern, bare, &found))
            continue;
        if (strcmp(routes[i].method, method) == 0) {
            *ids = found;
            return routes[i].name;
        }
        size_t used = strlen(allowed);
        snprintf(allowed + used, sizeof allowed - used, "%s%s", used ? ", " : "", routes[i].method);
    }
    if (strcmp(method, "GET") == 0 && fits("/responses", bare, &found)) {
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
