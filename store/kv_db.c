/*
 * store/kv_db.c - kv.db: the file, its rows, and their SQL.
 *
 *     application_id 0x504B5631 "PKV1", user_version 1, pages of 16 KiB, auto_vacuum INCREMENTAL
 *
 *     chunk   id       ascending, never given twice: a parent's is below its children's
 *             key      32 bytes
 *             parent   32 bytes; zeros: a root
 *             tenant   up to 64 bytes of text
 *             begin    position of the first token
 *             part     enum pawl_state_part
 *             tokens   int32, little-endian
 *             size     of the payload, 1 to 2^31
 *             sum      kv_sum over: key ‖ parent ‖ tenant, padded with zeros to 64 ‖
 *                      begin ‖ part ‖ number of tokens ‖ size (u64 each) ‖ tokens ‖ payload
 *     piece   id       chunk's id × 4096 + n, n from 0
 *             data     KV_DB_PIECE bytes of the payload, the last piece what is left
 *     used    id       the chunk's
 *             hits, heat, at: counted in memory, written every minute and at the end; a chunk
 *                      without such a row was never used
 *
 *     payload │ piece 0 │ piece 1 │ … │ last │    each 256 overflow pages, read into the
 *             └─ 4 MiB ─┴─ 4 MiB ─┘   └──────┘    caller's memory by sqlite3_blob_read
 *
 * Why pieces: what one transaction writes goes through the log, so a chunk of 40 MB would
 * make a log of 40 MB. With pieces it is written by several, and its row in `chunk`, the last
 * thing written, makes it exist. A process that is killed in between leaves pieces with an id
 * above all chunks': loading deletes them. Why `used` is apart: use changes all the time, and
 * changing a small row must not write a large one.
 *
 * There is no index on key: the one in memory is made at opening, from `chunk` alone, whose
 * rows are small. Rows are checked before they are believed; payloads when they are read.
 *
 * Settings: synchronous NORMAL (losing the newest is harmless), secure_delete FAST (rows
 * hold recoverable prompts, but zeroing gigabytes would double what eviction writes).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_db.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "store/migrate.h"
#include "store/rows.h"

#define MAX_LOCAL (KV_DB_PAGE - 35) /* of a row in its leaf page, as the file format has it */
#define MIN_LOCAL ((KV_DB_PAGE - 12) * 32 / 255 - 23)
#define MAX_ID (INT64_MAX / KV_DB_MAX_PIECES - KV_MAX_CHUNKS) /* of a row that we believe */
#define READER_BUSY_MS 50 /* a look-up rather misses than waits */

static const char *const scripts[] = {
    "CREATE TABLE chunk (id INTEGER PRIMARY KEY, key BLOB NOT NULL, parent BLOB NOT NULL,"
    " tenant TEXT NOT NULL, begin INTEGER NOT NULL, part INTEGER NOT NULL, tokens BLOB NOT NULL,"
    " size INTEGER NOT NULL, sum INTEGER NOT NULL) STRICT;"
    "CREATE TABLE piece (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;"
    "CREATE TABLE used (id INTEGER PRIMARY KEY, hits INTEGER NOT NULL, heat REAL NOT NULL,"
    " at INTEGER NOT NULL) STRICT;"};

static const db_kind kind = {
    .name = KV_DB_NAME,
    .application_id = 0x504B5631,
    .scripts = scripts,
    .version = 1,
    .before = "PRAGMA page_size = 16384; PRAGMA auto_vacuum = INCREMENTAL;",
    .settings = "PRAGMA synchronous = NORMAL; PRAGMA secure_delete = FAST;"
                "PRAGMA journal_size_limit = 8388608;",
};

/* ---------------------------------------------------------------- opening --- */

/* A file whose pages are of another size was made by a program that we do not know. */
static pawl_status check_shape(sqlite3 *db, pawl_error *error)
{
    int64_t page = 0, vacuum = 0;
    pawl_status status = db_get_int(db, "PRAGMA page_size", &page, error);
    if (!status)
        status = db_get_int(db, "PRAGMA auto_vacuum", &vacuum, error);
    if (!status && (page != KV_DB_PAGE || vacuum != 2))
        status = pawl_fail(error, PAWL_E_FORMAT, "%s has pages of %lld bytes, not of %d",
                           sqlite3_db_filename(db, "main"), (long long)page, KV_DB_PAGE);
    return status;
}

