/*
 * net/address.h - which addresses and names are this machine's own.
 *
 * The server listens on loopback alone. A web page that the user visits can still
 * reach it from the browser, so a Host that is no loopback name (DNS rebinding) and
 * an Origin that is none (cross-site requests and sockets) are refused. All [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <pawl/plugin.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct net_address {
    char host[46]; /* "127.0.0.1" or "::1"  */
    uint16_t port; /* 0: any that is free   */
    bool v6;
} net_address;

/* Reads "HOST:PORT" ("127.0.0.1:8080", "localhost:0", "[::1]:8080"). Refuses what is
 * not loopback. */
pawl_status address_parse(const char *text, net_address *address, pawl_error *error);
/* Whether the address can be bound now; the error says why not. The socket is closed
 * again: this is for the message, the server binds for itself. */
pawl_status address_try(const net_address *address, pawl_error *error);

/* A Host header's value: "localhost", "127.0.0.1:8080", "[::1]". */
bool address_is_local_host(const char *host);
/* An Origin header's value: "http://localhost:3000". "null" is no local one: any page
 * can send it from a sandboxed frame. */
bool address_is_local_origin(const char *origin);

#endif /* NET_ADDRESS_H */
