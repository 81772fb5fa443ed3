/*
 * cpu/threads.c - see threads.h.
 *
 * Both a new run and a passed barrier are a counter that goes up: whoever waits
 * watches it, first spinning, then under the mutex. The one who raises it takes
 * the mutex only to wake sleepers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 2000 /* about 20 to 40 microseconds */

/* A number that only goes up, and those who wait for it. */
typedef struct counter {
    atomic_uint value;
    atomic_uint sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t moved;
} counter;

struct threads {
    uint32_t count;            /* workers, the caller among them              */
    uint32_t started;          /* threads to join                             */
    bool stop;                 /* read after `runs` has moved                 */
    counter runs;              /* a run begins                                */
    counter barriers;          /* a barrier has been passed                   */
    atomic_uint arrived;       /* workers at the present barrier              */
    threads_function function; /* of the present run                          */
    void *arg;
    pthread_t ids[THREADS_MAX];
    threads_worker workers[THREADS_MAX];
};

static void counter_init(counter *c)
{
    atomic_init(&c->value, 0);
    atomic_init(&c->sleepers, 0);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->moved, NULL);
}

static void counter_clear(counter *c)
{
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->moved);
}

static void counter_raise(counter *c)
{
    atomic_fetch_add(&c->value, 1);
    if (atomic_load(&c->sleepers) == 0)
        return;
    pthread_mutex_lock(&c->mutex);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->mutex);
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits until the counter is no longer `seen`. */
static void counter_wait(counter *c, unsigned seen)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&c->value, memory_order_acquire) != seen)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&c->mutex);
    atomic_fetch_add(&c->sleepers, 1);
    while (atomic_load(&c->value) == seen)
        pthread_cond_wait(&c->moved, &c->mutex);
    atomic_fetch_sub(&c->sleepers, 1);
    pthread_mutex_unlock(&c->mutex);
}

static void *work(void *arg)
{
    threads_worker *worker = arg;
    threads *pool = worker->pool;
    for (unsigned seen = 0;; seen++) {
        counter_wait(&pool->runs, seen);
        if (pool->stop)
            return NULL;
        pool->function(pool->arg, worker);
        threads_barrier(worker);
    }
}

static uint32_t usable_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

/* Signals are the host's business: workers take none. */
static bool start(threads *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool good = true;
    for (uint32_t i = 1; good && i < pool->count; i++) {
        good = pthread_create(&pool->ids[i], NULL, work, &pool->workers[i]) == 0;
        if (good)
            pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return good;
}

pawl_status threads_open(uint32_t count, threads **out, pawl_error *error)
{
    threads *pool = calloc(1, sizeof *pool);
    if (!pool)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for worker threads");
    pool->count = count ? count : usable_processors();
    if (pool->count > THREADS_MAX)
        pool->count = THREADS_MAX;
    counter_init(&pool->runs);
    counter_init(&pool->barriers);
    atomic_init(&pool->arrived, 0);
    for (uint32_t i = 0; i < pool->count; i++)
        pool->workers[i] = (threads_worker){pool, i, pool->count};
    if (!start(pool)) {
        uint32_t wanted = pool->count;
        threads_close(pool);
        return pawl_fail(error, PAWL_E_MEMORY, "the system refused to start %u threads", wanted);
    }
    *out = pool;
    return PAWL_OK;
}

void threads_close(threads *pool)
{
    if (!pool)
        return;
    pool->stop = true;
    counter_raise(&pool->runs);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->ids[i], NULL);
    counter_clear(&pool->runs);
    counter_clear(&pool->barriers);
    free(pool);
}

uint32_t threads_count(const threads *pool)
{
    return pool->count;
}

void threads_run(threads *pool, threads_function function, void *arg)
{
    pool->function = function;
    pool->arg = arg;
    if (pool->count > 1)
        counter_raise(&pool->runs);
    function(arg, &pool->workers[0]);
    threads_barrier(&pool->workers[0]);
}

void threads_barrier(const threads_worker *worker)
{
    threads *pool = worker->pool;
    if (pool->count == 1)
        return;
    unsigned seen = atomic_load(&pool->barriers.value);
    if (atomic_fetch_add(&pool->arrived, 1) + 1 < pool->count) {
        counter_wait(&pool->barriers, seen);
        return;
    }
    atomic_store(&pool->arrived, 0);
    counter_raise(&pool->barriers);
}

void threads_share(const threads_worker *worker, size_t n, size_t grain, size_t *begin, size_t *end)
{
    size_t pieces = (n + grain - 1) / grain;
    size_t first = pieces * worker->index / worker->count * grain;
    size_t last = pieces * (worker->index + 1) / worker->count * grain;
    *begin = first < n ? first : n;
    *end = last < n ? last : n;
}
