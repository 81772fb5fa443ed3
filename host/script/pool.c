/*
 * script/pool.c - threads that step the instances of a server. See pool.h.
 *
 * The order of locks: a hub's before the pool's, since a hub wakes a place under its own. So
 * nothing of an instance is called while the pool's is held.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/pool.h"

#include "base/queue.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_WORKERS 64
#define LONGEST_WAIT_NS 1000000000

struct pool_place {
    pool *pool;
    instance *instance;
    char id[CLOCK_ID_SIZE];
    atomic_bool cancel;
    /* Under the pool's lock: */
    enum { PLACE_RESERVED, PLACE_IDLE, PLACE_QUEUED, PLACE_STEPPED } state;
    bool again;         /* woken while it was stepped            */
    int64_t due_ns;     /* of IDLE                               */
    pool_place *queued; /* the next one in the queue             */
    pool_place *next;   /* of all                                */
};

typedef struct pool_job {
    void (*run)(void *arg);
    void *arg;
} pool_job;

struct pool {
    const base_clock *clock;
    void (*ended)(void *arg, const char *id);
    void *arg;
    queue *jobs; /* of pool_job */
    pthread_mutex_t lock;
    pthread_cond_t work;
    pool_place *all;
    size_t n_places;
    pool_place *first, **last; /* the queue of those that are ready */
    bool closing;
    pthread_t workers[MAX_WORKERS];
    size_t n_workers;
};

/* ------------------------------------------------------------- under the lock */

static void enqueue(pool_place *place)
{
    pool *p = place->pool;
    place->state = PLACE_QUEUED;
    place->queued = NULL;
    *p->last = place;
    p->last = &place->queued;
    pthread_cond_signal(&p->work);
}

static void make_ready(pool_place *place)
{
    if (place->state == PLACE_IDLE)
        enqueue(place);
    else if (place->state == PLACE_STEPPED)
        place->again = true;
}

static pool_place *dequeue(pool *p)
{
    pool_place *place = p->first;
    if (!place)
        return NULL;
    p->first = place->queued;
    if (!p->first)
        p->last = &p->first;
    return place;
}

/* Queues those whose time has come; when the next one's will. */
static int64_t look_at_clock(pool *p, int64_t now)
{
    int64_t next = now + LONGEST_WAIT_NS;
    for (pool_place *place = p->all; place; place = place->next) {
        if (place->state != PLACE_IDLE)
            continue;
        if (place->due_ns <= now)
            enqueue(place);
        else if (place->due_ns < next)
            next = place->due_ns;
    }
    return next;
}

static void forget(pool_place *place)
{
    pool *p = place->pool;
    pool_place **at = &p->all;
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    p->n_places--;
}

static pool_place *find(pool *p, const char *id)
{
    for (pool_place *place = p->all; place; place = place->next)
        if (place->state != PLACE_RESERVED && strcmp(place->id, id) == 0)
            return place;
    return NULL;
}

/* ------------------------------------------------------------- workers */

/* Takes the lock again before it returns. */
static void step(pool *p, pool_place *place)
{
    script_result result;
    place->state = PLACE_STEPPED;
    place->again = false;
    pthread_mutex_unlock(&p->lock);
    enum script_step at = instance_step(place->instance, POOL_SLICE_NS);
    int64_t due = at == SCRIPT_WAITS ? instance_due(place->instance) : 0;
    if (at == SCRIPT_ENDED) {
        instance_close(place->instance, &result);
        script_result_clear(&result);
    }
    pthread_mutex_lock(&p->lock);
    if (at == SCRIPT_ENDED) {
        forget(place);
        pthread_mutex_unlock(&p->lock);
        p->ended(p->arg, place->id);
        free(place);
        pthread_mutex_lock(&p->lock);
    } else if (at == SCRIPT_READY || place->again) {
        enqueue(place);
    } else {
        place->state = PLACE_IDLE;
        place->due_ns = due;
    }
}

static bool do_job(pool *p)
{
    pool_job *job = queue_pop(p->jobs, 0);
    if (!job)
        return false;
    job->run(job->arg);
    free(job);
    return true;
}

static void wait_until(pool *p, int64_t now, int64_t until)
{
    struct timespec at;
    int64_t left = until - now;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += left / 1000000000;
    at.tv_nsec += left % 1000000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&p->work, &p->lock, &at);
}

