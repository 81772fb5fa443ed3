/*
 * cpu/threads.h - worker threads that go through one function together.
 *
 * threads_run() calls the function in the caller and in every worker that is
 * awake. Inside, work is cut into stages, and stages into items:
 *
 *     for (size_t i; threads_next(worker, n, &i);)
 *         ... item i of n ...
 *     here all n items are done, whoever did them
 *
 * Items are claimed one by one, so a worker that the system has put aside holds
 * up nobody unless it is in the middle of an item: on a busy machine two threads
 * are never much slower than one. Every worker must ask for the same stages in
 * the same order. Results must not depend on who does an item.
 *
 * Whoever waits spins for some microseconds, because a stage of a forward pass
 * lasts about as long, then sleeps; an idle pool costs nothing. Workers are
 * joined by threads_close().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_THREADS_H
#define CPU_THREADS_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define THREADS_MAX 256u

typedef struct threads threads;

typedef struct threads_worker {
    threads *pool;
    uint32_t index; /* 0: the caller of threads_run()            */
    uint32_t stage; /* how many stages it has left behind        */
    bool holds;     /* an item that is not yet counted as done   */
} threads_worker;

typedef void (*threads_function)(void *arg, threads_worker *worker);

/* count 0: one for each processor this process may use. */
pawl_status threads_open(uint32_t count, threads **out, pawl_error *error);
void threads_close(threads *pool); /* NULL allowed; not inside a run */

uint32_t threads_count(const threads *pool);

/* One run at a time. */
void threads_run(threads *pool, threads_function function, void *arg);

/* Claims an item of the present stage; false: the stage is over. */
bool threads_next(threads_worker *worker, size_t n, size_t *item);

#endif /* CPU_THREADS_H */
