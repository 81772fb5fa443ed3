/*
 * run/worker.h - one thread that does jobs in order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_WORKER_H
#define RUN_WORKER_H

#include <stdbool.h>
#include <stddef.h>

typedef struct run_worker run_worker;

run_worker *run_worker_open(size_t capacity); /* NULL: no memory or no thread. [main] */
/* False: the queue is full or closed; the job will not run. [any] */
bool run_worker_do(run_worker *w, void (*job)(void *arg), void *arg);
/* Finishes what is queued, takes nothing new, ends the thread. NULL allowed. [main] */
void run_worker_close(run_worker *w);

#endif /* RUN_WORKER_H */