/* SQL that does not fit the tables: they are not those of this version. */
static pawl_status prepare_one(sqlite3 *db, const char *sql, sqlite3_stmt **out, pawl_error *error)
{
    pawl_status status = db_prepare(db, sql, out, error);
    if (status == PAWL_E_INTERNAL)
        return pawl_fail(error, PAWL_E_FORMAT, "%s has other tables: %s",
                         sqlite3_db_filename(db, "main"), sqlite3_errmsg(db));
    return status;
}

static pawl_status prepare(kv_db *d, pawl_error *error)
{
    const struct {
        sqlite3_stmt **to;
        const char *sql;
    } list[] = {
        {&d->put_chunk, "INSERT INTO chunk VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"},
        {&d->put_piece, "INSERT INTO piece VALUES (?1, ?2)"},
        {&d->put_used, "REPLACE INTO used VALUES (?1, ?2, ?3, ?4)"},
        {&d->delete_chunk, "DELETE FROM chunk WHERE id = ?1"},
        {&d->delete_pieces, "DELETE FROM piece WHERE id BETWEEN ?1 AND ?2"},
        {&d->delete_used, "DELETE FROM used WHERE id = ?1"},
        {&d->count_pages, "PRAGMA page_count"},
        {&d->count_free, "PRAGMA freelist_count"},
    };
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < sizeof list / sizeof list[0] && !status; i++)
        status = prepare_one(d->db, list[i].sql, list[i].to, error);
    return status;
}

pawl_status kv_db_open(const char *path, kv_db *out, pawl_error *error)
{
    kv_db made = {0};
    pawl_status status = db_open_writer(path, &kind, &made.db, error);
    if (status)
        return status;
    status = check_shape(made.db, error);
    if (!status)
        status = prepare(&made, error);
    if (status) {
        kv_db_close(&made);
        return status;
    }
    *out = made;
    return PAWL_OK;
}

void kv_db_close(kv_db *d)
{
    sqlite3_stmt *const all[] = {d->put_chunk,     d->put_piece,   d->put_used,    d->delete_chunk,
                                 d->delete_pieces, d->delete_used, d->count_pages, d->count_free};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        sqlite3_finalize(all[i]);
    db_close(d->db);
    *d = (kv_db){0};
}

pawl_status kv_db_open_reader(const char *path, sqlite3 **out, pawl_error *error)
{
    pawl_status status = db_open_reader(path, out, error);
    if (!status)
        sqlite3_busy_timeout(*out, READER_BUSY_MS);
    return status;
}

/* A database file has its application_id at offset 68, most significant byte first. */
static bool is_ours(const char *path)
{
    uint8_t header[72] = {0};
    uint32_t owner;
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    size_t got = fread(header, 1, sizeof header, file);
    fclose(file);
    memcpy(&owner, header + 68, sizeof owner);
    return got == sizeof header && be32toh(owner) == (uint32_t)kind.application_id;
}

void kv_db_set_aside(const char *path)
{
    char name[4096];
    if (is_ours(path)) {
        log_write(PAWL_LOG_WARN, "store", "%s is made anew: it is a cache, and damaged or old",
                  path);
        if (unlink(path) != 0)
            log_write(PAWL_LOG_ERROR, "store", "%s: %s", path, strerror(errno));
    } else if (snprintf(name, sizeof name, "%s.old", path) < (int)sizeof name) {
        log_write(PAWL_LOG_WARN, "store", "%s is none of ours; it is kept as %s", path, name);
        if (rename(path, name) != 0)
            log_write(PAWL_LOG_ERROR, "store", "%s: %s", path, strerror(errno));
    }
    static const char *const beside[] = {"wal", "shm", "journal"};
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        if (snprintf(name, sizeof name, "%s-%s", path, beside[i]) < (int)sizeof name)
            unlink(name);
    }
}

/* ------------------------------------------------------------------- rows --- */

static uint64_t u64(sqlite3_stmt *s, int column)
{
    return (uint64_t)sqlite3_column_int64(s, column);
}

static bool read_key(sqlite3_stmt *s, int column, kv_key *out)
{
    const void *bytes = sqlite3_column_blob(s, column);
    if (!bytes || sqlite3_column_bytes(s, column) != KV_KEY_SIZE)
        return false;
    memcpy(out, bytes, KV_KEY_SIZE);
    return true;
}

static bool read_tenant(sqlite3_stmt *s, int column, char out[KV_TENANT_SIZE])
{
    const char *text = (const char *)sqlite3_column_text(s, column);
    size_t size = (size_t)sqlite3_column_bytes(s, column);
    if (!text || size >= KV_TENANT_SIZE || strlen(text) != size)
        return false;
    memcpy(out, text, size + 1);
    return true;
}

