/*
 * net/peers.h - how many connections each client address has.
 *
 * An IPv6 network of 64 bits counts as one client, for that is what one client has. No
 * address is kept longer than its connections. Loop thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_PEERS_H
#define NET_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#define PEERS_BUCKETS 256

typedef struct peer {
    struct peer *next;
    unsigned char address[16]; /* IPv4 mapped into IPv6; of IPv6 the network */
    bool loopback;
    uint32_t n; /* its connections */
} peer;

typedef struct peers {
    peer *buckets[PEERS_BUCKETS];
} peers;

/* The client at the other end of a socket, one connection more. NULL: no memory, or no
 * such socket. */
peer *peers_join(peers *all, int fd);
void peers_leave(peers *all, peer *p); /* NULL allowed */
/* The same, only looked at; NULL: it has none yet. */
const peer *peers_look(const peers *all, int fd);

#endif /* NET_PEERS_H */
