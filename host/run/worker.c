/*
 * run/worker.c - one thread that does jobs in order. See worker.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/worker.h"

#include "base/queue.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct job {
    void (*run)(void *arg);
    void *arg;
} job;

struct run_worker {
    queue *jobs; /* of job, each freed by the thread */
    pthread_t thread;
};

static void *worker_thread(void *arg)
{
    run_worker *w = arg;
    job *next;
    while ((next = queue_pop(w->jobs, -1))) {
        next->run(next->arg);
        free(next);
    }
    return NULL;
}

run_worker *run_worker_open(size_t capacity)
{
    run_worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->jobs = queue_open(capacity);
    if (w->jobs && pthread_create(&w->thread, NULL, worker_thread, w) == 0)
        return w;
    queue_free(w->jobs);
    free(w);
    return NULL;
}

bool run_worker_do(run_worker *w, void (*run)(void *arg), void *arg)
{
    job *next = malloc(sizeof *next);
    if (!next)
        return false;
    *next = (job){run, arg};
    if (queue_push(w->jobs, next))
        return true;
    free(next);
    return false;
}

void run_worker_close(run_worker *w)
{
    if (!w)
        return;
    queue_close(w->jobs);
    pthread_join(w->thread, NULL);
    queue_free(w->jobs);
    free(w);
}
