/*
 * store/kv_check.c - kv.db while nobody serves from it. See kv_check.h.
 *
 *     integrity_check (SQLite's pages) -> rows, into an index of their own: links -> pieces:
 *     checksums -> pieces of nobody -> what is wrong is deleted, children with their parents
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "store/kv_db.h"

#define STEP (256u << 10) /* bytes read at a time         */
#define GROUP 64          /* deletions in one transaction */

typedef struct check {
    kv_check_report *report;
    kv_check_found found;
    void *arg;
    kv_db db;
    kv_index index;
    int64_t *doomed; /* rows to be deleted */
    size_t n_doomed, room;
    int64_t next_id;
    bool no_memory;
} check;

/* id 0: of the file. */
static void tell(const check *c, int64_t id, const char *what)
{
    char where[40] = KV_DB_NAME;
    if (!c->found)
        return;
    if (id)
        snprintf(where, sizeof where, "chunk %" PRId64, id);
    c->found(c->arg, where, what);
}

static void doom(check *c, int64_t id)
{
    if (c->n_doomed == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        int64_t *ids = realloc(c->doomed, room * sizeof *ids);
        c->no_memory = c->no_memory || !ids;
        if (!ids)
            return;
        c->doomed = ids;
        c->room = room;
    }
    c->doomed[c->n_doomed++] = id;
}

static void doom_entry(void *context, kv_entry *e)
{
    check *c = context;
    c->report->chunks--;
    c->report->bytes -= e->size;
    c->report->unreachable++; /* the first of them is counted as damaged instead */
    doom(c, e->id);
}

/* --------------------------------------------------------------------- rows --- */

static void take(void *context, const kv_row *row)
{
    check *c = context;
    kv_entry *e;
    kv_chunk chunk = kv_db_chunk_of(row);
    pawl_status status = kv_index_find(&c->index, &row->key)
                             ? PAWL_E_FORMAT
                             : kv_index_add(&c->index, &chunk, row->used_ms, &e);
    if (status) {
        c->no_memory = c->no_memory || status == PAWL_E_MEMORY;
        c->report->damaged += status != PAWL_E_NOT_FOUND;
        c->report->unreachable += status == PAWL_E_NOT_FOUND;
        tell(c, row->id,
             status == PAWL_E_NOT_FOUND ? "its parent is not there"
                                        : "there is another of its key");
        doom(c, row->id);
        return;
    }
    e->sum = row->sum;
    e->hits = row->hits;
    kv_index_set_disk(&c->index, e, row->id, row->size);
    c->report->chunks++;
    c->report->bytes += row->size;
}

static void refuse(void *context, int64_t id)
{
    check *c = context;
    c->report->damaged++;
    tell(c, id, "its row makes no sense");
    doom(c, id);
}

/* ---------------------------------------------------------------- checksums --- */

/* One piece into the sum. False: it is not there, of another size, or unreadable. */
static bool add_piece(check *c, const kv_entry *e, uint32_t n, uint8_t *data, kv_sum *sum)
{
    sqlite3_blob *blob = NULL;
    uint64_t left = e->size - (uint64_t)n * KV_DB_PIECE;
    int size = (int)(left < KV_DB_PIECE ? left : KV_DB_PIECE), at = 0;
    int rc =
        sqlite3_blob_open(c->db.db, "main", "piece", "data", kv_db_piece_id(e->id, n), 0, &blob);
    bool good = rc == SQLITE_OK && sqlite3_blob_bytes(blob) == size;
    while (good && at < size) {
        int step = size - at < (int)STEP ? size - at : (int)STEP;
        good = sqlite3_blob_read(blob, data, step, at) == SQLITE_OK;
        if (good)
            kv_sum_add(sum, data, (size_t)step);
        at += step;
    }
    sqlite3_blob_close(blob);
    return good;
}

static bool is_whole(check *c, const kv_entry *e, uint8_t *data)
{
    kv_sum sum;
    kv_row row;
    uint32_t n = kv_db_n_pieces(e->size);
    kv_db_row_of(e, e->id, &row);
    kv_db_sum_row(&sum, &row);
    for (uint32_t i = 0; i < n; i++) {
        if (!add_piece(c, e, i, data, &sum))
            return false;
    }
    return kv_sum_end(&sum) == e->sum;
}

/* Reads every chunk, in the order of the file. */
static pawl_status check_sums(check *c, pawl_error *error)
{
    sqlite3_stmt *s = NULL;
    uint8_t *data = malloc(STEP);
    pawl_status status = data ? db_prepare(c->db.db, "SELECT key FROM chunk ORDER BY id", &s, error)
                              : pawl_fail(error, PAWL_E_MEMORY, "no memory to check kv.db");
    while (!status && sqlite3_step(s) == SQLITE_ROW) {
        kv_key key = {{0}};
        const void *bytes = sqlite3_column_blob(s, 0);
        if (bytes && sqlite3_column_bytes(s, 0) == KV_KEY_SIZE)
            memcpy(&key, bytes, sizeof key);
        kv_entry *e = kv_index_find(&c->index, &key);
        if (!e || is_whole(c, e, data))
            continue;
        tell(c, e->id, "its payload is damaged");
        kv_index_remove(&c->index, e, doom_entry, c);
        c->report->unreachable--;
        c->report->damaged++;
    }
    sqlite3_finalize(s);
    free(data);
    return status;
}

