/*
 * base/queue.c - a bounded queue of pointers between threads. See queue.h.
 *
 * A ring under one mutex: the pointers that travel through it stand for work of
 * milliseconds, so a lock-free ring would gain nothing that can be measured.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct queue {
    pthread_mutex_t lock;  /* guards everything below      */
    pthread_cond_t filled; /* signalled by push and close  */
    size_t capacity;       /* length of items              */
    size_t first;          /* index of the oldest item     */
    size_t count;          /* items in use                 */
    bool closed;           /* no more pushes               */
    void *items[];         /* the ring                     */
};

queue *queue_open(size_t capacity)
{
    queue *q = calloc(1, sizeof *q + capacity * sizeof q->items[0]);
    if (!q)
        return NULL;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&q->filled, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&q->lock, NULL);
    q->capacity = capacity;
    return q;
}

void queue_free(queue *q)
{
    if (!q)
        return;
    pthread_cond_destroy(&q->filled);
    pthread_mutex_destroy(&q->lock);
    free(q);
}

bool queue_push(queue *q, void *item)
{
    pthread_mutex_lock(&q->lock);
    bool ok = !q->closed && q->count < q->capacity;
    if (ok) {
        q->items[(q->first + q->count) % q->capacity] = item;
        q->count++;
        pthread_cond_signal(&q->filled);
    }
    pthread_mutex_unlock(&q->lock);
    return ok;
}

static struct timespec deadline_after(int64_t timeout_ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += (time_t)(timeout_ms / 1000);
    at.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

void *queue_pop(queue *q, int64_t timeout_ms)
{
    void *item = NULL;
    struct timespec until = {0};
    if (timeout_ms > 0)
        until = deadline_after(timeout_ms);
    pthread_mutex_lock(&q->lock);
    /* Without a time to wait nothing waits: even a deadline that has passed is a system call. */
    while (timeout_ms != 0 && q->count == 0 && !q->closed) {
        if (timeout_ms < 0)
            pthread_cond_wait(&q->filled, &q->lock);
        else if (pthread_cond_timedwait(&q->filled, &q->lock, &until) == ETIMEDOUT)
            break;
    }
    if (q->count) {
        item = q->items[q->first];
        q->first = (q->first + 1) % q->capacity;
        q->count--;
    }
    pthread_mutex_unlock(&q->lock);
    return item;
}

void queue_close(queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->filled);
    pthread_mutex_unlock(&q->lock);
}

size_t queue_size(queue *q)
{
    pthread_mutex_lock(&q->lock);
    size_t count = q->count;
    pthread_mutex_unlock(&q->lock);
    return count;
}
