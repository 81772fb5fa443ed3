/*
 * api/access.c - what a key must allow for a request. See api.h.
 *
 * Whether the process lives and is ready is told to anybody, since those who ask
 * (load balancers, container managers) have no key. Metrics tell who asks how much, so
 * they need a key, but one that may nothing else will do. Taking an item out of one's
 * conversation is a way of talking, not of administering: agents do it all the time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/api.h"

#include <string.h>

static bool is_one_of(const char *path, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t size = strlen(names[i]);
        if (strncmp(path, names[i], size) == 0 &&
            (path[size] == '\0' || strcmp(path + size, "/") == 0))
            return true;
    }
    return false;
}

uint32_t api_scope_needed(const char *method, const char *path)
{
    static const char *const open[] = {"/health", "/livez", "/readyz"};
    static const char *const measured[] = {"/metrics"};
    const char *bare = strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
    bool item = strncmp(bare, "/conversations/", 15) == 0 && strstr(bare + 15, "/items/");
    if (strcmp(method, "DELETE") == 0)
        return item ? STORE_SCOPE_INFERENCE : STORE_SCOPE_ADMIN;
    if (is_one_of(bare, open, sizeof open / sizeof *open))
        return 0;
    return is_one_of(bare, measured, 1) ? STORE_SCOPE_METRICS : STORE_SCOPE_INFERENCE;
}
