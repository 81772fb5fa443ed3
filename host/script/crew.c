/*
 * script/crew.c - threads for what scripts wait for. See crew.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/crew.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t came;
    crew_job *first, *last; /* what waits, in order */
    size_t n_waiting;
    bool closing;
    unsigned n_threads;
    pthread_t threads[CREW_MAX_THREADS];
};

/* ------------------------------------------------------------- jobs */

/* Under the hub's lock. */
static void cancel(pending *p)
{
    const uint64_t one = 1;
    ssize_t written = write(((crew_job *)p)->stop_fd, &one, sizeof one);
    (void)written; /* it is readable already */
}

static void destroy(pending *p)
{
    crew_job *j = (crew_job *)p;
    j->clear(j->work);
    close(j->stop_fd);
    free(j);
}

bool crew_is_stopped(int stop_fd)
{
    struct pollfd end = {.fd = stop_fd, .events = POLLIN};
    return stop_fd >= 0 && poll(&end, 1, 0) == 1;
}

/* The next job; NULL: the crew is closing. Waits. */
static crew_job *take(crew *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->first && !c->closing)
        pthread_cond_wait(&c->came, &c->lock);
    crew_job *j = c->first;
    if (j) {
        c->first = j->next;
        c->n_waiting--;
    }
    pthread_mutex_unlock(&c->lock);
    return j;
}

static void *work(void *arg)
{
    for (crew_job *j; (j = take(arg));) {
        if (!crew_is_stopped(j->stop_fd))
            j->run(j->work, j->stop_fd);
        pending_end(&j->base);
        pending_release(&j->base);
    }
    return NULL;
}

static bool queue(crew *c, crew_job *j)
{
    pthread_mutex_lock(&c->lock);
    bool room = c->n_waiting < CREW_MAX_WAITING;
    if (room) {
        if (c->first)
            c->last->next = j;
        else
            c->first = j;
        c->last = j;
        c->n_waiting++;
        pthread_cond_signal(&c->came);
    }
    pthread_mutex_unlock(&c->lock);
    return room;
}

crew_job *crew_start(crew *c, pending_hub *hub, void (*run)(void *work, int stop_fd),
                     void (*clear)(void *work), void *work)
{
    static const pending_kind kind = {.cancel = cancel, .destroy = destroy};
    crew_job *j = calloc(1, sizeof *j);
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
    if (queue(c, j))
        return j;
    pending_release(&j->base);
    pending_release(&j->base);
    return NULL;
}

/* ------------------------------------------------------------- threads */

crew *crew_open(unsigned n_threads)
{
    sigset_t all, before;
    crew *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->came, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for [main] */
    while (c->n_threads < n_threads && c->n_threads < CREW_MAX_THREADS &&
           pthread_create(&c->threads[c->n_threads], NULL, work, c) == 0)
        c->n_threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (c->n_threads > 0)
        return c;
    crew_close(c);
    return NULL;
}

void crew_close(crew *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->came);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->n_threads; i++)
        pthread_join(c->threads[i], NULL);
    pthread_cond_destroy(&c->came);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
