/*
 * script/address.h - which addresses are somebody else's on the internet.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_ADDRESS_H
#define SCRIPT_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* False for loopback, private, link-local, shared, multicast and reserved addresses, IPv4
 * within IPv6 included, and for what is neither IPv4 nor IPv6. */
bool address_is_public(const struct sockaddr *address);

#endif /* SCRIPT_ADDRESS_H */
