/*
 * script/pool.h - threads for what scripts wait for and the worker is too busy for: files,
 * child processes, other people's servers.
 *
 * The host opens one for all its runs. A job is a pending (pending.h): it runs on a thread of
 * the pool, and its end is told to the hub of the run that started it. A job that may take
 * long watches its stop descriptor, which can be read once the run has given it up.
 *
 * A child process that a thread starts dies with the thread, so these live until
 * pool_close(). No Lua here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_POOL_H
#define SCRIPT_POOL_H

#include "script/pending.h"

#define POOL_MAX_THREADS 64
#define POOL_MAX_WAITING 4096 /* jobs that no thread has taken yet */

typedef struct pool pool;

/* NULL: no memory, or no threads. */
pool *pool_open(unsigned n_threads);
/* Every run that has started jobs is closed. Waits for what is left of them. NULL allowed. */
void pool_close(pool *p);

typedef struct pool_job {
    pending base;
    struct pool_job *next;
    int stop_fd;                          /* an eventfd                        */
    void (*run)(void *work, int stop_fd); /* [pool] not called once cancelled */
    void (*clear)(void *work);            /* frees it, done or not             */
    void *work;
} pool_job;

/* The work becomes the job's in every case. NULL: no memory, or too many wait. */
pool_job *pool_start(pool *p, pending_hub *hub, void (*run)(void *work, int stop_fd),
                     void (*clear)(void *work), void *work);
/* Whether the job with this stop descriptor is not wanted any more. */
bool pool_is_stopped(int stop_fd);

#endif /* SCRIPT_POOL_H */
