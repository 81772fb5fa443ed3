/*
 * net/outq.h - what one connection still has to send.
 *
 * Messages leave one by one, whenever the socket takes one. A client that does not
 * read makes its own queue grow and nobody else's; when it holds OUTQ_MAX bytes the
 * next message is refused and the connection is to be given up. One message may be
 * larger than that. Loop thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_OUTQ_H
#define NET_OUTQ_H

#include <stdbool.h>
#include <stddef.h>

#define OUTQ_MAX ((size_t)8 << 20)
#define OUTQ_HEADROOM 32 /* bytes before a message that its writer may scribble on */

typedef struct outq_item outq_item;

typedef struct outq {
    outq_item *first;
    outq_item **last; /* where the next one is hung */
    size_t bytes;     /* of all messages            */
} outq;

void outq_init(outq *q);
void outq_clear(outq *q);
/* Appends a copy. False: the queue holds OUTQ_MAX already, or there is no memory. */
bool outq_push(outq *q, const void *data, size_t size);
/* The oldest message; the OUTQ_HEADROOM bytes before it are free to use. NULL: none. */
unsigned char *outq_first(outq *q, size_t *size);
void outq_pop(outq *q);

#endif /* NET_OUTQ_H */
