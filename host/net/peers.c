/*
 * net/peers.c - a table of client addresses. See peers.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/peers.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static bool read_address(int fd, peer *p)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } from;
    socklen_t size = sizeof from;
    memset(p, 0, sizeof *p);
    if (getpeername(fd, &from.any, &size) != 0)
        return false;
    if (from.any.sa_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&from.v6.sin6_addr)) {
        p->loopback = IN6_IS_ADDR_LOOPBACK(&from.v6.sin6_addr);
        memcpy(p->address, &from.v6.sin6_addr, p->loopback ? 16 : 8);
        return true;
    }
    p->address[10] = p->address[11] = 0xff;
    if (from.any.sa_family == AF_INET6)
        memcpy(p->address, &from.v6.sin6_addr, 16);
    else if (from.any.sa_family == AF_INET)
        memcpy(p->address + 12, &from.v4.sin_addr, 4);
    else
        return false;
    p->loopback = p->address[12] == 127;
    return true;
}

static size_t bucket_of(const peer *p)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof p->address; i++)
        hash = (hash ^ p->address[i]) * 16777619u;
    return hash % PEERS_BUCKETS;
}

static peer *find(const peers *all, const peer *wanted)
{
    peer *p = all->buckets[bucket_of(wanted)];
    while (p && memcmp(p->address, wanted->address, sizeof p->address) != 0)
        p = p->next;
    return p;
}

const peer *peers_look(const peers *all, int fd)
{
    peer wanted;
    return read_address(fd, &wanted) ? find(all, &wanted) : NULL;
}

peer *peers_join(peers *all, int fd)
{
    peer wanted;
    if (!read_address(fd, &wanted))
        return NULL;
    peer *p = find(all, &wanted);
    if (!p) {
        p = malloc(sizeof *p);
        if (!p)
            return NULL;
        *p = wanted;
        peer **bucket = &all->buckets[bucket_of(p)];
        p->next = *bucket;
        *bucket = p;
    }
    p->n++;
    return p;
}

void peers_leave(peers *all, peer *p)
{
    if (!p || --p->n)
        return;
    peer **at = &all->buckets[bucket_of(p)];
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}