static void *work(void *arg)
{
    pool *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->closing) {
        if (queue_size(p->jobs)) {
            pthread_mutex_unlock(&p->lock);
            do_job(p);
            pthread_mutex_lock(&p->lock);
            if (p->closing)
                break;
        }
        int64_t now = p->clock->monotonic_ns(p->clock->context);
        int64_t next = look_at_clock(p, now);
        pool_place *place = dequeue(p);
        if (place)
            step(p, place);
        else if (!queue_size(p->jobs))
            wait_until(p, now, next);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static bool start_worker(pool *p)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&p->workers[p->n_workers], NULL, work, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        pthread_setname_np(p->workers[p->n_workers++], "pawl-script");
    return started;
}

pool *pool_open(const base_clock *clock, size_t n_workers, void (*ended)(void *arg, const char *id),
                void *arg, pawl_error *error)
{
    pool *p = calloc(1, sizeof *p);
    pthread_condattr_t attributes;
    if (!p || !(p->jobs = queue_open(POOL_MAX_JOBS))) {
        free(p);
        pawl_fail(error, PAWL_E_MEMORY, "no memory for the threads of pipelines");
        return NULL;
    }
    p->clock = clock;
    p->ended = ended;
    p->arg = arg;
    p->last = &p->first;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->work, &attributes);
    pthread_condattr_destroy(&attributes);
    for (size_t i = 0; i < n_workers && i < MAX_WORKERS; i++) {
        if (start_worker(p))
            continue;
        pawl_fail(error, PAWL_E_MEMORY, "a thread of pipelines cannot be started");
        pool_stop(p);
        pool_free(p);
        return NULL;
    }
    return p;
}

void pool_stop(pool *p)
{
    script_result cut;
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i], NULL);
    queue_close(p->jobs);
    while (do_job(p)) /* they find that it is being closed, and say so */
        continue;
    while (p->all) {
        pool_place *place = p->all;
        p->all = place->next;
        instance_close(place->instance, &cut);
        script_result_clear(&cut);
        free(place);
    }
    p->n_places = 0;
}

void pool_free(pool *p)
{
    if (!p)
        return;
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    queue_free(p->jobs);
    free(p);
}

/* ------------------------------------------------------------- from outside */

bool pool_do(pool *p, void (*run)(void *arg), void *arg)
{
    pool_job *job = malloc(sizeof *job);
    if (!job)
        return false;
    *job = (pool_job){run, arg};
    if (!queue_push(p->jobs, job)) {
        free(job);
        return false;
    }
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    return true;
}

pool_place *pool_reserve(pool *p)
{
    pool_place *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    place->pool = p;
    atomic_init(&place->cancel, false);
    pthread_mutex_lock(&p->lock);
    bool taken = !p->closing && p->n_places < POOL_MAX_RUNS;
    if (taken) {
        place->next = p->all;
        p->all = place;
        p->n_places++;
    }
    pthread_mutex_unlock(&p->lock);
    if (taken)
        return place;
    free(place);
    return NULL;
}

/* Under a hub's lock. */
static void wake(void *arg)
{
    pool_place *place = arg;
    pthread_mutex_lock(&place->pool->lock);
    make_ready(place);
    pthread_mutex_unlock(&place->pool->lock);
}

void pool_configure(pool_place *place, instance_config *config)
{
    config->wake = wake;
    config->wake_arg = place;
    config->cancel = &place->cancel;
}

void pool_start(pool_place *place, instance *i)
{
    pool *p = place->pool;
    place->instance = i;
    snprintf(place->id, sizeof place->id, "%s", instance_id(i));
    pthread_mutex_lock(&p->lock);
    enqueue(place);
    pthread_mutex_unlock(&p->lock);
}

void pool_unreserve(pool_place *place)
{
    pool *p = place->pool;
    pthread_mutex_lock(&p->lock);
    forget(place);
    pthread_mutex_unlock(&p->lock);
    free(place);
}

bool pool_has(pool *p, const char *id)
{
    pthread_mutex_lock(&p->lock);
    bool found = find(p, id) != NULL;
    pthread_mutex_unlock(&p->lock);
    return found;
}

bool pool_cancel(pool *p, const char *id)
{
    pthread_mutex_lock(&p->lock);
    pool_place *place = find(p, id);
    if (place) {
        atomic_store(&place->cancel, true);
        make_ready(place);
    }
    pthread_mutex_unlock(&p->lock);
    return place != NULL;
}

size_t pool_count(pool *p)
{
    pthread_mutex_lock(&p->lock);
    size_t n = p->n_places;
    pthread_mutex_unlock(&p->lock);
    return n;
}
