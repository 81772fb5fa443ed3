/*
 * net/address.h - addresses to listen on; which names are this machine's own.
 *
 * No name is looked up anywhere. All [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_ADDRESS_H
#define NET_ADDRESS_H

#include <pawl/plugin.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct net_address {
    char host[46]; /* "127.0.0.1", "::1", "0.0.0.0" */
    uint16_t port; /* 0: any that is free           */
    bool v6;
    bool loopback;
    bool any; /* all addresses of the machine: "0.0.0.0", "::" */
} net_address;

/* Reads "HOST:PORT" ("127.0.0.1:8080", "localhost:0", "[::1]:8080", "0.0.0.0:443"). */
pawl_status address_parse(const char *text, net_address *address, pawl_error *error);
/* Whether the address can be bound now; the error says why not. The socket is closed
 * again: this is for the message, the server binds for itself. */
pawl_status address_try(const net_address *address, pawl_error *error);

/* A Host header's value: "localhost", "127.0.0.1:8080", "[::1]". */
bool address_is_local_host(const char *host);
/* A Host header's value that is an address and no name, whose page nobody can have
 * pointed here from elsewhere: "192.0.2.7:8080", "[2001:db8::1]"; not "0.0.0.0". */
bool address_is_literal(const char *host);
/* An Origin header's value: "http://localhost:3000". "null" is no local one: any page
 * can send it from a sandboxed frame. */
bool address_is_local_origin(const char *origin);

#endif /* NET_ADDRESS_H */
