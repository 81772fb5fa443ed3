/*
 * store/writer.c - the store thread: the one connection that writes.
 *
 * Group commit: whatever is queued when the thread comes back from the disk is one
 * transaction, so that the price of a flush is shared by all who wait for it. Each
 * write has a savepoint of its own: one that is refused leaves the others alone.
 *
 *     pop one, and what else is there -> BEGIN -> each: SAVEPOINT, apply, RELEASE
 *       -> COMMIT (flushed) -> done() of each -> checkpoint, if the log has grown
 *
 * Errors that SQLite itself reports may have ended the transaction. Then it is
 * rolled back and each write of the group is tried alone, so that one that is too
 * large for the disk does not take the small ones with it; unless it was COMMIT
 * that failed: then nobody can say what is on the disk, and all are told so.
 *
 * After a disk error nothing the connection believes is believed any more, and
 * Linux forgets pages that it could not write. The connection is closed; before the
 * next write it is opened again and the log is copied into the database and emptied,
 * so that no later commit stands on pages that may not be there. Those who read are
 * not concerned: they see what was committed, and that had been flushed.
 * A full disk is no such error: it goes on when there is space.
 *
 * A writer belongs to sqlite_store.c. Members marked [store] are the thread's own,
 * and the opener's until the thread starts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/writer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/queue.h"
#include "store/talks.h"
#include "store/record.h"

#define MAX_GROUP 64                /* writes in one transaction                     */
#define MAX_GROUP_BYTES (32u << 20) /* their memory, at which no more are taken      */
#define COPY_PAGES 1000             /* log pages from which it is copied after a commit */
#define EMPTY_PAGES 16384           /* log pages (64 MiB) from which it is emptied   */
#define IDLE_MS 1000                /* a log that nobody adds to is copied after this */

enum operation_kind { PUT, REMOVE, TALK_PUT, TALK_REMOVE, KEY_ADD, KEY_MARK, APPLY };

/* One write on its way. */
typedef struct operation {
    enum operation_kind kind;
    store_response *put;        /* of PUT, owned                    */
    store_conversation *talk;   /* of TALK_PUT, owned               */
    char id[RECORD_MAX_ID + 1]; /* of REMOVE, TALK_REMOVE, KEY_MARK */
    store_key key;              /* of KEY_ADD                       */
    enum store_key_mark mark;   /* of KEY_MARK                      */
    int64_t when_ms;            /* likewise                         */
    writer_apply apply;         /* of APPLY                         */
    void *what;                 /* likewise, owned                  */
    size_t size;                /* bytes it counts for              */
    store_done done;            /* may be NULL                      */
    void *arg;                  /* for done                         */
    pawl_status status;         /* how it ended                     */
    pawl_error error;           /* and why, if it failed            */
} operation;

/* What is measured; NULL each where nothing is. */
typedef struct measures {
    metric *written; /* operations by how they ended */
    metric *failed;
    metric *commit_time; /* of a group, with its flush */
    metric *queued;      /* on asking, like the next   */
    metric *log_bytes;
} measures;

struct writer {
    char *path;                 /* of the database                                */
    queue *queue;               /* of operation *                                 */
    keys *keys;                 /* borrowed: what is committed is learned         */
    atomic_size_t queued_bytes; /* what they and the group under way count for    */
    atomic_bool closing;        /* nothing more is taken                          */
    pthread_t thread;           /* the store thread                               */
    sqlite3 *db;                /* [store] NULL after a disk error, until reopened */
    responses rows;             /* [store] its statements                         */
    talks talks;                /* [store] and these                              */
    bool log_unsafe;            /* [store] the log must be emptied before a write */
    bool failing;               /* [store] the last group met an error: said once */
    int log_pages;              /* [store] in the log after the last commit       */
    bool log_copied;            /* [store] all of them are in the database too    */
    measures measures;
};

/* ------------------------------------------------------------- measures --- */

static void collect(void *context)
{
    const writer *w = context;
    metric_set(w->measures.queued, (double)queue_size(w->queue));
    metric_set(w->measures.log_bytes, (double)file_size(w->path, "-wal"));
}

static void open_measures(writer *w, metrics *all)
{
    static const metric_spec writes = {
        METRIC_COUNTER, "pawl_store_writes_total", "Writes by how they ended.", {"outcome"}, NULL};
    static const metric_spec commits = {METRIC_HISTOGRAM,
                                        "pawl_store_commit_seconds",
                                        "Time of a transaction, until it is on the disk.",
                                        {0},
                                        &metric_seconds};
    static const metric_spec queued = {
        METRIC_GAUGE, "pawl_store_write_queue", "Writes that wait.", {0}, NULL};
    static const metric_spec log = {
        METRIC_GAUGE, "pawl_store_wal_bytes", "Size of the write-ahead log.", {0}, NULL};
    w->measures.written = metric_with(metrics_family(all, &writes), "written", NULL);
    w->measures.failed = metric_with(metrics_family(all, &writes), "failed", NULL);
    w->measures.commit_time = metrics_single(all, &commits);
    w->measures.queued = metrics_single(all, &queued);
    w->measures.log_bytes = metrics_single(all, &log);
    metrics_on_write(all, collect, w);
}

