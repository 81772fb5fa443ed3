/*
 * script/pool.c - threads for what scripts wait for. See pool.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/pool.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t came;
    pool_job *first, *last; /* what waits, in order */
    size_t n_waiting;
    bool closing;
    unsigned n_threads;
    pthread_t threads[POOL_MAX_THREADS];
};

/* ------------------------------------------------------------- jobs */

/* Under the hub's lock. */
static void cancel(pending *p)
{
    const uint64_t one = 1;
    ssize_t written = write(((pool_job *)p)->stop_fd, &one, sizeof one);
    (void)written; /* it is readable already */
}

static void destroy(pending *p)
{
    pool_job *j = (pool_job *)p;
    j->clear(j->work);
    close(j->stop_fd);
    free(j);
}

bool pool_is_stopped(int stop_fd)
{
    struct pollfd end = {.fd = stop_fd, .events = POLLIN};
    return stop_fd >= 0 && poll(&end, 1, 0) == 1;
}

/* The next job; NULL: the pool closes. Waits. */
static pool_job *take(pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->first && !p->closing)
        pthread_cond_wait(&p->came, &p->lock);
    pool_job *j = p->first;
    if (j) {
        p->first = j->next;
        p->n_waiting--;
    }
    pthread_mutex_unlock(&p->lock);
    return j;
}

static void *work(void *arg)
{
    for (pool_job *j; (j = take(arg));) {
        if (!pool_is_stopped(j->stop_fd))
            j->run(j->work, j->stop_fd);
        pending_end(&j->base);
        pending_release(&j->base);
    }
    return NULL;
}

static bool queue(pool *p, pool_job *j)
{
    pthread_mutex_lock(&p->lock);
    bool room = p->n_waiting < POOL_MAX_WAITING;
    if (room) {
        if (p->first)
            p->last->next = j;
        else
            p->first = j;
        p->last = j;
        p->n_waiting++;
        pthread_cond_signal(&p->came);
    }
    pthread_mutex_unlock(&p->lock);
    return room;
}

pool_job *pool_start(pool *p, pending_hub *hub, void (*run)(void *work, int stop_fd),
                     void (*clear)(void *work), void *work)
{
    static const pending_kind kind = {.cancel = cancel, .destroy = destroy};
    pool_job *j = calloc(1, sizeof *j);
    int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!j || stop_fd < 0) {
        free(j);
        if (stop_fd >= 0)
            close(stop_fd);
        clear(work);
        return NULL;
    }
    j->stop_fd = stop_fd;
    j->run = run;
    j->clear = clear;
    j->work = work;
    pending_init(&j->base, hub, &kind);
    if (queue(p, j))
        return j;
    pending_release(&j->base);
    pending_release(&j->base);
    return NULL;
}

/* ------------------------------------------------------------- threads */

pool *pool_open(unsigned n_threads)
{
    sigset_t all, before;
    pool *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->came, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for [main] */
    while (p->n_threads < n_threads && p->n_threads < POOL_MAX_THREADS &&
           pthread_create(&p->threads[p->n_threads], NULL, work, p) == 0)
        p->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (p->n_threads > 0)
        return p;
    pool_close(p);
    return NULL;
}

void pool_close(pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->came);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->n_threads; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->came);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
