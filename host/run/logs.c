/*
 * run/logs.c - the logs of all responses. See logs.h.
 *
 * A list by age, and two tables of buckets: by the response's id and by the tenant's key.
 * Clients choose their keys, so the buckets are seeded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/logs.h"

#include "run/log_parts.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ measures -- */

enum { LOGS, BYTES, READERS, RUNNING, DETACHED };

static void collect(void *arg)
{
    run_logs *all = arg;
    size_t readers = 0, running = 0, detached = 0;
    pthread_mutex_lock(&all->lock);
    for (run_log *log = all->oldest; log; log = log->newer) {
        pthread_mutex_lock(&log->lock);
        for (const run_reader *r = log->readers; r; r = r->next)
            readers++;
        running += !log->ended;
        detached += log->detached_ns != 0;
        pthread_mutex_unlock(&log->lock);
    }
    metric_set(all->gauges[LOGS], (double)all->n);
    pthread_mutex_unlock(&all->lock);
    metric_set(all->gauges[BYTES], (double)atomic_load(&all->total));
    metric_set(all->gauges[READERS], (double)readers);
    metric_set(all->gauges[RUNNING], (double)running);
    metric_set(all->gauges[DETACHED], (double)detached);
}

static void open_measures(run_logs *all)
{
    metrics *m = all->config.metrics;
    static const metric_spec gauges[] = {
        [LOGS] = {METRIC_GAUGE, "pawl_event_logs", "Responses whose events are kept.", {0}, NULL},
        [BYTES] = {METRIC_GAUGE, "pawl_event_log_bytes", "Memory of kept events.", {0}, NULL},
        [READERS] =
            {METRIC_GAUGE, "pawl_event_log_readers", "Clients that read kept events.", {0}, NULL},
        [RUNNING] = {METRIC_GAUGE,
                     "pawl_event_logs_running",
                     "Of the responses whose events are kept, those that run.",
                     {0},
                     NULL},
        [DETACHED] = {METRIC_GAUGE,
                      "pawl_responses_detached",
                      "Responses that run while their client is gone.",
                      {0},
                      NULL}};
    static const metric_spec detached = {METRIC_COUNTER,
                                         "pawl_detached_total",
                                         "Responses that were left by their last client.",
                                         {0},
                                         NULL};
    static const metric_spec abandoned = {METRIC_COUNTER,
                                          "pawl_detached_cancelled_total",
                                          "Of them, those to which nobody came back in time.",
                                          {0},
                                          NULL};
    static const metric_spec reads = {METRIC_COUNTER,
                                      "pawl_event_log_reads_total",
                                      "Times that somebody began to read kept events.",
                                      {0},
                                      NULL};
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
        all->gauges[i] = metrics_single(m, &gauges[i]);
    all->detached = metrics_single(m, &detached);
    all->abandoned = metrics_single(m, &abandoned);
    all->reads = metrics_single(m, &reads);
    metrics_on_write(m, collect, all);
}

/* --------------------------------------------------------------- open, close -- */

run_logs *run_logs_open(const run_logs_config *config)
{
    run_logs *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->config = *config;
    atomic_init(&all->references, 1);
    atomic_init(&all->total, 0);
    all->by_id = calloc(RUN_LOG_BUCKETS, sizeof(run_log *));
    all->by_key = calloc(RUN_LOG_BUCKETS, sizeof(run_log *));
    config->clock->random(config->clock->context, &all->seed, sizeof all->seed);
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->settled, NULL);
    if (!all->by_id || !all->by_key) {
        run_logs_close(all);
        return NULL;
    }
    open_measures(all);
    return all;
}

void run_logs_release(run_logs *all)
{
    if (atomic_fetch_sub(&all->references, 1) != 1)
        return;
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->settled);
    free(all->by_id);
    free(all->by_key);
    free(all);
}

void run_logs_close(run_logs *all)
{
    if (!all)
        return;
    while (all->oldest)
        run_logs_forget(all, all->oldest);
    run_logs_release(all);
}