/* --------------------------------------------------------------------- file --- */

static pawl_status check_pages(check *c, pawl_error *error)
{
    sqlite3_stmt *s;
    pawl_status status = db_prepare(c->db.db, "PRAGMA integrity_check(10)", &s, error);
    if (status)
        return status;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        if (text && strcmp(text, "ok") == 0)
            continue;
        c->report->broken = true;
        tell(c, 0, text ? text : "?");
    }
    if (rc != SQLITE_DONE)
        status = db_fail(c->db.db, "checking its pages", error);
    sqlite3_finalize(s);
    return status;
}

#define STRAYS                                                                                     \
    "FROM piece WHERE id < ?1 AND NOT EXISTS (SELECT 1 FROM chunk WHERE chunk.id = piece.id / "    \
    "4096 AND piece.id % 4096 < (chunk.size + 4193279) / 4193280)"
_Static_assert(KV_DB_PIECE == 4193280 && KV_DB_MAX_PIECES == 4096, "STRAYS says so too");

static pawl_status count_strays(check *c, pawl_error *error)
{
    char sql[400];
    int64_t n = 0, border = kv_db_piece_id(c->next_id, 0);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM piece WHERE id >= %" PRId64, border);
    pawl_status status = db_get_int(c->db.db, sql, &n, error);
    c->report->unfinished = (uint64_t)n;
    sqlite3_stmt *s = NULL;
    if (!status)
        status = db_prepare(c->db.db, "SELECT count(*) " STRAYS, &s, error);
    if (status)
        return status;
    sqlite3_bind_int64(s, 1, border);
    if (sqlite3_step(s) == SQLITE_ROW)
        c->report->strays = (uint64_t)sqlite3_column_int64(s, 0);
    else
        status = db_fail(c->db.db, "looking for pieces of nobody", error);
    sqlite3_finalize(s);
    if (c->report->strays)
        tell(c, 0, "pieces in it belong to no chunk");
    return status;
}

static pawl_status delete_strays(check *c, pawl_error *error)
{
    sqlite3_stmt *s;
    pawl_status status = db_prepare(c->db.db, "DELETE " STRAYS, &s, error);
    if (status)
        return status;
    sqlite3_bind_int64(s, 1, kv_db_piece_id(c->next_id, 0));
    if (sqlite3_step(s) != SQLITE_DONE)
        status = db_fail(c->db.db, "deleting pieces of nobody", error);
    sqlite3_finalize(s);
    return status;
}

static pawl_status repair_rows(check *c, pawl_error *error)
{
    uint64_t n;
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < c->n_doomed && !status; i++) {
        if (i % GROUP == 0)
            status = db_exec(c->db.db, "BEGIN IMMEDIATE", error);
        if (!status)
            status = kv_db_delete(&c->db, c->doomed[i], error);
        if (!status && (i % GROUP == GROUP - 1 || i == c->n_doomed - 1))
            status = db_exec(c->db.db, "COMMIT", error);
        if (!status && i % GROUP == GROUP - 1)
            status = db_checkpoint(c->db.db, SQLITE_CHECKPOINT_TRUNCATE, error);
    }
    if (!status)
        status = delete_strays(c, error);
    if (!status)
        status = kv_db_sweep(&c->db, c->next_id, &n, error);
    if (!status)
        status =
            db_exec(c->db.db, "DELETE FROM used WHERE id NOT IN (SELECT id FROM chunk)", error);
    if (!status)
        status = db_checkpoint(c->db.db, SQLITE_CHECKPOINT_TRUNCATE, error);
    c->report->removed = c->n_doomed;
    return status;
}

static pawl_status check_open(check *c, bool repair, pawl_error *error)
{
    pawl_status status = check_pages(c, error);
    if (!status && !c->report->broken)
        status = kv_db_load(&c->db, take, refuse, c, &c->next_id, error);
    if (!status && !c->report->broken)
        status = check_sums(c, error);
    if (!status && !c->report->broken)
        status = count_strays(c, error);
    if (!status && c->no_memory)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory to check kv.db");
    if (!status && repair && !c->report->broken)
        status = repair_rows(c, error);
    return status;
}