/* ----------------------------------------------------------- connection --- */

static int on_commit(void *context, sqlite3 *db, const char *name, int pages)
{
    writer *w = context;
    (void)db;
    (void)name;
    w->log_pages = pages;
    w->log_copied = false;
    return SQLITE_OK;
}

static void disconnect(writer *w)
{
    talks_close(&w->talks);
    responses_close(&w->rows);
    db_close(w->db); /* the last one to go copies the log and deletes it */
    w->db = NULL;
}

static void empty_log(writer *w)
{
    pawl_error error;
    if (db_checkpoint(w->db, SQLITE_CHECKPOINT_TRUNCATE, &error) == PAWL_OK) {
        w->log_unsafe = false;
        w->log_copied = true;
        w->log_pages = 0;
    } else {
        log_write(PAWL_LOG_WARN, "store", "the log could not be emptied: %s", error.message);
    }
}

static pawl_status connect(writer *w, pawl_error *error)
{
    pawl_status status = db_open_writer(w->path, &responses_kind, &w->db, error);
    if (status)
        return status;
    w->log_unsafe = true;
    sqlite3_wal_hook(w->db, on_commit, w);
    status = responses_open(&w->rows, w->db, true, error);
    if (!status)
        status = talks_open(&w->talks, &w->rows, true, error);
    if (status)
        disconnect(w);
    return status;
}

/* The connection as a write needs it. */
static pawl_status ready(writer *w, pawl_error *error)
{
    pawl_status status = w->db ? PAWL_OK : connect(w, error);
    if (!status && w->log_unsafe)
        empty_log(w);
    if (!status && w->log_unsafe)
        status = pawl_fail(error, PAWL_E_BUSY,
                           "%s: after a disk error its log cannot be emptied yet; retry", w->path);
    return status;
}

/* After a group: keeps the log small. */
static void tend_log(writer *w, bool idle)
{
    pawl_error error;
    if (!w->db || w->log_copied)
        return;
    if (w->log_pages >= EMPTY_PAGES) {
        empty_log(w);
    } else if (idle || w->log_pages >= COPY_PAGES) {
        if (db_checkpoint(w->db, SQLITE_CHECKPOINT_PASSIVE, &error) != PAWL_OK)
            log_write(PAWL_LOG_WARN, "store", "%s", error.message);
        w->log_copied = true; /* until the next commit: an idle thread does not spin */
    }
}

/* --------------------------------------------------------------- groups --- */

/* How a transaction ended. */
enum outcome {
    FINISHED,    /* committed; each operation holds its own status      */
    ROLLED_BACK, /* nothing was written, because of one of them         */
    UNKNOWN      /* COMMIT failed; each operation holds that            */
};

static void fail_all(operation **group, size_t n, pawl_status status, const pawl_error *error)
{
    for (size_t i = 0; i < n; i++) {
        group[i]->status = status;
        group[i]->error = *error;
    }
}

static pawl_status apply_one(writer *w, operation *op)
{
    switch (op->kind) {
    case PUT:
        return talks_put_response(&w->talks, op->put, &op->error);
    case REMOVE:
        return responses_remove(&w->rows, op->id, &op->error);
    case TALK_PUT:
        return talks_put(&w->talks, op->talk, &op->error);
    case TALK_REMOVE:
        return talks_remove(&w->talks, op->id, &op->error);
    case KEY_ADD:
        return keys_insert(w->db, &op->key, &op->error);
    case KEY_MARK:
        return keys_update(w->db, op->id, op->mark, op->when_ms, &op->error);
    case APPLY:
        return op->apply(w->db, op->what, &op->error);
    }
    return PAWL_E_INTERNAL;
}

/* Applies one. False: the transaction is lost or can no longer be trusted. */
static bool apply(writer *w, operation *op)
{
    op->status = db_exec(w->db, "SAVEPOINT one", &op->error);
    if (op->status)
        return false;
    op->status = apply_one(w, op);
    if (op->status == PAWL_E_DEVICE || sqlite3_get_autocommit(w->db))
        return false;
    if (op->status && db_exec(w->db, "ROLLBACK TO one", NULL))
        return false;
    return db_exec(w->db, "RELEASE one", NULL) == PAWL_OK;
}

