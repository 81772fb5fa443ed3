/*
 * script/pending.c - what a task waits for and another thread ends. See pending.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/pending.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct pending_hub {
    pthread_mutex_t lock;
    pthread_cond_t came;
    unsigned references;     /* the run's, and one of each pending                */
    bool news;               /* something has ended that nobody has been told of  */
    void (*wake)(void *arg); /* NULL: none, or the run is gone                    */
    void *arg;
};

pending_hub *pending_hub_open(void (*wake)(void *arg), void *arg)
{
    pending_hub *hub = calloc(1, sizeof *hub);
    pthread_condattr_t attributes;
    if (!hub)
        return NULL;
    pthread_mutex_init(&hub->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&hub->came, &attributes);
    pthread_condattr_destroy(&attributes);
    hub->references = 1;
    hub->wake = wake;
    hub->arg = arg;
    return hub;
}

static void hub_release(pending_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    bool last = --hub->references == 0;
    pthread_mutex_unlock(&hub->lock);
    if (!last)
        return;
    pthread_cond_destroy(&hub->came);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

void pending_hub_close(pending_hub *hub)
{
    if (!hub)
        return;
    pthread_mutex_lock(&hub->lock);
    hub->wake = NULL;
    pthread_mutex_unlock(&hub->lock);
    hub_release(hub);
}

void pending_hub_wait(pending_hub *hub, int64_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&hub->lock);
    while (!hub->news && pthread_cond_timedwait(&hub->came, &hub->lock, &until) != ETIMEDOUT)
        ;
    hub->news = false;
    pthread_mutex_unlock(&hub->lock);
}

/* Under the lock. */
static void tell(pending_hub *hub)
{
    hub->news = true;
    pthread_cond_signal(&hub->came);
    if (hub->wake)
        hub->wake(hub->arg);
}

void pending_hub_poke(pending_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    tell(hub);
    pthread_mutex_unlock(&hub->lock);
}

/* ------------------------------------------------------------- one of them */

void pending_init(pending *p, pending_hub *hub, const pending_kind *kind)
{
    *p = (pending){.kind = kind, .hub = hub, .references = 2};
    pthread_mutex_lock(&hub->lock);
    hub->references++;
    pthread_mutex_unlock(&hub->lock);
}

void pending_lock(pending *p)
{
    pthread_mutex_lock(&p->hub->lock);
}

void pending_unlock(pending *p)
{
    pthread_mutex_unlock(&p->hub->lock);
}

void pending_retain(pending *p)
{
    pending_lock(p);
    p->references++;
    pending_unlock(p);
}

void pending_release(pending *p)
{
    pending_hub *hub = p->hub;
    pending_lock(p);
    bool last = --p->references == 0;
    pending_unlock(p);
    if (!last)
        return;
    p->kind->destroy(p);
    hub_release(hub);
}

void pending_end(pending *p)
{
    pending_lock(p);
    p->ended = true;
    tell(p->hub);
    pending_unlock(p);
}

bool pending_ended(pending *p)
{
    pending_lock(p);
    bool ended = p->ended;
    pending_unlock(p);
    return ended;
}

void pending_cancel(pending *p)
{
    pending_lock(p);
    p->cancelled = true;
    if (!p->ended && p->kind->cancel)
        p->kind->cancel(p);
    pending_unlock(p);
}

void pending_close(pending *p)
{
    if (!p)
        return;
    pending_cancel(p);
    pending_release(p);
}
