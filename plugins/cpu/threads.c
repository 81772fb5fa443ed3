/*
 * cpu/threads.c - see threads.h.
 *
 * The cursor holds the number of the present stage and of its next free item in
 * one word, so that a worker which comes late cannot claim anything of a stage
 * that it takes for another. Who finishes a stage's last item moves the cursor to
 * the next stage. A run is a gate: workers may enter while it is open; its owner
 * closes it and waits until those inside have left.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SPINS 2000 /* about 20 to 40 microseconds */
#define GATE_OPEN 0x80000000u

/* A number that only goes up, and those who wait for it to move. */
typedef struct counter {
    atomic_uint value;
    atomic_uint sleepers;
    pthread_mutex_t mutex;
    pthread_cond_t moved;
} counter;

struct threads {
    uint32_t count;   /* workers, the caller among them                 */
    uint32_t started; /* threads to join                                */
    atomic_bool stop;
    counter runs;              /* a run begins                                   */
    counter events;            /* a stage is over, or a worker has left          */
    threads_function function; /* of the present run                             */
    void *arg;
    pthread_t ids[THREADS_MAX];
    threads_worker workers[THREADS_MAX];
    _Alignas(64) _Atomic uint64_t cursor; /* stage << 32 | next item             */
    _Alignas(64) _Atomic uint64_t done;   /* items of the present stage          */
    _Alignas(64) atomic_uint gate;        /* GATE_OPEN, and how many are inside  */
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

static bool gate_enter(threads *pool)
{
    unsigned gate = atomic_load(&pool->gate);
    while (gate & GATE_OPEN)
        if (atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1))
            return true;
    return false;
}

static void *work(void *arg)
{
    threads_worker *worker = arg;
    threads *pool = worker->pool;
    unsigned seen = 0;
    for (;;) {
        counter_wait(&pool->runs, seen);
        seen = atomic_load(&pool->runs.value);
        if (atomic_load(&pool->stop))
            return NULL;
        if (!gate_enter(pool))
            continue; /* too late for this run */
        worker->stage = 0;
        pool->function(pool->arg, worker);
        atomic_fetch_sub(&pool->gate, 1);
        counter_raise(&pool->events);
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
    threads *pool = aligned_alloc(_Alignof(threads), sizeof *pool);
    if (!pool)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for worker threads");
    pool->count = count ? count : usable_processors();
    if (pool->count > THREADS_MAX)
        pool->count = THREADS_MAX;
    pool->started = 0;
    pool->function = NULL;
    pool->arg = NULL;
    counter_init(&pool->runs);
    counter_init(&pool->events);
    atomic_init(&pool->stop, false);
    atomic_init(&pool->cursor, 0);
    atomic_init(&pool->done, 0);
    atomic_init(&pool->gate, 0);
    for (uint32_t i = 0; i < pool->count; i++)
        pool->workers[i] = (threads_worker){.pool = pool, .index = i};
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
    atomic_store(&pool->stop, true);
    counter_raise(&pool->runs);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->ids[i], NULL);
    counter_clear(&pool->runs);
    counter_clear(&pool->events);
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
    pool->workers[0].stage = 0;
    atomic_store(&pool->cursor, 0);
    if (pool->count > 1) {
        atomic_store(&pool->gate, GATE_OPEN);
        counter_raise(&pool->runs);
    }
    function(arg, &pool->workers[0]);
    atomic_fetch_and(&pool->gate, ~GATE_OPEN);
    for (;;) {
        unsigned seen = atomic_load(&pool->events.value);
        if (atomic_load(&pool->gate) == 0)
            return;
        counter_wait(&pool->events, seen);
    }
}

/* Counts the worker's item as done; the last one opens the next stage. */
static void finish_item(threads_worker *worker, size_t n)
{
    threads *pool = worker->pool;
    worker->holds = false;
    if (atomic_fetch_add(&pool->done, 1) + 1 < n)
        return;
    atomic_store(&pool->done, 0);
    atomic_store(&pool->cursor, (uint64_t)(worker->stage + 1) << 32);
    counter_raise(&pool->events);
}

bool threads_next(threads_worker *worker, size_t n, size_t *item)
{
    threads *pool = worker->pool;
    if (n == 0)
        return false;
    if (worker->holds)
        finish_item(worker, n);
    for (;;) {
        unsigned seen = atomic_load(&pool->events.value);
        uint64_t cursor = atomic_load(&pool->cursor);
        while (cursor >> 32 == worker->stage && (cursor & UINT32_MAX) < n) {
            if (!atomic_compare_exchange_weak(&pool->cursor, &cursor, cursor + 1))
                continue;
            *item = (size_t)(cursor & UINT32_MAX);
            worker->holds = true;
            return true;
        }
        if (cursor >> 32 != worker->stage) {
            worker->stage++;
            return false;
        }
        counter_wait(&pool->events, seen);
    }
}
