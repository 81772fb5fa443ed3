/*
 * base/queue.h - a bounded queue of pointers between threads.
 *
 * Any number of producers and consumers. A full queue is an answer (busy), not a
 * wait: queue_push() never blocks. What the pointers own is between the two
 * sides; a queue that is closed hands out what it still holds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct queue queue;

queue *queue_open(size_t capacity); /* NULL without memory                      */
void queue_free(queue *q);          /* when no thread uses it any more; NULL allowed */

bool queue_push(queue *q, void *item); /* [any] false: full or closed */
/* Waits up to timeout_ms (negative: for ever). NULL: nothing came, or the queue
 * is closed and empty. [any] */
void *queue_pop(queue *q, int64_t timeout_ms);
void queue_close(queue *q);  /* [any] wakes all who wait     */
size_t queue_size(queue *q); /* [any] a moment's truth       */

#endif /* BASE_QUEUE_H */