/* Path of kv.db if there is one; else NULL. */
static char *path_of(const char *folder, pawl_status *status, pawl_error *error)
{
    struct stat st;
    char *path = file_join(folder, KV_DB_NAME);
    *status = path ? PAWL_OK : pawl_fail(error, PAWL_E_MEMORY, "no memory to check kv.db");
    if (path && (stat(path, &st) != 0 || st.st_size == 0)) {
        free(path);
        path = NULL;
    }
    return path;
}

pawl_status kv_check(const char *folder, bool repair, kv_check_found found, void *arg,
                     kv_check_report *report, pawl_error *error)
{
    pawl_status status;
    pawl_error why = {.struct_size = sizeof why};
    kv_check_report made = {0};
    check c = {.report = &made, .found = found, .arg = arg};
    char *path = path_of(folder, &status, error);
    if (!status && path)
        status = kv_index_open(&c.index, error);
    if (!status && path) {
        status = kv_db_open(path, &c.db, &why);
        if (!status)
            status = check_open(&c, repair, &why);
        kv_db_close(&c.db);
        if (status == PAWL_E_FORMAT) {
            tell(&c, 0, why.message);
            made.broken = true;
            status = PAWL_OK;
        } else if (status && error) {
            *error = why;
        }
        if (!status && made.broken && repair) {
            made.removed = made.chunks;
            kv_db_set_aside(path);
        }
        kv_index_close(&c.index);
    }
    free(c.doomed);
    free(path);
    if (!status)
        *report = made;
    return status;
}

bool kv_check_is_clean(const kv_check_report *report)
{
    return !report->broken && !report->damaged && !report->unreachable && !report->strays;
}

/* -------------------------------------------------------------- survey and gc --- */

static pawl_status survey_rows(kv_db *d, kv_survey_report *report, pawl_error *error)
{
    static const char sql[] =
        "SELECT count(*), ifnull(sum(length(tokens) / 4), 0), ifnull(sum(size), 0),"
        " count(DISTINCT tenant), ifnull(sum(hits), 0), count(*) FILTER (WHERE ifnull(hits, 0) = "
        "0),"
        " ifnull(min(at), 0), ifnull(max(at), 0) FROM chunk LEFT JOIN used USING (id)";
    sqlite3_stmt *s;
    pawl_status status = db_prepare(d->db, sql, &s, error);
    if (status)
        return status;
    if (sqlite3_step(s) == SQLITE_ROW) {
        report->chunks = (uint64_t)sqlite3_column_int64(s, 0);
        report->tokens = (uint64_t)sqlite3_column_int64(s, 1);
        report->bytes = (uint64_t)sqlite3_column_int64(s, 2);
        report->tenants = (uint64_t)sqlite3_column_int64(s, 3);
        report->hits = (uint64_t)sqlite3_column_int64(s, 4);
        report->never_used = (uint64_t)sqlite3_column_int64(s, 5);
        report->oldest_ms = sqlite3_column_int64(s, 6);
        report->newest_ms = sqlite3_column_int64(s, 7);
    } else {
        status = db_fail(d->db, "counting what it holds", error);
    }
    sqlite3_finalize(s);
    return status;
}

pawl_status kv_survey(const char *folder, kv_survey_report *report, pawl_error *error)
{
    pawl_status status;
    kv_survey_report made = {0};
    kv_db d = {0};
    uint64_t pages = 0, n_free = 0;
    char *path = path_of(folder, &status, error);
    if (!status && path) {
        made.file_bytes = (uint64_t)(file_size(path, "") + file_size(path, "-wal"));
        status = kv_db_open(path, &d, error);
        if (!status)
            status = survey_rows(&d, &made, error);
        if (!status)
            status = kv_db_pages(&d, &pages, &n_free, error);
        made.free_bytes = n_free * KV_DB_PAGE;
        kv_db_close(&d);
    }
    free(path);
    if (!status)
        *report = made;
    return status;
}

pawl_status kv_gc(const char *folder, uint64_t bytes, uint64_t *removed_chunks, pawl_error *error)
{
    pawl_status status;
    kv_survey_report before = {0};
    kv_stats after = {0};
    char *path = path_of(folder, &status, error);
    if (!status && path)
        status = kv_survey(folder, &before, error);
    if (!status && path && bytes == 0) {
        static const char *const ends[] = {"", "-wal", "-shm"};
        char name[4096];
        for (size_t i = 0; i < 3; i++) {
            if (snprintf(name, sizeof name, "%s%s", path, ends[i]) < (int)sizeof name)
                unlink(name);
        }
    } else if (!status && path) {
        kv_config config = {.folder = folder, .disk_bytes = bytes};
        kv *k;
        status = kv_open(&config, &k, error); /* evicts what is beyond its budget */
        if (!status) {
            kv_flush(k);
            kv_stats_get(k, &after);
            kv_close(k);
        }
    }
    free(path);
    if (!status)
        *removed_chunks = before.chunks - after.disk_chunks;
    return status;
}
