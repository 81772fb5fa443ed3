/*
 * api/route.h - which endpoint a method and a path mean.
 *
 * Paths are taken with and without the prefix /v1, since people enter base URLs both
 * ways. Pure; [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_ROUTE_H
#define API_ROUTE_H

#include "api/error.h"

#define ROUTE_ID_SIZE 256

enum route_name {
    ROUTE_NONE, /* refused                                   */
    ROUTE_RESPONSES_CREATE,
    ROUTE_INPUT_TOKENS,
    ROUTE_RESPONSE_GET,
    ROUTE_RESPONSE_DELETE,
    ROUTE_RESPONSE_CANCEL,
    ROUTE_INPUT_ITEMS,
    ROUTE_CONVERSATIONS_CREATE,
    ROUTE_CONVERSATIONS_LIST,
    ROUTE_CONVERSATION_GET,
    ROUTE_CONVERSATION_UPDATE,
    ROUTE_CONVERSATION_DELETE,
    ROUTE_ITEMS_LIST,
    ROUTE_ITEMS_CREATE,
    ROUTE_ITEM_GET,
    ROUTE_ITEM_DELETE,
    ROUTE_CHAT,
    ROUTE_COMPLETIONS,
    ROUTE_TOKENIZE,
    ROUTE_DETOKENIZE,
    ROUTE_MODELS,
    ROUTE_MODEL,
    ROUTE_HEALTH,
    ROUTE_READY,
    ROUTE_METRICS,
    ROUTE_VERSION
};

/* What a path names. */
typedef struct route_ids {
    char id[ROUTE_ID_SIZE];   /* the part that stands for {id} or {path}, or "" */
    char item[ROUTE_ID_SIZE]; /* for {item}, or ""                              */
} route_ids;

/* ROUTE_NONE: *error says whether the path, the method or an upgrade is amiss. */
enum route_name route_find(const char *method, const char *path, route_ids *ids, api_error *error);

/* The pattern of the endpoint, static; "none". */
const char *route_pattern(const char *method, const char *path);

/* The value of a key in a raw query string, percent-decoded, or NULL where it is absent.
 * What does not fit into size is cut. */
const char *route_query(const char *query, const char *key, char *value, size_t size);

#endif /* API_ROUTE_H */
