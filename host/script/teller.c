/*
 * script/teller.c - tells those who follow runs what these say. See teller.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/teller.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EVENTS_A_ROUND 200
#define BYTES_A_ROUND (512u << 10) /* for each follower: what a client takes meanwhile */
#define BUSY_MS 50                 /* between rounds while somebody has not got all    */
#define IDLE_MS 1000

struct run_follower {
    atomic_int references; /* the teller's and the asker's */
    teller *teller;
    atomic_bool cancelled;
    char id[CLOCK_ID_SIZE];
    uint64_t after;
    run_listener listener;
    run_event *end;
    run_follower *next; /* of all, under the lock */
};

struct teller {
    run_runtime *runtime;
    bool (*is_active)(void *arg, const char *id);
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t news;
    bool told; /* something is new */
    bool closing;
    run_follower *all;
    size_t n;
    pthread_t thread;
};

/* ------------------------------------------------------------- telling */

static void send_event(const run_follower *f, const store_event *event)
{
    run_event *told = run_event_new(RUN_DELTA);
    buf text;
    if (!told)
        return;
    buf_init(&text, STORE_MAX_EVENT_DATA + 1000);
    buf_printf(&text, "{\"seq\":%llu,\"at_ms\":%lld,\"type\":\"%s\",\"data\":%s}",
               (unsigned long long)event->seq, (long long)event->at_ms, event->type, event->data);
    told->name = strdup(event->type);
    told->text = buf_take(&text);
    f->listener.on_event(f->listener.arg, told);
}

/* What is new for one. *more: there is more. False: nothing will come any more. */
static bool tell(teller *t, run_follower *f, bool *more)
{
    store *kept = run_store(t->runtime);
    store_event *events = NULL;
    size_t n = 0, bytes = 0;
    if (atomic_load(&f->cancelled))
        return false;
    bool active = t->is_active(t->arg, f->id); /* before reading: what it said last is stored */
    if (kept->run_events(kept, f->id, f->after, EVENTS_A_ROUND, &events, &n, NULL) != PAWL_OK)
        return false;
    bool all = n < EVENTS_A_ROUND;
    for (size_t i = 0; i < n; i++) {
        bytes += strlen(events[i].data);
        if (bytes > BYTES_A_ROUND && i > 0) {
            all = false;
            break;
        }
        send_event(f, &events[i]);
        f->after = events[i].seq;
    }
    free(events);
    *more = *more || !all;
    return active || !all;
}

static void end(run_follower *f)
{
    run_event *last = f->end;
    last->stop_reason = RUN_ANSWER_OK;
    f->listener.on_event(f->listener.arg, last);
    teller_release(f);
}

/* One round over all; others may be added meanwhile, at the front. */
static bool tell_all(teller *t)
{
    bool more = false;
    pthread_mutex_lock(&t->lock);
    run_follower *f = t->all;
    pthread_mutex_unlock(&t->lock);
    while (f) {
        run_follower *next = f->next;
        if (!tell(t, f, &more)) {
            pthread_mutex_lock(&t->lock);
            run_follower **at = &t->all;
            while (*at != f)
                at = &(*at)->next;
            *at = next;
            t->n--;
            pthread_mutex_unlock(&t->lock);
            end(f);
        }
        f = next;
    }
    return more;
}

static void wait_for_news(teller *t, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    while (!t->told && !t->closing && pthread_cond_timedwait(&t->news, &t->lock, &until) == 0)
        ;
    t->told = false;
}

static void *teller_thread(void *arg)
{
    teller *t = arg;
    bool more = false;
    pthread_mutex_lock(&t->lock);
    while (!t->closing) {
        wait_for_news(t, more ? BUSY_MS : IDLE_MS);
        pthread_mutex_unlock(&t->lock);
        more = tell_all(t);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ------------------------------------------------------------- from outside */

teller *teller_open(run_runtime *runtime, bool (*is_active)(void *arg, const char *id), void *arg,
                    pawl_error *error)
{
    teller *t = calloc(1, sizeof *t);
    pthread_condattr_t attributes;
    sigset_t all, before;
    if (!t) {
        pawl_fail(error, PAWL_E_MEMORY, "no memory to tell what runs say");
        return NULL;
    }
    t->runtime = runtime;
    t->is_active = is_active;
    t->arg = arg;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&t->news, &attributes);
    pthread_condattr_destroy(&attributes);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&t->thread, NULL, teller_thread, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) {
        pthread_setname_np(t->thread, "pawl-teller");
        return t;
    }
    pthread_cond_destroy(&t->news);
    pthread_mutex_destroy(&t->lock);
    free(t);
    pawl_fail(error, PAWL_E_MEMORY, "the thread that tells what runs say cannot be started");
    return NULL;
}

void teller_stop(teller *t)
{
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    pthread_cond_signal(&t->news);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    while (t->all) {
        run_follower *f = t->all;
        t->all = f->next;
        end(f);
    }
}

void teller_free(teller *t)
{
    if (!t)
        return;
    pthread_cond_destroy(&t->news);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void teller_poke(teller *t)
{
    pthread_mutex_lock(&t->lock);
    t->told = true;
    pthread_cond_signal(&t->news);
    pthread_mutex_unlock(&t->lock);
}

bool teller_follow(teller *t, const char *id, uint64_t after, run_listener listener,
                   run_event *last, run_follower *f)
{
    snprintf(f->id, sizeof f->id, "%s", id);
    f->after = after;
    f->listener = listener;
    f->end = last;
    pthread_mutex_lock(&t->lock);
    bool taken = !t->closing && t->n < TELLER_MAX_FOLLOWERS;
    if (taken) {
        atomic_fetch_add(&f->references, 1);
        f->next = t->all;
        t->all = f;
        t->n++;
        t->told = true;
        pthread_cond_signal(&t->news);
    }
    pthread_mutex_unlock(&t->lock);
    return taken;
}

run_follower *teller_new_follower(teller *t)
{
    run_follower *f = calloc(1, sizeof *f);
    if (f) {
        atomic_init(&f->references, 1);
        atomic_init(&f->cancelled, false);
        f->teller = t;
    }
    return f;
}

void teller_retain(run_follower *f)
{
    atomic_fetch_add(&f->references, 1);
}

void teller_unfollow(run_follower *f)
{
    if (!atomic_exchange(&f->cancelled, true))
        teller_poke(f->teller);
}

void teller_release(run_follower *f)
{
    if (f && atomic_fetch_sub(&f->references, 1) == 1)
        free(f);
}