void run_logs_accepting(run_logs *all, int more)
{
    pthread_mutex_lock(&all->lock);
    all->accepting += more;
    if (!all->accepting)
        pthread_cond_broadcast(&all->settled);
    pthread_mutex_unlock(&all->lock);
}

void run_logs_settle(run_logs *all)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    while (all->accepting)
        pthread_cond_wait(&all->settled, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

/* ------------------------------------------------------------------- finding -- */

static size_t bucket_of(const run_logs *all, const char *first, const char *second)
{
    uint64_t hash = all->seed;
    for (; *first; first++)
        hash = (hash ^ (unsigned char)*first) * 1099511628211u;
    hash = (hash ^ 0x100) * 1099511628211u;
    for (; *second; second++)
        hash = (hash ^ (unsigned char)*second) * 1099511628211u;
    return (size_t)((hash ^ hash >> 32) % RUN_LOG_BUCKETS);
}

run_log *run_logs_find(run_logs *all, const char *tenant, const char *id)
{
    pthread_mutex_lock(&all->lock);
    run_log *log = all->by_id[bucket_of(all, "", id)];
    while (log && strcmp(log->id, id) != 0)
        log = log->next_by_id;
    if (log && tenant && strcmp(log->tenant, tenant) != 0)
        log = NULL; /* another tenant's is unknown */
    if (log)
        run_log_retain(log);
    pthread_mutex_unlock(&all->lock);
    return log;
}

static bool is_no_answer(run_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool cancelled = log->cancelled;
    pthread_mutex_unlock(&log->lock);
    return cancelled;
}

run_log *run_logs_find_key(run_logs *all, const char *tenant, const char *key)
{
    pthread_mutex_lock(&all->lock);
    run_log *log = all->by_key[bucket_of(all, tenant, key)];
    while (log && (strcmp(log->key, key) != 0 || strcmp(log->tenant, tenant) != 0))
        log = log->next_by_key;
    if (log && is_no_answer(log))
        log = NULL;
    if (log)
        run_log_retain(log);
    pthread_mutex_unlock(&all->lock);
    return log;
}

/* --------------------------------------------------------------- list and tables -- */

static void list(run_logs *all, run_log *log)
{
    run_log **by_id = &all->by_id[bucket_of(all, "", log->id)];
    log->listed = true;
    log->older = all->newest;
    if (log->older)
        log->older->newer = log;
    else
        all->oldest = log;
    all->newest = log;
    log->next_by_id = *by_id;
    *by_id = log;
    if (log->key) {
        run_log **by_key = &all->by_key[bucket_of(all, log->tenant, log->key)];
        log->next_by_key = *by_key;
        *by_key = log;
    }
    all->n++;
}

/* True: the list's reference is to be given up, without the lock. */
static bool unlist(run_logs *all, run_log *log)
{
    if (!log->listed)
        return false;
    run_log **by_id = &all->by_id[bucket_of(all, "", log->id)];
    while (*by_id != log)
        by_id = &(*by_id)->next_by_id;
    *by_id = log->next_by_id;
    if (log->key) {
        run_log **by_key = &all->by_key[bucket_of(all, log->tenant, log->key)];
        while (*by_key != log)
            by_key = &(*by_key)->next_by_key;
        *by_key = log->next_by_key;
    }
    *(log->older ? &log->older->newer : &all->oldest) = log->newer;
    *(log->newer ? &log->newer->older : &all->newest) = log->older;
    log->listed = false;
    all->n--;
    return true;
}

void run_logs_forget(run_logs *all, run_log *log)
{
    pthread_mutex_lock(&all->lock);
    bool listed = unlist(all, log);
    pthread_mutex_unlock(&all->lock);
    if (listed)
        run_log_release(log);
}

/* Takes the oldest log that has ended out of the list, and gives up its events. False:
 * all are running. The list's lock is held. */
static bool drop_oldest(run_logs *all)
{
    run_log *log = all->oldest;
    bool ended = false;
    while (log && !ended) {
        pthread_mutex_lock(&log->lock);
        ended = log->ended;
        if (ended)
            run_log_give_up(log);
        pthread_mutex_unlock(&log->lock);
        if (!ended)
            log = log->newer;
    }
    if (!log)
        return false;
    unlist(all, log);
    run_log_release(log); /* takes no lock */
    return true;
}

void run_logs_shrink(run_logs *all, run_log *log)
{
    size_t max = all->config.max_total_bytes;
    if (atomic_load(&all->total) <= max)
        return;
    pthread_mutex_lock(&all->lock);
    while (atomic_load(&all->total) > max && drop_oldest(all))
        continue;
    pthread_mutex_unlock(&all->lock);
    if (atomic_load(&all->total) <= max)
        return;
    pthread_mutex_lock(&log->lock);
    run_log_give_up(log);
    pthread_mutex_unlock(&log->lock);
}

/* ------------------------------------------------------------------- adding -- */

run_log *run_logs_add(run_logs *all, run_request *request, size_t n, run_listener first)
{
    run_log *log = n <= RUN_MAX_CHOICES ? calloc(1, sizeof *log) : NULL;
    if (!log)
        return NULL;
    pthread_mutex_init(&log->lock, NULL);
    atomic_init(&log->references, 2); /* the list's and the turns' */
    log->all = all;
    atomic_fetch_add(&all->references, 1);
    memcpy(log->id, request->id, sizeof log->id);
    memcpy(log->tenant, request->caller.tenant, sizeof log->tenant);
    memcpy(log->hash, request->key_hash, sizeof log->hash);
    log->key = request->key ? strdup(request->key) : NULL;
    log->created_ms = request->created_ms;
    log->background = request->background;
    log->stored = request->store;
    log->cancels = request->cancel_on_leave;
    log->first = first;
    log->attached = first.on_event ? 1 : 0;
    buf_init(&log->bytes, 2 * all->config.max_bytes);
    pthread_mutex_lock(&all->lock);
    bool fits = (log->key || !request->key) && (all->n < RUN_MAX_LOGS || drop_oldest(all));
    if (fits)
        list(all, log);
    pthread_mutex_unlock(&all->lock);
    if (!fits) {
        log->references = 1;
        run_log_release(log);
        return NULL;
    }
    log->request = run_request_retain(request);
    return log;
}

void run_logs_drop(run_logs *all, run_log *log)
{
    run_logs_forget(all, log);
    run_log_release(log);
}

/* ------------------------------------------------------------------- tending -- */

/* Whether the log has been kept for long enough. */
static bool tend(run_logs *all, run_log *log, int64_t now)
{
    pthread_mutex_lock(&log->lock);
    bool old = log->ended && now - log->ended_ns >= all->config.window_ns;
    if (log->detached_ns && now - log->detached_ns >= all->config.detach_ns) {
        log->detached_ns = 0;
        run_log_cancel_turns(log);
        metric_add(all->abandoned, 1);
    }
    pthread_mutex_unlock(&log->lock);
    return old;
}

void run_logs_tend(run_logs *all)
{
    run_log *next;
    const base_clock *clock = all->config.clock;
    int64_t now = clock->monotonic_ns(clock->context);
    pthread_mutex_lock(&all->lock);
    for (run_log *log = all->oldest; log; log = next) {
        next = log->newer;
        if (tend(all, log, now) && unlist(all, log))
            run_log_release(log);
    }
    pthread_mutex_unlock(&all->lock);
}

void run_logs_cancel_all(run_logs *all)
{
    pthread_mutex_lock(&all->lock);
    for (run_log *log = all->oldest; log; log = log->newer)
        run_log_cancel(log);
    pthread_mutex_unlock(&all->lock);
}

size_t run_logs_running(run_logs *all)
{
    size_t n = 0;
    pthread_mutex_lock(&all->lock);
    for (run_log *log = all->oldest; log; log = log->newer)
        n += run_log_is_running(log);
    pthread_mutex_unlock(&all->lock);
    return n;
}
