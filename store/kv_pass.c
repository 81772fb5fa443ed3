/*
 * store/kv_pass.c - one transaction of the writer thread.
 *
 *     BEGIN -> rows that were doomed go -> chunks come: for each, the ones that rank lowest
 *       go until it fits, its pieces, its row -> uses -> free pages go, if the file is too
 *       large -> COMMIT -> only now is what it wrote on disk, for the index
 *
 * A pass is small (about 8 MiB and 64 deletions), so that the log is. A chunk that is larger
 * is written by several; until its row is there, nobody sees its pieces. If a pass fails,
 * what it wrote is unknown: its rows are doomed, which harms nothing if they are not there,
 * and the chunks stay in memory if there is room.
 *
 * The budget counts pages of the file: those in use, and what is to come, must fit. Deleted
 * pages are used again before the file grows.
 *
 * Runs on the writer thread; takes the kv's lock for a moment each time it touches the index.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define MAX_BYTES (8u << 20)     /* payload at which no further piece is taken  */
#define MAX_DELETED 64           /* each touches a handful of pages             */
#define MAX_DONE 64              /* chunks                                      */
#define MAX_USES 1024            /* rows of 40 bytes                            */
#define SPARE_PAGES 8            /* inner pages of trees, lists of free pages   */
#define MAX_SPARE (256ull << 20) /* of the disk, that others have; or a quarter of it */
#define SHRINK_PAGES 128         /* given back to the file system at a time     */

typedef struct use {
    int64_t id, used_ms;
    uint64_t hits;
    double heat;
} use;

typedef struct pass {
    kv *k;
    uint64_t bytes;           /* of payload, written                          */
    uint32_t n_deleted;       /* of k->doomed, from the front                 */
    uint32_t n_done;          /* chunks whose row was written                 */
    kv_entry *done[MAX_DONE]; /* held                                         */
    int64_t ids[MAX_DONE];    /* of their rows                                */
    uint64_t sums[MAX_DONE];
    bool more; /* there is something left to do                */
    use uses[MAX_USES];
} pass;

enum room { ROOM, LATER, NEVER };

/* --------------------------------------------------------------- deleting --- */

static pawl_status delete_next(pass *p, pawl_error *error)
{
    kv *k = p->k;
    kv_lock(k);
    int64_t id = k->doomed[p->n_deleted++];
    kv_unlock(k);
    return kv_db_delete(&k->writer.db, id, error);
}

static bool has_doomed(pass *p)
{
    kv_lock(p->k);
    bool has = p->n_deleted < p->k->n_doomed;
    kv_unlock(p->k);
    return has;
}

static bool evict(kv *k, const kv_tenant *tenant)
{
    kv_lock(k);
    bool evicted = kv_evict_disk(k, tenant);
    kv_unlock(k);
    return evicted;
}

static pawl_status delete_doomed(pass *p, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    while (!status && p->n_deleted < MAX_DELETED && has_doomed(p))
        status = delete_next(p, error);
    p->more = p->more || has_doomed(p);
    return status;
}

/* -------------------------------------------------------------------- room --- */

/* Pages that a file of so many may come to have: its budget's, and no more than leaves the
 * disk some space for others, for the turns in pawl.db first. What is written goes through the
 * log, so it takes its space twice; the log's own is used again. *tight: there is less left. */
static uint64_t most_pages(const kv *k, uint64_t pages, bool *tight)
{
    uint64_t budget = k->config.disk_bytes / KV_DB_PAGE;
    struct statvfs disk;
    *tight = false;
    if (statvfs(k->path, &disk) != 0 || disk.f_blocks == 0)
        return budget;
    uint64_t spare = disk.f_blocks / 4 * disk.f_frsize, left = disk.f_bavail * disk.f_frsize;
    uint64_t files = kv_file_bytes(k), file = pages * KV_DB_PAGE;
    left += files > file ? files - file : 0;
    spare = spare < MAX_SPARE ? spare : MAX_SPARE;
    *tight = left < spare;
    uint64_t change = (*tight ? spare - left : (left - spare) / 2) / KV_DB_PAGE;
    uint64_t most = *tight ? pages - (change < pages ? change : pages) : pages + change;
    return most < budget ? most : budget;
}

/* Whether the tenant's quota, then the tier's budget, has room for it; evicts meanwhile. */
static pawl_status find_room(pass *p, const kv_entry *e, enum room *room, pawl_error *error)
{
    kv *k = p->k;
    uint64_t need = kv_db_footprint(e->size, e->n_tokens), pages = 0, n_free = 0;
    uint64_t quota = k->config.tenant_disk_bytes ? k->config.tenant_disk_bytes : UINT64_MAX;
    for (;;) {
        pawl_status status = kv_db_pages(&k->writer.db, &pages, &n_free, error);
        if (status)
            return status;
        uint64_t need_pages = need / KV_DB_PAGE + SPARE_PAGES + need / KV_DB_PAGE / 512;
        bool tight, fits = pages - n_free + need_pages <= most_pages(k, pages, &tight);
        kv_lock(k);
        bool in_quota = e->tenant->bytes[KV_DISK] + need <= quota;
        kv_unlock(k);
        *room = ROOM;
        if (fits && in_quota)
            return PAWL_OK;
        *room = LATER;
        if (p->n_deleted >= MAX_DELETED)
            return PAWL_OK;
        *room = NEVER;
        if (!has_doomed(p) && !evict(k, in_quota ? NULL : e->tenant))
            return PAWL_OK;
        status = delete_next(p, error);
        if (status)
            return status;
    }
}

