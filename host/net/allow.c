/*
 * net/allow.c - allow-lists of hosts and origins. See allow.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/allow.h"

#include "net/address.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool has_visible(const char *text)
{
    for (const char *at = text; *at; at++)
        if (*at <= 0x20 || *at >= 0x7f)
            return false;
    return *text != '\0';
}

/* "https://host" of "https://host:1": where the host begins; NULL: no scheme. */
static const char *after_scheme(const char *origin)
{
    const char *colon = strstr(origin, "://");
    return colon && colon > origin && colon[3] ? colon + 3 : NULL;
}

static pawl_status copy(char (**to)[ALLOW_MAX_ENTRY], const char *const *from, size_t n,
                        bool origins, pawl_error *error)
{
    const char *option = origins ? "--allow-origin" : "--allow-host";
    if (n > ALLOW_MAX)
        return pawl_fail(error, PAWL_E_LIMIT, "%s: more than %d", option, ALLOW_MAX);
    *to = calloc(n + 1, sizeof **to);
    if (!*to)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the server");
    for (size_t i = 0; i < n; i++) {
        const char *host = origins ? after_scheme(from[i]) : from[i];
        bool any = strcmp(from[i], "*") == 0;
        if (!any && (!host || !has_visible(from[i]) || strchr(host, '/') ||
                     strlen(from[i]) >= ALLOW_MAX_ENTRY))
            return pawl_fail(error, PAWL_E_ARGUMENT, "%s %.80s: %s", option, from[i],
                             origins ? "https://NAME[:PORT] without a path, or * is wanted"
                                     : "NAME, NAME:PORT or * is wanted");
        memcpy((*to)[i], from[i], strlen(from[i]) + 1);
    }
    return PAWL_OK;
}

pawl_status allow_open(allow_list *list, bool network, const char *const *hosts, size_t n_hosts,
                       const char *const *origins, size_t n_origins, pawl_error *error)
{
    *list = (allow_list){.network = network, .n_hosts = n_hosts, .n_origins = n_origins};
    pawl_status status = copy(&list->hosts, hosts, n_hosts, false, error);
    if (!status)
        status = copy(&list->origins, origins, n_origins, true, error);
    if (status)
        allow_close(list);
    return status;
}

void allow_close(allow_list *list)
{
    free(list->hosts);
    free(list->origins);
    *list = (allow_list){.network = false};
}

bool allow_host(const allow_list *list, const char *host)
{
    if (address_is_local_host(host) || (list->network && address_is_literal(host)))
        return true;
    for (size_t i = 0; i < list->n_hosts; i++) {
        const char *entry = list->hosts[i];
        size_t size = strlen(entry);
        if (strcmp(entry, "*") == 0 || strcasecmp(entry, host) == 0)
            return true;
        /* An entry without a port stands for all of them. */
        if (strncasecmp(entry, host, size) == 0 && host[size] == ':' && host[size + 1] &&
            strspn(host + size + 1, "0123456789") == strlen(host + size + 1))
            return true;
    }
    return false;
}

bool allow_origin(const allow_list *list, const char *origin, const char *host)
{
    const char *from = after_scheme(origin);
    bool web = strncasecmp(origin, "http://", 7) == 0 || strncasecmp(origin, "https://", 8) == 0;
    if (web && from && *host && strcasecmp(from, host) == 0)
        return true;
    return (!list->network && address_is_local_origin(origin)) || allow_cors(list, origin) != NULL;
}

const char *allow_cors(const allow_list *list, const char *origin)
{
    for (size_t i = 0; i < list->n_origins; i++)
        if (strcmp(list->origins[i], "*") == 0 || strcasecmp(list->origins[i], origin) == 0)
            return list->origins[i];
    return NULL;
}
