/*
 * net/allow.h - which names this server answers to, and which pages may ask it.
 *
 * The Host header is checked against DNS rebinding: a page of a stranger's domain that
 * is pointed at this machine. The Origin header is checked because a browser sends
 * handshakes and simple requests of any page anywhere. A client that is no browser sends
 * no Origin and is not concerned.
 *
 *   Host     loopback names; on a network also addresses; and --allow-host
 *   Origin   none; the page's own Host; loopback on loopback; and --allow-origin
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_ALLOW_H
#define NET_ALLOW_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define ALLOW_MAX 64        /* entries of a list       */
#define ALLOW_MAX_ENTRY 256 /* bytes of one, with NUL  */

typedef struct allow_list {
    bool network; /* it listens on more than loopback        */
    char (*hosts)[ALLOW_MAX_ENTRY];
    size_t n_hosts;
    char (*origins)[ALLOW_MAX_ENTRY];
    size_t n_origins;
} allow_list;

/* Hosts: "NAME", "NAME:PORT" or "*". Origins: "https://NAME[:PORT]" or "*". Copied. */
pawl_status allow_open(allow_list *list, bool network, const char *const *hosts, size_t n_hosts,
                       const char *const *origins, size_t n_origins, pawl_error *error);
void allow_close(allow_list *list);

bool allow_host(const allow_list *list, const char *host);
/* host: the same request's Host header. */
bool allow_origin(const allow_list *list, const char *origin, const char *host);
/* The entry of --allow-origin that lets this page read answers, "*" or the origin: what
 * Access-Control-Allow-Origin is to say. NULL: none does. */
const char *allow_cors(const allow_list *list, const char *origin);

#endif /* NET_ALLOW_H */