/* False: there is something in it that no program of ours wrote. */
static bool read_row(sqlite3_stmt *s, kv_row *row)
{
    int bytes = sqlite3_column_bytes(s, 6);
    *row = (kv_row){.id = sqlite3_column_int64(s, 0),
                    .begin = u64(s, 4),
                    .part = (uint32_t)u64(s, 5),
                    .tokens = sqlite3_column_blob(s, 6),
                    .n_tokens = (uint64_t)bytes / sizeof(int32_t),
                    .size = u64(s, 7),
                    .sum = u64(s, 8),
                    .hits = u64(s, 9),
                    .heat = sqlite3_column_double(s, 10),
                    .used_ms = sqlite3_column_int64(s, 11) > 0 ? sqlite3_column_int64(s, 11) : 0};
    if (row->id < 1 || row->id > MAX_ID)
        return false;
    if (!read_key(s, 1, &row->key) || !read_key(s, 2, &row->parent) ||
        !read_tenant(s, 3, row->tenant))
        return false;
    if (!(row->heat >= 0 && row->heat < 1e9)) /* NaN too */
        row->heat = 1;
    return bytes % (int)sizeof(int32_t) == 0 && row->n_tokens <= KV_MAX_TOKENS &&
           row->begin <= INT64_MAX && u64(s, 5) <= UINT32_MAX && row->size > 0 &&
           row->size <= KV_MAX_SIZE;
}

pawl_status kv_db_load(kv_db *d, void (*take)(void *arg, const kv_row *row),
                       void (*refuse)(void *arg, int64_t id), void *arg, int64_t *next_id,
                       pawl_error *error)
{
    sqlite3_stmt *s;
    int64_t last = 0;
    int rc;
    pawl_status status =
        prepare_one(d->db,
                    "SELECT chunk.id, key, parent, tenant, begin, part, tokens, size, sum,"
                    " ifnull(hits, 0), ifnull(heat, 1), ifnull(at, 0)"
                    " FROM chunk LEFT JOIN used USING (id) ORDER BY chunk.id",
                    &s, error);
    if (status)
        return status;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        kv_row row;
        bool good = read_row(s, &row);
        if (row.id > last)
            last = row.id;
        if (good)
            take(arg, &row);
        else
            refuse(arg, row.id);
    }
    if (rc != SQLITE_DONE)
        status = db_fail(d->db, "reading what it holds", error);
    sqlite3_finalize(s);
    if (!status && last > MAX_ID)
        status = pawl_fail(error, PAWL_E_FORMAT, "%s has a row of id %lld",
                           sqlite3_db_filename(d->db, "main"), (long long)last);
    if (!status)
        *next_id = last + 1;
    return status;
}

pawl_status kv_db_sweep(kv_db *d, int64_t next_id, uint64_t *n, pawl_error *error)
{
    sqlite3_bind_int64(d->delete_pieces, 1, kv_db_piece_id(next_id, 0));
    sqlite3_bind_int64(d->delete_pieces, 2, INT64_MAX);
    pawl_status status =
        rows_run(d->db, d->delete_pieces, "deleting what was left unfinished", error);
    if (!status)
        *n = (uint64_t)sqlite3_changes(d->db);
    return status;
}

pawl_status kv_db_put_piece(kv_db *d, int64_t id, uint32_t n, const void *data, uint64_t size,
                            pawl_error *error)
{
    sqlite3_bind_int64(d->put_piece, 1, kv_db_piece_id(id, n));
    sqlite3_bind_blob64(d->put_piece, 2, data, size, SQLITE_STATIC);
    return rows_run(d->db, d->put_piece, "writing a chunk", error);
}

pawl_status kv_db_put_row(kv_db *d, const kv_row *row, pawl_error *error)
{
    sqlite3_stmt *s = d->put_chunk;
    sqlite3_bind_int64(s, 1, row->id);
    sqlite3_bind_blob(s, 2, &row->key, KV_KEY_SIZE, SQLITE_STATIC);
    sqlite3_bind_blob(s, 3, &row->parent, KV_KEY_SIZE, SQLITE_STATIC);
    sqlite3_bind_text(s, 4, row->tenant, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 5, (int64_t)row->begin);
    sqlite3_bind_int64(s, 6, row->part);
    sqlite3_bind_blob64(s, 7, row->tokens, row->n_tokens * sizeof row->tokens[0], SQLITE_STATIC);
    sqlite3_bind_int64(s, 8, (int64_t)row->size);
    sqlite3_bind_int64(s, 9, (int64_t)row->sum);
    return rows_run(d->db, s, "writing a chunk's row", error);
}

