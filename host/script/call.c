/*
 * script/call.c - one turn that a script has started. See call.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/call.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

struct call_hub {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    unsigned references;
    bool news; /* a call has ended that nobody has been told of */
};

struct call {
    call_hub *hub;
    run_runtime *runtime;
    /* Under the hub's lock: */
    unsigned references;  /* the script, the job until it is done, the turn until END */
    run_request *request; /* until the job gives it to run_start()                    */
    run_turn *turn;       /* NULL: not started yet, or refused                        */
    bool cancelled;
    bool ended;
    call_outcome outcome;
};

call_hub *call_hub_open(void)
{
    call_hub *hub = calloc(1, sizeof *hub);
    pthread_condattr_t attributes;
    if (!hub)
        return NULL;
    pthread_mutex_init(&hub->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&hub->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    hub->references = 1;
    return hub;
}

/* Under the lock, which it gives up. */
static void unlock_hub(call_hub *hub, bool release)
{
    bool last = release && --hub->references == 0;
    pthread_mutex_unlock(&hub->lock);
    if (!last)
        return;
    pthread_cond_destroy(&hub->ended);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

void call_hub_release(call_hub *hub)
{
    if (!hub)
        return;
    pthread_mutex_lock(&hub->lock);
    unlock_hub(hub, true);
}

void call_hub_wait(call_hub *hub, int64_t timeout_ms)
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
    while (!hub->news && pthread_cond_timedwait(&hub->ended, &hub->lock, &until) != ETIMEDOUT)
        ;
    hub->news = false;
    pthread_mutex_unlock(&hub->lock);
}

/* Under the hub's lock, which it gives up. */
static void unlock_and_release(call *c)
{
    call_hub *hub = c->hub;
    bool last = --c->references == 0;
    unlock_hub(hub, last);
    if (!last)
        return;
    run_turn_release(c->turn);
    run_request_free(c->request);
    run_record_release(c->outcome.record);
    free(c);
}

static void end(call *c)
{
    c->ended = true;
    c->hub->news = true;
    pthread_cond_signal(&c->hub->ended);
}

/* Worker, engine or store thread. */
static void on_event(void *arg, run_event *event)
{
    call *c = arg;
    if (event->type == RUN_END) {
        pthread_mutex_lock(&c->hub->lock);
        c->outcome.record = event->record;
        c->outcome.stop_reason = event->stop_reason;
        c->outcome.usage = event->usage;
        event->record = NULL;
        end(c);
        unlock_and_release(c);
    }
    run_event_free(event);
}

/* Worker thread. */
static void start(void *arg)
{
    call *c = arg;
    run_turn *turn = NULL;
    run_refusal refusal = {0};
    bool accepted = false;
    pthread_mutex_lock(&c->hub->lock);
    run_request *request = c->cancelled ? NULL : c->request;
    if (request)
        c->request = NULL;
    c->references++; /* the turn's */
    pthread_mutex_unlock(&c->hub->lock);
    if (request)
        accepted = run_start(c->runtime, request, (run_listener){on_event, c}, &turn, &refusal);
    pthread_mutex_lock(&c->hub->lock);
    c->turn = turn;
    if (accepted && c->cancelled)
        run_cancel(turn);
    if (!accepted) {
        c->references--;
        c->outcome.refused = true;
        c->outcome.refusal = refusal;
        end(c);
    }
    unlock_and_release(c);
}

call *call_start(call_hub *hub, run_runtime *runtime, run_request *request)
{
    call *c = calloc(1, sizeof *c);
    if (!c) {
        run_request_free(request);
        return NULL;
    }
    *c = (call){.hub = hub, .runtime = runtime, .references = 2, .request = request};
    pthread_mutex_lock(&hub->lock);
    hub->references++;
    pthread_mutex_unlock(&hub->lock);
    if (run_defer(runtime, start, c))
        return c;
    call_close(c);
    call_close(c);
    return NULL;
}

bool call_ended(call *c, const call_outcome **outcome)
{
    pthread_mutex_lock(&c->hub->lock);
    bool ended = c->ended;
    pthread_mutex_unlock(&c->hub->lock);
    if (ended)
        *outcome = &c->outcome;
    return ended;
}

static void cancel_locked(call *c)
{
    c->cancelled = true;
    if (c->turn && !c->ended)
        run_cancel(c->turn);
}

void call_cancel(call *c)
{
    pthread_mutex_lock(&c->hub->lock);
    cancel_locked(c);
    pthread_mutex_unlock(&c->hub->lock);
}

void call_close(call *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->hub->lock);
    cancel_locked(c);
    unlock_and_release(c);
}
