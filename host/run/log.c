/*
 * run/log.c - the events of one response. See log.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/log.h"

#include "run/event_code.h"
#include "run/log_parts.h"
#include "run/turn.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- keeping -- */

run_log *run_log_retain(run_log *log)
{
    atomic_fetch_add(&log->references, 1);
    return log;
}

void run_log_release(run_log *log)
{
    if (!log || atomic_fetch_sub(&log->references, 1) != 1)
        return;
    run_logs *all = log->all;
    atomic_fetch_sub(&all->total, log->counted);
    pthread_mutex_destroy(&log->lock);
    buf_clear(&log->bytes);
    run_request_free(log->request);
    for (size_t i = 0; i < log->n_turns; i++)
        run_turn_release(log->turns[i]);
    for (size_t i = 0; i < RUN_MAX_CHOICES; i++)
        run_record_release(log->records[i]);
    free(log->key);
    free(log);
    run_logs_release(all);
}

static size_t record_size(const run_record *record)
{
    if (!record)
        return 0;
    return strlen(record->request) + strlen(record->input) + strlen(record->output) +
           (size_t)record->n_tokens * sizeof *record->tokens;
}

void run_log_count(run_log *log)
{
    size_t size = sizeof *log + log->bytes.room + (log->key ? strlen(log->key) : 0);
    for (size_t i = 0; i < RUN_MAX_CHOICES; i++)
        size += record_size(log->records[i]);
    if (size > log->counted)
        atomic_fetch_add(&log->all->total, size - log->counted);
    else
        atomic_fetch_sub(&log->all->total, log->counted - size);
    log->counted = size;
}

static void wake_readers(run_log *log)
{
    for (run_reader *r = log->readers; r; r = r->next) {
        bool waiting = r->waiting;
        r->waiting = false;
        if (waiting && r->wake)
            r->wake(r->arg);
    }
}

void run_log_give_up(run_log *log)
{
    log->gone = true;
    buf_clear(&log->bytes);
    for (size_t i = 0; i < RUN_MAX_CHOICES; i++) {
        run_record_release(log->records[i]);
        log->records[i] = NULL;
    }
    run_log_count(log);
    wake_readers(log);
}

static void tally(run_tally *t, const run_event *event)
{
    if (event->type == RUN_DELTA && (!event->text || (!*event->text && !event->logprobs)))
        return;
    t->n[event->type][event->kind]++;
}

/* Drops the oldest events until a quarter of the room is free. */
static void drop_oldest(run_log *log)
{
    size_t max = log->all->config.max_bytes, at = 0;
    while (log->bytes.size - at > max - max / 4) {
        const char *data = log->bytes.data + at;
        run_event *event = event_decode(data, log->bytes.size - at);
        size_t size = event_code_size(data, log->bytes.size - at);
        if (!event || !size) {
            run_event_free(event);
            run_log_give_up(log);
            return;
        }
        tally(&log->lost, event);
        run_event_free(event);
        at += size;
    }
    log->bytes.size -= at;
    log->dropped += at;
    memmove(log->bytes.data, log->bytes.data + at, log->bytes.size);
}

static void keep(run_log *log, const run_event *event)
{
    size_t before = log->bytes.size, max = log->all->config.max_bytes;
    tally(&log->seen, event);
    if (log->gone)
        return;
    if (!event_encode(&log->bytes, event) || log->bytes.size - before > max - max / 4) {
        run_log_give_up(log);
        return;
    }
    if (log->bytes.size > max)
        drop_oldest(log);
}

/* The record of an end goes to whoever needs it: a stored one can be read again, so that
 * only those who read now are given it. */
static void keep_record(run_log *log, const run_event *event)
{
    run_record *record = event->record;
    if (!record || log->gone)
        return;
    if (!record->stored && event->choice < RUN_MAX_CHOICES) {
        log->records[event->choice] = run_record_retain(record);
        return;
    }
    for (run_reader *r = log->readers; r; r = r->next)
        if (!r->record)
            r->record = run_record_retain(record);
}

