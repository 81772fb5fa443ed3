/*
 * store/kv_writer.c - the thread that writes kv.db, and the only one that checkpoints it.
 *
 * SQLite before 3.51.3 loses pages when one connection commits while another checkpoints
 * and resets the log. That race is within one database, so kv.db has one such thread and
 * connection of its own, as pawl.db has the store thread's; those that read are read-only.
 *
 *     loop:  wait for work -> rate limit -> log small enough? -> one pass (kv_pass.c)
 *
 * The log: copied and begun anew from 6 MiB; if a reader stands in it, writing goes on up to
 * 12 MiB and then waits. A pass adds at most 16 MiB, so that with its log kv.db never takes
 * more than KV_LOG_SPARE beyond its budget. Emptied after a second's rest.
 *
 * Errors are told once when they begin and once when they end; meanwhile the disk tier is
 * suspended: what is queued stays in memory if there is room, what is on disk is still read.
 *     no space       the connection stays; tried again after retry_ms, then ever later
 *     disk error     the connection is closed; later opened again, its log emptied, and what
 *                    kv.db holds is compared with the index
 *     damaged file   deleted and made anew at once; the index forgets what was on disk
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "store/folder.h"

#define LOG_COPY ((uint64_t)6 << 20)
#define LOG_STOP ((uint64_t)12 << 20)
#define FRAME (KV_DB_PAGE + 24) /* of the log */
#define REST_NS INT64_C(1000000000)
#define USES_NS INT64_C(60000000000)
#define CLOSE_NS INT64_C(5000000000) /* what is queued has so long at the end */
#define WAIT_NS INT64_C(10000000)    /* for a reader that stands in the log   */
#define MOST_BACKOFF 12              /* times retry_ms: a minute, by default */
#define WRITER_BUSY_MS 100

/* ------------------------------------------------------------------ loading --- */

static bool is_doomed(const kv *k, int64_t id)
{
    for (uint32_t i = 0; i < k->n_doomed; i++) {
        if (k->doomed[i] == id)
            return true;
    }
    return false;
}

static void refuse(void *context, int64_t id)
{
    kv *k = context;
    kv_entry row = {.id = id};
    kv_lock(k);
    kv_count_by(k, KV_DAMAGED, 1);
    kv_doom(k, &row);
    kv_unlock(k);
}

/* A row of a chunk that the index does not know. Locked. False: it cannot be reached. */
static bool adopt(kv *k, const kv_row *row)
{
    kv_entry *e;
    int64_t now = kv_now_ms(k);
    kv_chunk chunk = kv_db_chunk_of(row);
    if (kv_index_add(&k->index, &chunk, now, &e) != PAWL_OK)
        return false;
    e->hits = row->hits;
    e->heat = row->heat;
    e->used_ms = row->used_ms < now ? row->used_ms : now;
    e->superseded = e->superseded && e->hits <= 1;
    kv_index_set_disk(&k->index, e, row->id, kv_db_footprint(row->size, row->n_tokens));
    return true;
}

static void take(void *context, const kv_row *row)
{
    static const kv_key zero;
    kv *k = context;
    uint32_t loading = k->writer.loading;
    kv_lock(k);
    kv_entry *e = kv_index_find(&k->index, &row->key);
    const kv_entry *parent = kv_index_find(&k->index, &row->parent);
    bool root = memcmp(&row->parent, &zero, sizeof zero) == 0;
    bool good = root || (parent && parent->id && parent->seen == loading);
    if (good && e)
        good = e->id == row->id;
    else if (good)
        good = !is_doomed(k, row->id) && adopt(k, row);
    if (good) {
        e = kv_index_find(&k->index, &row->key);
        e->sum = row->sum;
        e->seen = loading;
    } else if (!is_doomed(k, row->id)) {
        kv_entry lost = {.id = row->id};
        kv_doom(k, &lost);
    }
    kv_unlock(k);
}

static pawl_status load(kv *k, pawl_error *error)
{
    kv_writer *w = &k->writer;
    uint64_t n;
    int64_t next_id;
    w->loading++;
    pawl_status status = kv_db_load(&w->db, take, refuse, k, &next_id, error);
    if (!status)
        status = kv_db_sweep(&w->db, next_id, &n, error);
    if (status)
        return status;
    if (w->next_id < next_id) /* an id that is doomed is not given again */
        w->next_id = next_id;
    kv_lock(k);
    kv_index_forget(&k->index, w->loading);
    kv_index_rank_loaded(&k->index);
    kv_unlock(k);
    return PAWL_OK;
}

/* --------------------------------------------------------------- connection --- */

static int on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((kv_writer *)context)->log_bytes = (uint64_t)pages * FRAME;
    return SQLITE_OK;
}