/* ------------------------------------------------------------------ chunks --- */

/* What was queued for disk and will not go there. Locked. */
static void give_up(kv *k, kv_entry *e, int64_t id)
{
    if (id) {
        int64_t before = e->id;
        e->id = id; /* pieces of it may be there */
        kv_doom(k, e);
        e->id = before;
    }
    k->queued_bytes -= e->size;
    kv_count_by(k, KV_DROPPED, e->gone ? 0 : 1);
    if (!e->gone)
        kv_index_clear_disk(&k->index, e);
    kv_index_release(&k->index, e);
}

static void drop_current(kv *k)
{
    kv_writer *w = &k->writer;
    kv_lock(k);
    give_up(k, w->current, w->piece > 0 ? w->current_id : 0);
    kv_make_room(k, NULL, 0);
    kv_unlock(k);
    w->current = NULL;
}

/* The next one that is still wanted and whose parent goes to the disk too. Locked. */
static kv_entry *pop(kv *k)
{
    while (k->queue_first) {
        kv_entry *e = k->queue_first;
        k->queue_first = e->queued_next;
        if (!k->queue_first)
            k->queue_last = &k->queue_first;
        e->queued_next = NULL;
        if (!e->gone && (!e->parent || e->parent->for_disk))
            return e;
        give_up(k, e, 0);
    }
    return NULL;
}

static void drop_if_gone(kv *k)
{
    kv_lock(k);
    bool gone = k->writer.current && k->writer.current->gone;
    kv_unlock(k);
    if (gone)
        drop_current(k);
}

static bool take_next(kv *k)
{
    kv_writer *w = &k->writer;
    if (w->current)
        return true;
    kv_lock(k);
    w->current = pop(k);
    kv_unlock(k);
    w->piece = 0;
    return w->current != NULL;
}

static pawl_status write_row(pass *p, pawl_error *error)
{
    kv *k = p->k;
    kv_writer *w = &k->writer;
    kv_row row;
    kv_lock(k); /* it is held, its parent and its use may change */
    bool gone = w->current->gone;
    kv_db_row_of(w->current, w->current_id, &row);
    use u = {w->current_id, w->current->used_ms, w->current->hits, w->current->heat};
    kv_unlock(k);
    if (gone) {
        drop_current(k);
        return PAWL_OK;
    }
    row.sum = kv_sum_end(&w->sum);
    pawl_status status = kv_db_put_row(&w->db, &row, error);
    if (!status)
        status = kv_db_put_used(&w->db, u.id, u.hits, u.heat, u.used_ms, error);
    if (status)
        return status;
    p->ids[p->n_done] = row.id;
    p->sums[p->n_done] = row.sum;
    p->done[p->n_done++] = w->current;
    w->current = NULL;
    return PAWL_OK;
}

static void begin_current(kv *k)
{
    kv_writer *w = &k->writer;
    kv_row row;
    w->current_id = w->next_id++;
    kv_lock(k);
    kv_db_row_of(w->current, w->current_id, &row);
    kv_unlock(k);
    kv_db_sum_row(&w->sum, &row);
}

static pawl_status write_piece(pass *p, pawl_error *error)
{
    kv_writer *w = &p->k->writer;
    const kv_entry *e = w->current;
    uint64_t begin = (uint64_t)w->piece * KV_DB_PIECE, size = e->size - begin;
    const uint8_t *data = e->payload; /* stays where it is while it is held */
    size = size < KV_DB_PIECE ? size : KV_DB_PIECE;
    kv_sum_add(&w->sum, data + begin, size);
    pawl_status status =
        kv_db_put_piece(&w->db, w->current_id, w->piece, data + begin, size, error);
    w->piece++;
    p->bytes += size;
    if (!status && begin + size == e->size)
        status = write_row(p, error);
    return status;
}

/* The pieces of one that is given up go before any chunk of a higher id comes: loading takes
 * for unfinished what is above all chunks. */
static pawl_status write_chunks(pass *p, pawl_error *error)
{
    kv *k = p->k;
    while (p->bytes < MAX_BYTES && p->n_done < MAX_DONE) {
        enum room room = ROOM;
        drop_if_gone(k);
        pawl_status status = delete_doomed(p, error);
        if (status)
            return status;
        if (p->n_deleted >= MAX_DELETED)
            break;
        if (!take_next(k))
            return PAWL_OK;
        if (k->writer.piece == 0) {
            status = find_room(p, k->writer.current, &room, error);
            if (status)
                return status;
            if (room == LATER)
                break;
            if (room == NEVER) {
                drop_current(k);
                continue;
            }
            begin_current(k);
        }
        status = write_piece(p, error);
        if (status)
            return status;
    }
    p->more = true;
    return PAWL_OK;
}