static void roll_back(writer *w)
{
    if (!sqlite3_get_autocommit(w->db))
        db_exec(w->db, "ROLLBACK", NULL);
}

static enum outcome transact(writer *w, operation **group, size_t n)
{
    pawl_error error = {.struct_size = sizeof error};
    pawl_status status = ready(w, &error);
    if (!status)
        status = db_exec(w->db, "BEGIN IMMEDIATE", &error);
    if (status) {
        fail_all(group, n, status, &error);
        return UNKNOWN;
    }
    for (size_t i = 0; i < n; i++) {
        if (apply(w, group[i]))
            continue;
        roll_back(w);
        if (!group[i]->status)
            group[i]->status = pawl_fail(&group[i]->error, PAWL_E_INTERNAL,
                                         "%s: the transaction was lost", w->path);
        return ROLLED_BACK;
    }
    status = db_exec(w->db, "COMMIT", &error);
    if (!status)
        return FINISHED;
    roll_back(w);
    fail_all(group, n, status, &error);
    return UNKNOWN;
}

/* Says once that writing fails, and once that it is well again. */
static void report(writer *w, const operation *failed)
{
    if (failed && !w->failing)
        log_write(PAWL_LOG_ERROR, "store", "%s", failed->error.message);
    else if (!failed && w->failing)
        log_write(PAWL_LOG_INFO, "store", "%s: writing works again", w->path);
    w->failing = failed != NULL;
}

/* Brings every operation of the group to its status. */
static void run_group(writer *w, operation **group, size_t n)
{
    const base_clock *clock = clock_system();
    int64_t begin = clock->monotonic_ns(clock->context);
    enum outcome outcome = transact(w, group, n);
    metric_observe(w->measures.commit_time,
                   (double)(clock->monotonic_ns(clock->context) - begin) / 1e9);
    const operation *failed = NULL;
    bool device = false;
    for (size_t i = 0; i < n && outcome != FINISHED; i++) {
        if (group[i]->status) {
            failed = group[i];
            device = device || failed->status == PAWL_E_DEVICE;
        }
    }
    report(w, failed);
    if (device)
        disconnect(w); /* the next group, or the one below, connects again */
    if (outcome != ROLLED_BACK || n == 1)
        return;
    for (size_t i = 0; i < n; i++)
        run_group(w, &group[i], 1);
}

static void discard(operation *op)
{
    free(op->put);
    free(op->talk);
    free(op->what);
    free(op);
}

static void finish(writer *w, operation *op)
{
    metric_add(op->status ? w->measures.failed : w->measures.written, 1);
    if (op->status == PAWL_OK && op->kind == KEY_ADD)
        keys_learn(w->keys, &op->key);
    else if (op->status == PAWL_OK && op->kind == KEY_MARK)
        keys_learn_mark(w->keys, op->id, op->mark, op->when_ms);
    if (op->done)
        op->done(op->arg, op->status, op->status ? &op->error : NULL);
    atomic_fetch_sub(&w->queued_bytes, op->size);
    discard(op);
}

/* --------------------------------------------------------------- thread --- */

/* What is queued behind the first, as far as it fits into one transaction. */
static size_t gather(writer *w, operation *first, operation **group)
{
    size_t n = 1, bytes = first->size;
    group[0] = first;
    while (n < MAX_GROUP && bytes < MAX_GROUP_BYTES) {
        operation *more = queue_pop(w->queue, 0);
        if (!more)
            break;
        bytes += more->size;
        group[n++] = more;
    }
    return n;
}

static void *store_thread(void *context)
{
    writer *w = context;
    operation *group[MAX_GROUP];
    for (;;) {
        operation *first = queue_pop(w->queue, w->db && !w->log_copied ? IDLE_MS : -1);
        if (first) {
            size_t n = gather(w, first, group);
            run_group(w, group, n);
            for (size_t i = 0; i < n; i++)
                finish(w, group[i]);
        } else if (atomic_load(&w->closing) && queue_size(w->queue) == 0) {
            break;
        }
        tend_log(w, first == NULL);
    }
    return NULL;
}

static pawl_status start_thread(writer *w, pawl_error *error)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are the main thread's business */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&w->thread, NULL, store_thread, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return pawl_fail(error, PAWL_E_MEMORY, "the store thread cannot be started: %s",
                         strerror(rc));
    pthread_setname_np(w->thread, "pawl-store");
    return PAWL_OK;
}

static void release(writer *w)
{
    queue_free(w->queue);
    free(w->path);
    free(w);
}