static void disconnect(kv *k)
{
    if (k->writer.open)
        kv_db_close(&k->writer.db);
    k->writer.open = false;
    kv_pool_renew(&k->pool);
}

static pawl_status connect_once(kv *k, pawl_error *error)
{
    kv_writer *w = &k->writer;
    pawl_status status = folder_own_file(k->path, error);
    if (!status)
        status = kv_db_open(k->path, &w->db, error);
    if (status)
        return status;
    w->open = true;
    w->log_unsafe = true;
    w->log_bytes = 0;
    w->shrinking = true;
    sqlite3_busy_timeout(w->db.db, WRITER_BUSY_MS);
    sqlite3_wal_hook(w->db.db, on_commit, w);
    status = db_checkpoint(w->db.db, SQLITE_CHECKPOINT_TRUNCATE, error);
    w->log_unsafe = status != PAWL_OK;
    if (status == PAWL_E_BUSY)
        status = PAWL_OK; /* a reader stands in it: before the first pass */
    if (!status)
        status = load(k, error);
    if (status)
        disconnect(k);
    else
        kv_pool_renew(&k->pool);
    return status;
}

/* Opens and loads kv.db; one that is no good is replaced. */
static pawl_status connect_to_file(kv *k, pawl_error *error)
{
    pawl_error why = {.struct_size = sizeof why};
    pawl_status status = connect_once(k, &why);
    if (status == PAWL_E_FORMAT) {
        log_write(PAWL_LOG_WARN, "store", "%s", why.message);
        kv_lock(k);
        k->n_doomed = 0;
        kv_index_forget(&k->index, ++k->writer.loading);
        kv_unlock(k);
        kv_db_set_aside(k->path);
        status = connect_once(k, &why);
    }
    if (status && error)
        *error = why;
    return status;
}

/* PAWL_E_BUSY: a reader stands in the log and it is large. */
static pawl_status tend_log(kv *k, pawl_error *error)
{
    kv_writer *w = &k->writer;
    if (!w->log_unsafe && w->log_bytes < LOG_COPY)
        return PAWL_OK;
    int mode = w->log_unsafe ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_RESTART;
    pawl_status status = db_checkpoint(w->db.db, mode, error);
    if (status == PAWL_OK) {
        w->log_unsafe = false;
        w->log_bytes = 0;
    }
    if (status == PAWL_E_BUSY && !w->log_unsafe && w->log_bytes < LOG_STOP)
        status = PAWL_OK;
    return status;
}

/* ------------------------------------------------------------------- errors --- */

static void suspend(kv *k)
{
    kv_writer *w = &k->writer;
    kv_lock(k);
    k->suspended = true;
    k->retry_ns = kv_monotonic_ns() + (int64_t)w->backoff_ms * 1000000;
    kv_unlock(k);
    uint32_t most = MOST_BACKOFF * k->config.retry_ms;
    w->backoff_ms = 2 * w->backoff_ms < most ? 2 * w->backoff_ms : most;
}

static void on_error(kv *k, pawl_status status, const pawl_error *why)
{
    kv_writer *w = &k->writer;
    if (!w->failing)
        log_write(PAWL_LOG_ERROR, "store", "prefix chunks stay in memory only: %s", why->message);
    w->failing = true;
    kv_lock(k);
    k->suspended = true; /* before the queue is emptied: nothing more comes */
    kv_unlock(k);
    kv_pass_give_up(k);
    if (status != PAWL_E_LIMIT && status != PAWL_E_BUSY)
        disconnect(k);
    w->log_unsafe = w->log_unsafe || status == PAWL_E_LIMIT; /* emptied, it gives space back */
    suspend(k);
    if (status != PAWL_E_FORMAT)
        return;
    kv_lock(k); /* it is replaced at once */
    k->retry_ns = 0;
    kv_index_forget(&k->index, ++w->loading);
    k->n_doomed = 0;
    kv_unlock(k);
    kv_db_set_aside(k->path);
}

static void on_success(kv *k)
{
    kv_writer *w = &k->writer;
    if (w->failing)
        log_write(PAWL_LOG_INFO, "store", "%s: writing works again", k->path);
    w->failing = false;
    w->backoff_ms = k->config.retry_ms;
}

/* The time is up: is the disk well again? */
static void resume(kv *k)
{
    pawl_error why = {.struct_size = sizeof why};
    pawl_status status = k->writer.open ? PAWL_OK : connect_to_file(k, &why);
    if (status) {
        on_error(k, status == PAWL_E_FORMAT ? PAWL_E_DEVICE : status, &why);
        return;
    }
    kv_lock(k);
    k->suspended = false;
    kv_unlock(k);
}

/* ------------------------------------------------------------------- thread --- */