/* ------------------------------------------------------------ uses, shrinking --- */

static pawl_status write_uses(pass *p, pawl_error *error)
{
    kv *k = p->k;
    kv_writer *w = &k->writer;
    uint32_t n = 0;
    pawl_status status = PAWL_OK;
    kv_lock(k);
    if (kv_monotonic_ns() < w->flush_ns && !k->closing) {
        kv_unlock(k);
        return PAWL_OK;
    }
    while (k->index.touched && n < MAX_USES) {
        kv_entry *e = k->index.touched;
        p->uses[n++] = (use){e->id, e->used_ms, e->hits, e->heat};
        kv_index_untouch(&k->index, e);
    }
    p->more = p->more || k->index.touched != NULL;
    kv_unlock(k);
    for (uint32_t i = 0; i < n && !status; i++)
        status = kv_db_put_used(&w->db, p->uses[i].id, p->uses[i].hits, p->uses[i].heat,
                                p->uses[i].used_ms, error);
    return status;
}

/* A budget that was lowered, or a disk that others have filled: chunks go, then the pages that
 * they leave. */
static pawl_status shrink(pass *p, pawl_error *error)
{
    kv *k = p->k;
    kv_writer *w = &k->writer;
    uint64_t pages = 0, n_free = 0;
    bool tight = false;
    pawl_status status = kv_db_pages(&w->db, &pages, &n_free, error);
    if (status)
        return status;
    uint64_t most = most_pages(k, pages, &tight);
    if (!w->shrinking && !tight)
        return PAWL_OK;
    while (pages - n_free > most && p->n_deleted < MAX_DELETED && evict(k, NULL)) {
        status = delete_next(p, error);
        if (!status)
            status = kv_db_pages(&w->db, &pages, &n_free, error);
        if (status)
            return status;
    }
    w->shrinking = pages > most && (n_free > 0 || p->n_deleted > 0);
    p->more = p->more || w->shrinking;
    if (!w->shrinking)
        return PAWL_OK;
    char sql[64];
    uint64_t excess = pages - most;
    snprintf(sql, sizeof sql, "PRAGMA incremental_vacuum(%u)",
             (unsigned)(excess < SHRINK_PAGES ? excess : SHRINK_PAGES));
    return db_exec(w->db.db, sql, error);
}

/* ------------------------------------------------------------------- ending --- */

static void finish(pass *p)
{
    kv *k = p->k;
    kv_lock(k);
    k->n_doomed -= p->n_deleted;
    if (p->n_deleted > 0)
        memmove(k->doomed, k->doomed + p->n_deleted, k->n_doomed * sizeof k->doomed[0]);
    for (uint32_t i = 0; i < p->n_done; i++) {
        kv_entry *e = p->done[i];
        if (e->gone) {
            give_up(k, e, p->ids[i]);
            continue;
        }
        k->queued_bytes -= e->size;
        e->sum = p->sums[i];
        e->seen = k->writer.loading;
        kv_index_set_disk(&k->index, e, p->ids[i], kv_db_footprint(e->size, e->n_tokens));
        kv_index_release(&k->index, e);
        kv_count_by(k, KV_WRITTEN, 1);
    }
    kv_count_by(k, KV_WRITTEN_BYTES, p->bytes);
    kv_make_room(k, NULL, 0);
    kv_unlock(k);
}

static void fail(pass *p)
{
    kv *k = p->k;
    sqlite3 *db = k->writer.db.db;
    if (!sqlite3_get_autocommit(db))
        db_exec(db, "ROLLBACK", NULL);
    kv_lock(k);
    for (uint32_t i = 0; i < p->n_done; i++)
        give_up(k, p->done[i], p->ids[i]);
    kv_unlock(k);
}

void kv_pass_give_up(kv *k)
{
    if (k->writer.current)
        drop_current(k);
    kv_lock(k);
    while (k->queue_first) {
        kv_entry *e = k->queue_first;
        k->queue_first = e->queued_next;
        e->queued_next = NULL;
        give_up(k, e, 0);
    }
    k->queue_last = &k->queue_first;
    kv_make_room(k, NULL, 0);
    kv_unlock(k);
}

pawl_status kv_pass(kv *k, bool *more, pawl_error *error)
{
    kv_writer *w = &k->writer;
    pass *p = calloc(1, sizeof *p);
    if (!p)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to write prefix chunks");
    p->k = k;
    pawl_status status = db_exec(w->db.db, "BEGIN IMMEDIATE", error);
    if (!status)
        status = write_chunks(p, error);
    if (!status)
        status = write_uses(p, error);
    if (!status)
        status = shrink(p, error);
    if (!status)
        status = db_exec(w->db.db, "COMMIT", error);
    if (status)
        fail(p);
    else
        finish(p);
    w->tokens_ns += (int64_t)((double)p->bytes * 1e9 / (double)k->config.write_bytes_second);
    *more = p->more;
    free(p);
    return status;
}
