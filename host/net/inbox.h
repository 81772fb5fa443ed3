/*
 * net/inbox.h - how other threads reach the loop.
 *
 * An item is put in by any thread and delivered on the loop, in the order of all
 * pushes. The first push into an empty inbox wakes the loop, the others need not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_INBOX_H
#define NET_INBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define INBOX_MAX ((size_t)1 << 18) /* items that wait; what must arrive comes on top */

/* The first member of what is sent. */
typedef struct inbox_item {
    struct inbox_item *next;
    void (*deliver)(struct inbox_item *item); /* on the loop; owns the item from here */
} inbox_item;

typedef struct inbox {
    pthread_mutex_t lock;
    inbox_item *first; /* under lock, like all below    */
    inbox_item **last; /* where the next one is hung    */
    size_t size;
    void (*wake)(void *arg); /* called outside the lock, by the pusher */
    void *arg;
} inbox;

void inbox_init(inbox *box, void (*wake)(void *arg), void *arg);
void inbox_clear(inbox *box); /* when nobody pushes any more; delivers nothing */
/* False: the inbox is full, the item stays the caller's. With `must` it is never full. [any] */
bool inbox_push(inbox *box, inbox_item *item, bool must);
/* Delivers all that had been pushed when it was called. [loop] */
void inbox_drain(inbox *box);

#endif /* NET_INBOX_H */