/* Locked. */
static bool has_work(const kv *k)
{
    const kv_writer *w = &k->writer;
    int64_t now = kv_monotonic_ns();
    if (k->suspended)
        return now >= k->retry_ns && !k->closing;
    return k->queue_first || w->current || k->n_doomed > 0 || w->shrinking ||
           (k->index.touched && (now >= w->flush_ns || k->closing));
}

/* Locked; wakes at the time, or when something comes. */
static void wait_until(kv *k, int64_t ns)
{
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    pthread_cond_timedwait(&k->work, &k->lock, &t);
}

static void wait_for_rate(kv *k)
{
    kv_writer *w = &k->writer;
    kv_lock(k);
    int64_t now = kv_monotonic_ns();
    if (w->tokens_ns < now)
        w->tokens_ns = now;
    while (k->queue_first && !k->closing && kv_monotonic_ns() < w->tokens_ns)
        wait_until(k, w->tokens_ns);
    kv_unlock(k);
}

static void work_once(kv *k)
{
    kv_writer *w = &k->writer;
    pawl_error why = {.struct_size = sizeof why};
    bool more = false, uses = kv_monotonic_ns() >= w->flush_ns;
    wait_for_rate(k);
    pawl_status status = tend_log(k, &why);
    if (status == PAWL_E_BUSY) {
        kv_lock(k);
        wait_until(k, kv_monotonic_ns() + WAIT_NS);
        kv_unlock(k);
        return;
    }
    if (!status)
        status = kv_pass(k, &more, &why);
    if (status) {
        on_error(k, status, &why);
        return;
    }
    if (uses)
        w->flush_ns = kv_monotonic_ns() + USES_NS;
    on_success(k);
}

/* The log is copied and emptied, so that the next start is quick. */
static void rest(kv *k)
{
    kv_writer *w = &k->writer;
    pawl_error why = {.struct_size = sizeof why};
    if (!w->open || w->log_bytes == 0)
        return;
    pawl_status status = db_checkpoint(w->db.db, SQLITE_CHECKPOINT_TRUNCATE, &why);
    if (status == PAWL_OK)
        w->log_bytes = 0;
    else if (status != PAWL_E_BUSY)
        on_error(k, status, &why);
}

enum step { WORK, RESUME, REST, STOP };

/* Waits for it. Locked. */
static enum step next_step(kv *k, int64_t *end)
{
    kv_writer *w = &k->writer;
    int64_t rested = kv_monotonic_ns() + REST_NS;
    for (;;) {
        int64_t now = kv_monotonic_ns();
        if (k->closing && *end == 0)
            *end = now + CLOSE_NS;
        k->busy = has_work(k) && (*end == 0 || now < *end);
        if (k->busy)
            return k->suspended ? RESUME : WORK;
        pthread_cond_broadcast(&k->quiet);
        if (k->closing)
            return STOP;
        if (w->log_bytes > 0 && now >= rested)
            return REST;
        int64_t until = now + USES_NS;
        if (w->log_bytes > 0 && rested < until)
            until = rested;
        if (k->suspended && k->retry_ns < until)
            until = k->retry_ns;
        wait_until(k, until);
    }
}

static void *writer_thread(void *context)
{
    kv *k = context;
    int64_t end = 0;
    enum step step;
    kv_lock(k);
    while ((step = next_step(k, &end)) != STOP) {
        kv_unlock(k);
        if (step == WORK)
            work_once(k);
        else if (step == RESUME)
            resume(k);
        else
            rest(k);
        kv_lock(k);
    }
    kv_unlock(k);
    return NULL;
}

pawl_status kv_writer_open(kv *k, pawl_error *error)
{
    kv_writer *w = &k->writer;
    pawl_error why = {.struct_size = sizeof why};
    w->backoff_ms = k->config.retry_ms;
    w->flush_ns = kv_monotonic_ns() + USES_NS;
    pawl_status status = connect_to_file(k, &why);
    if (status == PAWL_E_UNSUPPORTED || status == PAWL_E_MEMORY) {
        if (error)
            *error = why;
        return status;
    }
    if (status)
        on_error(k, PAWL_E_DEVICE, &why); /* memory only, until the disk is well */
    return PAWL_OK;
}

pawl_status kv_writer_start(kv *k, pawl_error *error)
{
    sigset_t all, before;
    k->busy = true;   /* kv_flush() waits until it has looked around */
    sigfillset(&all); /* signals are the main thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&k->writer.thread, NULL, writer_thread, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    k->started = rc == 0;
    if (rc != 0)
        return pawl_fail(error, PAWL_E_MEMORY, "the thread that writes kv.db cannot be started: %s",
                         strerror(rc));
    pthread_setname_np(k->writer.thread, "pawl-kv");
    return PAWL_OK;
}

void kv_writer_close(kv *k)
{
    kv_pass_give_up(k);
    rest(k);
    disconnect(k);
}