static void keep_end(run_log *log, const char *stop_reason)
{
    const base_clock *clock = log->all->config.clock;
    log->ended = true;
    log->cancelled = stop_reason && strcmp(stop_reason, "cancelled") == 0;
    log->detached_ns = 0;
    log->ended_ns = clock->monotonic_ns(clock->context);
    buf_trim(&log->bytes);
}

/* What the turns held, to be given up without the lock. */
static void let_go(run_log *log, run_request *request, run_turn **turns, size_t n)
{
    run_request_free(request);
    for (size_t i = 0; i < n; i++)
        run_turn_release(turns[i]);
    run_log_release(log);
}

/* [worker, engine, store] */
static void on_event(void *arg, run_event *event)
{
    run_log *log = arg;
    run_turn *turns[RUN_MAX_CHOICES];
    run_request *request = NULL;
    run_logs *all = log->all;
    size_t n = 0;
    bool end = event->type == RUN_END;
    pthread_mutex_lock(&log->lock);
    keep(log, event);
    log->in_progress = log->in_progress || event->type == RUN_IN_PROGRESS;
    if (end || event->type == RUN_CHOICE_END)
        keep_record(log, event);
    if (end) {
        keep_end(log, event->stop_reason);
        request = log->request;
        log->request = NULL;
        n = log->n_turns;
        memcpy(turns, log->turns, sizeof turns);
        log->n_turns = 0;
    }
    run_log_count(log);
    wake_readers(log);
    pthread_mutex_unlock(&log->lock);
    run_logs_shrink(all, log);
    if (log->first.on_event)
        log->first.on_event(log->first.arg, event);
    else
        run_event_free(event);
    if (end)
        let_go(log, request, turns, n);
}

run_listener run_log_listener(run_log *log)
{
    return (run_listener){on_event, log};
}

void run_log_begin(run_log *log, run_turn **turns, size_t n)
{
    pthread_mutex_lock(&log->lock);
    for (size_t i = 0; i < n; i++) {
        atomic_fetch_add(&turns[i]->references, 1);
        log->turns[i] = turns[i];
    }
    log->n_turns = n;
    pthread_mutex_unlock(&log->lock);
}

/* ---------------------------------------------------------------- who is there -- */

void run_log_cancel_turns(run_log *log)
{
    for (size_t i = 0; i < log->n_turns; i++)
        run_cancel(log->turns[i]);
}

void run_log_cancel(run_log *log)
{
    pthread_mutex_lock(&log->lock);
    run_log_cancel_turns(log);
    pthread_mutex_unlock(&log->lock);
}

static void attach(run_log *log)
{
    log->attached++;
    log->detached_ns = 0;
}

static void detach(run_log *log)
{
    const base_clock *clock = log->all->config.clock;
    if (--log->attached || log->background || log->ended)
        return;
    if (log->cancels || log->all->config.detach_ns <= 0) {
        run_log_cancel_turns(log);
        return;
    }
    log->detached_ns = clock->monotonic_ns(clock->context);
    metric_add(log->all->detached, 1);
    for (size_t i = 0; i < log->n_turns; i++)
        run_demote(log->turns[i]);
}

bool run_log_stays(const run_log *log)
{
    return log->background || (!log->cancels && log->all->config.detach_ns > 0);
}

void run_log_leave(run_log *log)
{
    pthread_mutex_lock(&log->lock);
    detach(log);
    pthread_mutex_unlock(&log->lock);
}

void run_log_touch(run_log *log)
{
    const base_clock *clock = log->all->config.clock;
    pthread_mutex_lock(&log->lock);
    if (log->detached_ns)
        log->detached_ns = clock->monotonic_ns(clock->context);
    pthread_mutex_unlock(&log->lock);
}

/* ------------------------------------------------------------------- asking -- */

const char *run_log_id(const run_log *log)
{
    return log->id;
}

int64_t run_log_created(const run_log *log)
{
    return log->created_ms;
}