pawl_status writer_open(const char *path, keys *known, metrics *all, writer **out,
                        pawl_error *error)
{
    writer *w = calloc(1, sizeof *w);
    if (!w)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", path);
    atomic_init(&w->queued_bytes, 0);
    atomic_init(&w->closing, false);
    w->keys = known;
    w->path = strdup(path);
    w->queue = queue_open(WRITER_MAX_QUEUED);
    pawl_status status = PAWL_OK;
    if (!w->path || !w->queue)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", path);
    if (!status)
        status = connect(w, error);
    if (!status) {
        empty_log(w); /* what a process that was killed has left */
        status = keys_load(known, w->db, error);
        if (!status) {
            open_measures(w, all);
            status = start_thread(w, error);
        }
        if (status)
            disconnect(w);
    }
    if (status) {
        release(w);
        return status;
    }
    *out = w;
    return PAWL_OK;
}

void writer_stop(writer *w)
{
    queue_close(w->queue); /* first: what was taken before will be found */
    atomic_store(&w->closing, true);
    pthread_join(w->thread, NULL);
}

void writer_close(writer *w)
{
    if (w->db)
        empty_log(w);
    disconnect(w);
    release(w);
}

/* -------------------------------------------------------------- any thread --- */

/* Takes the operation over, or frees it and says why it is not taken. */
static pawl_status enqueue(writer *w, operation *op, pawl_error *error)
{
    size_t before = atomic_fetch_add(&w->queued_bytes, op->size);
    size_t size = op->size;
    bool fits = before == 0 || before + size <= WRITER_MAX_BYTES;
    if (fits && queue_push(w->queue, op))
        return PAWL_OK;
    atomic_fetch_sub(&w->queued_bytes, size);
    discard(op);
    if (atomic_load(&w->closing))
        return pawl_fail(error, PAWL_E_BUSY, "the store is being closed");
    return pawl_fail(error, PAWL_E_BUSY, "the store has %d writes or %zu MiB waiting; retry soon",
                     WRITER_MAX_QUEUED, WRITER_MAX_BYTES >> 20);
}

static operation *new_operation(enum operation_kind kind, store_done done, void *arg)
{
    operation *op = calloc(1, sizeof *op);
    if (op) {
        op->kind = kind;
        op->size = sizeof *op;
        op->done = done;
        op->arg = arg;
        op->error.struct_size = sizeof op->error;
    }
    return op;
}

pawl_status writer_put(writer *w, const store_response *response, store_done done, void *arg,
                       pawl_error *error)
{
    size_t size = 0;
    operation *op = new_operation(PUT, done, arg);
    if (op)
        op->put = record_copy(response, &size);
    if (!op || !op->put) {
        free(op);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to store the response %s", response->id);
    }
    op->size += size;
    return enqueue(w, op, error);
}

static pawl_status enqueue_id(writer *w, enum operation_kind kind, const char *id, store_done done,
                              void *arg, pawl_error *error)
{
    operation *op = new_operation(kind, done, arg);
    if (!op)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to remove %s", id);
    strcpy(op->id, id);
    return enqueue(w, op, error);
}

pawl_status writer_remove(writer *w, const char *id, store_done done, void *arg, pawl_error *error)
{
    return enqueue_id(w, REMOVE, id, done, arg, error);
}

pawl_status writer_conversation_put(writer *w, const store_conversation *conversation,
                                    store_done done, void *arg, pawl_error *error)
{
    size_t size = 0;
    operation *op = new_operation(TALK_PUT, done, arg);
    if (op)
        op->talk = record_conversation_copy(conversation, &size);
    if (!op || !op->talk) {
        free(op);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to store the conversation %s",
                         conversation->id);
    }
    op->size += size;
    return enqueue(w, op, error);
}

pawl_status writer_conversation_remove(writer *w, const char *id, store_done done, void *arg,
                                       pawl_error *error)
{
    return enqueue_id(w, TALK_REMOVE, id, done, arg, error);
}

pawl_status writer_key_add(writer *w, const store_key *key, store_done done, void *arg,
                           pawl_error *error)
{
    operation *op = new_operation(KEY_ADD, done, arg);
    if (!op)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to add the key %s", key->id);
    op->key = *key;
    return enqueue(w, op, error);
}

pawl_status writer_key_mark(writer *w, const char *id, enum store_key_mark mark, int64_t when_ms,
                            store_done done, void *arg, pawl_error *error)
{
    operation *op = new_operation(KEY_MARK, done, arg);
    if (!op)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to change the key %s", id);
    strcpy(op->id, id);
    op->mark = mark;
    op->when_ms = when_ms;
    return enqueue(w, op, error);
}

pawl_status writer_do(writer *w, writer_apply how, void *what, size_t size, store_done done,
                      void *arg, pawl_error *error)
{
    operation *op = new_operation(APPLY, done, arg);
    if (!op) {
        free(what);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a write");
    }
    op->apply = how;
    op->what = what;
    op->size += size;
    return enqueue(w, op, error);
}
