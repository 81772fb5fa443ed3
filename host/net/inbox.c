/*
 * net/inbox.c - a locked list that is taken as a whole. See inbox.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/inbox.h"

void inbox_init(inbox *box, void (*wake)(void *arg), void *arg)
{
    *box = (inbox){.last = &box->first, .wake = wake, .arg = arg};
    pthread_mutex_init(&box->lock, NULL);
}

void inbox_clear(inbox *box)
{
    pthread_mutex_destroy(&box->lock);
}

bool inbox_push(inbox *box, inbox_item *item, bool must)
{
    pthread_mutex_lock(&box->lock);
    bool taken = must || box->size < INBOX_MAX;
    bool first = taken && box->size == 0;
    if (taken) {
        item->next = NULL;
        *box->last = item;
        box->last = &item->next;
        box->size++;
    }
    pthread_mutex_unlock(&box->lock);
    if (first)
        box->wake(box->arg);
    return taken;
}

void inbox_drain(inbox *box)
{
    pthread_mutex_lock(&box->lock);
    inbox_item *item = box->first;
    box->first = NULL;
    box->last = &box->first;
    box->size = 0;
    pthread_mutex_unlock(&box->lock);
    while (item) {
        inbox_item *next = item->next;
        item->deliver(item);
        item = next;
    }
}