bool run_log_is_background(const run_log *log)
{
    return log->background;
}

bool run_log_is_stored(const run_log *log)
{
    return log->stored;
}

const char *run_log_tenant(const run_log *log)
{
    return log->tenant;
}

const char *run_log_hash(const run_log *log)
{
    return log->hash;
}

bool run_log_is_running(run_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool running = !log->ended;
    pthread_mutex_unlock(&log->lock);
    return running;
}

bool run_log_is_queued(run_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool queued = !log->ended && !log->in_progress;
    pthread_mutex_unlock(&log->lock);
    return queued;
}

run_request *run_log_request(run_log *log)
{
    pthread_mutex_lock(&log->lock);
    run_request *request = log->request ? run_request_retain(log->request) : NULL;
    pthread_mutex_unlock(&log->lock);
    return request;
}

run_record *run_log_record(run_log *log)
{
    pthread_mutex_lock(&log->lock);
    run_record *record = log->records[0] ? run_record_retain(log->records[0]) : NULL;
    pthread_mutex_unlock(&log->lock);
    return record;
}

void run_log_tally(run_log *log, run_tally *seen, run_tally *dropped)
{
    pthread_mutex_lock(&log->lock);
    *seen = log->seen;
    *dropped = log->gone ? log->seen : log->lost;
    pthread_mutex_unlock(&log->lock);
}

/* ------------------------------------------------------------------ reading -- */

run_reader *run_reader_open(run_log *log, run_tally *skipped)
{
    run_reader *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->log = run_log_retain(log);
    metric_add(log->all->reads, 1);
    pthread_mutex_lock(&log->lock);
    *skipped = log->lost;
    r->at = log->dropped;
    r->next = log->readers;
    log->readers = r;
    attach(log);
    pthread_mutex_unlock(&log->lock);
    return r;
}

void run_reader_give(run_reader *r, run_record *record)
{
    pthread_mutex_lock(&r->log->lock);
    if (!r->record)
        r->record = run_record_retain(record);
    pthread_mutex_unlock(&r->log->lock);
}

void run_reader_on_wake(run_reader *r, void (*wake)(void *arg), void *arg)
{
    pthread_mutex_lock(&r->log->lock);
    r->wake = wake;
    r->arg = arg;
    pthread_mutex_unlock(&r->log->lock);
}

/* The event at the reader's place, with its record. */
static enum run_read read_one(run_reader *r, run_event **event)
{
    const run_log *log = r->log;
    size_t at = (size_t)(r->at - log->dropped), size = log->bytes.size;
    run_event *e = event_decode(log->bytes.data + at, size - at);
    if (!e)
        return READ_LOST;
    r->at += event_code_size(log->bytes.data + at, size - at);
    if (e->type == RUN_END || e->type == RUN_CHOICE_END) {
        run_record *record = e->choice < RUN_MAX_CHOICES ? log->records[e->choice] : NULL;
        record = record ? record : r->record;
        e->record = record ? run_record_retain(record) : NULL;
        r->over = e->type == RUN_END;
    }
    *event = e;
    return READ_EVENT;
}

enum run_read run_reader_next(run_reader *r, run_event **event)
{
    run_log *log = r->log;
    enum run_read got = READ_WAIT;
    pthread_mutex_lock(&log->lock);
    if (r->over)
        got = READ_OVER;
    else if (log->gone || r->at < log->dropped)
        got = READ_LOST;
    else if (r->at - log->dropped < log->bytes.size)
        got = read_one(r, event);
    r->waiting = got == READ_WAIT;
    pthread_mutex_unlock(&log->lock);
    return got;
}

void run_reader_close(run_reader *r)
{
    if (!r)
        return;
    run_log *log = r->log;
    pthread_mutex_lock(&log->lock);
    run_reader **at = &log->readers;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    detach(log);
    pthread_mutex_unlock(&log->lock);
    run_record_release(r->record);
    run_log_release(log);
    free(r);
}