pawl_status kv_db_put_used(kv_db *d, int64_t id, uint64_t hits, double heat, int64_t used_ms,
                           pawl_error *error)
{
    sqlite3_bind_int64(d->put_used, 1, id);
    sqlite3_bind_int64(d->put_used, 2, (int64_t)hits);
    sqlite3_bind_double(d->put_used, 3, heat);
    sqlite3_bind_int64(d->put_used, 4, used_ms);
    return rows_run(d->db, d->put_used, "writing when chunks were used", error);
}

pawl_status kv_db_delete(kv_db *d, int64_t id, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    if (id > 0 && id <= MAX_ID) { /* no other has pieces */
        sqlite3_bind_int64(d->delete_pieces, 1, kv_db_piece_id(id, 0));
        sqlite3_bind_int64(d->delete_pieces, 2, kv_db_piece_id(id, KV_DB_MAX_PIECES - 1));
        status = rows_run(d->db, d->delete_pieces, "deleting a chunk", error);
    }
    sqlite3_stmt *const rest[] = {d->delete_chunk, d->delete_used};
    for (size_t i = 0; i < 2 && !status; i++) {
        sqlite3_bind_int64(rest[i], 1, id);
        status = rows_run(d->db, rest[i], "deleting a chunk's row", error);
    }
    return status;
}

static pawl_status count(kv_db *d, sqlite3_stmt *s, uint64_t *out, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    if (sqlite3_step(s) == SQLITE_ROW)
        *out = u64(s, 0);
    else
        status = db_fail(d->db, "counting its pages", error);
    sqlite3_reset(s);
    return status;
}

pawl_status kv_db_pages(kv_db *d, uint64_t *pages, uint64_t *n_free, pawl_error *error)
{
    pawl_status status = count(d, d->count_pages, pages, error);
    return status ? status : count(d, d->count_free, n_free, error);
}

/* -------------------------------------------------------------- arithmetic --- */

kv_chunk kv_db_chunk_of(const kv_row *row)
{
    return (kv_chunk){.key = row->key,
                      .parent = row->parent,
                      .tenant = row->tenant,
                      .begin = row->begin,
                      .tokens = row->tokens,
                      .n_tokens = row->n_tokens,
                      .part = row->part,
                      .size = row->size};
}

void kv_db_row_of(const kv_entry *e, int64_t id, kv_row *row)
{
    *row = (kv_row){.id = id,
                    .key = e->key,
                    .begin = e->begin,
                    .part = e->part,
                    .tokens = e->tokens,
                    .n_tokens = e->n_tokens,
                    .size = e->size};
    if (e->parent)
        row->parent = e->parent->key;
    memcpy(row->tenant, e->tenant->name, sizeof row->tenant);
}

void kv_db_sum_row(kv_sum *sum, const kv_row *row)
{
    uint64_t numbers[] = {htole64(row->begin), htole64(row->part), htole64(row->n_tokens),
                          htole64(row->size)};
    char tenant[64] = {0};
    memcpy(tenant, row->tenant, strlen(row->tenant));
    kv_sum_begin(sum);
    kv_sum_add(sum, &row->key, KV_KEY_SIZE);
    kv_sum_add(sum, &row->parent, KV_KEY_SIZE);
    kv_sum_add(sum, tenant, sizeof tenant);
    kv_sum_add(sum, numbers, sizeof numbers);
    kv_sum_add(sum, row->tokens, row->n_tokens * sizeof row->tokens[0]);
}

uint32_t kv_db_n_pieces(uint64_t size)
{
    return (uint32_t)((size + KV_DB_PIECE - 1) / KV_DB_PIECE);
}

int64_t kv_db_piece_id(int64_t id, uint32_t n)
{
    return id * KV_DB_MAX_PIECES + n;
}

/* A row that does not fit into its leaf leaves a part there and spills into whole pages. */
static uint64_t row_bytes(uint64_t size)
{
    const uint64_t usable = KV_DB_PAGE - 4;
    if (size <= MAX_LOCAL)
        return size + 16;
    uint64_t local = MIN_LOCAL + (size - MIN_LOCAL) % usable;
    if (local > MAX_LOCAL)
        local = MIN_LOCAL;
    return local + 16 + (size - local + usable - 1) / usable * KV_DB_PAGE;
}

uint64_t kv_db_footprint(uint64_t size, uint64_t n_tokens)
{
    uint64_t whole = size / KV_DB_PIECE, rest = size % KV_DB_PIECE;
    uint64_t bytes = whole * row_bytes(KV_DB_PIECE + 6) + (rest ? row_bytes(rest + 6) : 0);
    return bytes + row_bytes(n_tokens * sizeof(int32_t) + 160) + 40;
}
