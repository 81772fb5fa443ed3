/*
 * cpu/threads.h - worker threads that run one function together.
 *
 * threads_run() calls the function once in each worker, the caller being worker
 * 0, and returns when all have. Inside, the workers meet at barriers. Who does
 * what is a fixed share (threads_share), though results never depend on it.
 *
 * Whoever waits, at a barrier or for the next run, spins for some microseconds,
 * because a stage of a forward pass lasts about as long, then sleeps; so an idle
 * pool costs nothing. Workers are joined by threads_close().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_THREADS_H
#define CPU_THREADS_H

#include <pawl/plugin.h>

#define THREADS_MAX 256u

typedef struct threads threads;

typedef struct threads_worker {
    threads *pool;
    uint32_t index; /* 0 .. count - 1 */
    uint32_t count;
} threads_worker;

typedef void (*threads_function)(void *arg, const threads_worker *worker);

/* count 0: one for each processor this process may use. */
pawl_status threads_open(uint32_t count, threads **out, pawl_error *error);
void threads_close(threads *pool); /* NULL allowed; not inside a run */

uint32_t threads_count(const threads *pool);

/* One run at a time. */
void threads_run(threads *pool, threads_function function, void *arg);

/* Returns once all workers of the run have called it. */
void threads_barrier(const threads_worker *worker);

/* This worker's part [*begin, *end) of n pieces, cut at multiples of grain. */
void threads_share(const threads_worker *worker, size_t n, size_t grain, size_t *begin,
                   size_t *end);

#endif /* CPU_THREADS_H */
