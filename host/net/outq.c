/*
 * net/outq.c - a list of messages with their bytes. See outq.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/outq.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct outq_item {
    outq_item *next;
    size_t size;
    unsigned char bytes[]; /* OUTQ_HEADROOM, then size bytes */
};

void outq_init(outq *q)
{
    *q = (outq){.last = &q->first};
}

void outq_clear(outq *q)
{
    while (q->first)
        outq_pop(q);
}

bool outq_push(outq *q, const void *data, size_t size)
{
    if (q->bytes >= OUTQ_MAX || size > SIZE_MAX / 2)
        return false;
    outq_item *item = malloc(sizeof *item + OUTQ_HEADROOM + size);
    if (!item)
        return false;
    item->next = NULL;
    item->size = size;
    if (size)
        memcpy(item->bytes + OUTQ_HEADROOM, data, size);
    *q->last = item;
    q->last = &item->next;
    q->bytes += size;
    return true;
}

unsigned char *outq_first(outq *q, size_t *size)
{
    if (!q->first)
        return NULL;
    *size = q->first->size;
    return q->first->bytes + OUTQ_HEADROOM;
}

void outq_pop(outq *q)
{
    outq_item *item = q->first;
    if (!item)
        return;
    q->first = item->next;
    if (!q->first)
        q->last = &q->first;
    q->bytes -= item->size;
    free(item);
}
