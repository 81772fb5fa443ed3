/*
 * store/kv_read.c - one chunk's payload being read.
 *
 * From memory: a copy, for the payload never left our hands. From disk: sqlite3_blob_read()
 * copies page by page into the caller's memory; what just came is summed while it is still in
 * the processor's cache, so the sum costs little. The sum is known before the last bytes are
 * given: a damaged row fails in its last read at the latest, and no caller believes it whole.
 *
 * A chunk that is read from disk a second time goes into memory too, if there is room.
 *
 * A reader holds its entry, so it stays in its tier, and from disk a connection, which
 * stands in the log as long as it is open: be quick. Connections are read-only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_state.h"

#include <stdlib.h>
#include <string.h>

#define FRESH_MS 10000    /* a use counts once, whether it is found and then read or only read */
#define STEP (128u << 10) /* bytes that are copied, then summed: half of a small L2 */

struct kv_connection {
    kv_connection *next; /* of those that are idle             */
    sqlite3 *db;
    uint32_t generation; /* of the pool when it was opened     */
};

struct kv_reader {
    kv *k;
    kv_entry *e;               /* held                                        */
    const uint8_t *payload;    /* from memory: its own; from disk NULL        */
    uint8_t *copy;             /* goes into memory if all is well; or NULL    */
    uint64_t at;               /* bytes that were given                       */
    kv_connection *connection; /* from disk                                   */
    sqlite3_blob *blob;        /* the piece that is open                      */
    uint32_t piece;            /* its number                                  */
    int64_t id;                /* of the row                                  */
    uint64_t expected;         /* its sum                                     */
    kv_sum sum;                /* so far                                      */
    bool failed;               /* for good                                    */
};

/* -------------------------------------------------------------- connections --- */

void kv_pool_open(kv_pool *pool)
{
    memset(pool, 0, sizeof *pool);
    pthread_mutex_init(&pool->lock, NULL);
}

static void close_connection(kv_connection *c)
{
    db_close(c->db);
    free(c);
}

void kv_pool_renew(kv_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    kv_connection *c = pool->idle;
    pool->idle = NULL;
    pool->generation++;
    for (kv_connection *at = c; at; at = at->next)
        pool->n_open--;
    pthread_mutex_unlock(&pool->lock);
    while (c) {
        kv_connection *next = c->next;
        close_connection(c);
        c = next;
    }
}

void kv_pool_close(kv_pool *pool)
{
    kv_pool_renew(pool);
    pthread_mutex_destroy(&pool->lock);
}

static kv_connection *connect_reader(kv *k)
{
    kv_pool *pool = &k->pool;
    pthread_mutex_lock(&pool->lock);
    kv_connection *c = pool->idle;
    uint32_t generation = pool->generation;
    bool may = c || pool->n_open < KV_MAX_READERS;
    if (c)
        pool->idle = c->next;
    else if (may)
        pool->n_open++;
    pthread_mutex_unlock(&pool->lock);
    if (c || !may)
        return c;
    c = calloc(1, sizeof *c);
    if (c)
        c->generation = generation;
    if (c && kv_db_open_reader(k->path, &c->db, NULL) == PAWL_OK)
        return c;
    free(c);
    pthread_mutex_lock(&pool->lock);
    pool->n_open--;
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void disconnect_reader(kv *k, kv_connection *c)
{
    kv_pool *pool = &k->pool;
    pthread_mutex_lock(&pool->lock);
    bool keep = c->generation == pool->generation;
    if (keep) {
        c->next = pool->idle;
        pool->idle = c;
    } else {
        pool->n_open--;
    }
    pthread_mutex_unlock(&pool->lock);
    if (!keep)
        close_connection(c);
}

/* ------------------------------------------------------------------ reading --- */

static pawl_status from_memory(void *context, void *data, uint64_t size, uint64_t *got)
{
    kv_reader *r = context;
    uint64_t n = r->e->size - r->at;
    n = n < size ? n : size;
    memcpy(data, r->payload + r->at, n);
    r->at += n;
    *got = n;
    return PAWL_OK;
}

/* Opens the piece that `at` is in. */
static bool open_piece(kv_reader *r)
{
    uint32_t piece = (uint32_t)(r->at / KV_DB_PIECE);
    int64_t rowid = kv_db_piece_id(r->id, piece);
    uint64_t left = r->e->size - (uint64_t)piece * KV_DB_PIECE;
    int rc;
    if (r->blob && r->piece == piece)
        return true;
    if (r->blob)
        rc = sqlite3_blob_reopen(r->blob, rowid);
    else
        rc = sqlite3_blob_open(r->connection->db, "main", "piece", "data", rowid, 0, &r->blob);
    r->piece = piece;
    left = left < KV_DB_PIECE ? left : KV_DB_PIECE;
    return rc == SQLITE_OK && (uint64_t)sqlite3_blob_bytes(r->blob) == left;
}

/* Reads up to STEP bytes that lie in one piece. 0: it failed. */
static uint64_t read_step(kv_reader *r, uint8_t *data, uint64_t size)
{
    uint64_t within = r->at % KV_DB_PIECE;
    if (size > KV_DB_PIECE - within)
        size = KV_DB_PIECE - within;
    if (size > STEP)
        size = STEP;
    if (!open_piece(r) || sqlite3_blob_read(r->blob, data, (int)size, (int)within) != SQLITE_OK)
        return 0;
    kv_sum_add(&r->sum, data, size);
    if (r->copy)
        memcpy(r->copy + r->at, data, size);
    r->at += size;
    return size;
}

static pawl_status from_disk(void *context, void *data, uint64_t size, uint64_t *got)
{
    kv_reader *r = context;
    uint64_t n = 0, left = r->e->size - r->at;
    size = size < left ? size : left;
    while (n < size && !r->failed) {
        uint64_t step = read_step(r, (uint8_t *)data + n, size - n);
        r->failed = step == 0;
        n += step;
    }
    if (!r->failed && size > 0 && r->at == r->e->size)
        r->failed = kv_sum_end(&r->sum) != r->expected;
    if (r->failed)
        return PAWL_E_FORMAT;
    kv_count_by(r->k, KV_READ_BYTES, n);
    *got = n;
    return PAWL_OK;
}

static void close_reader(kv_reader *r)
{
    if (r->blob)
        sqlite3_blob_close(r->blob);
    if (r->connection)
        disconnect_reader(r->k, r->connection);
    r->blob = NULL;
    r->connection = NULL;
}

/* A miss because of the row itself: it goes. Locked. */
static void remove_damaged(kv *k, kv_entry *e)
{
    kv_count_by(k, KV_DAMAGED, 1);
    if (!e->gone)
        kv_drop_entry(k, e);
}

/* Looks the chunk up and holds it. Locked. */
static bool hold(kv *k, kv_reader *r, const kv_key *key, const int32_t *tokens, uint64_t n_tokens)
{
    kv_entry *e = kv_index_find(&k->index, key);
    if (!e)
        return false;
    if (e->n_tokens != n_tokens ||
        (n_tokens > 0 && memcmp(e->tokens, tokens, n_tokens * sizeof tokens[0]) != 0)) {
        remove_damaged(k, e);
        return false;
    }
    int64_t now = kv_now_ms(k);
    if (e->hits == 0 || now - e->used_ms > FRESH_MS)
        kv_index_use(&k->index, e, now);
    kv_index_hold(&k->index, e);
    r->e = e;
    r->payload = e->payload;
    r->id = e->id;
    r->expected = e->sum;
    if (!r->payload && e->disk_reads++ > 0 && kv_make_room(k, e->tenant, e->size)) {
        k->promised += e->size;
        r->copy = malloc(e->size);
        if (!r->copy)
            k->promised -= e->size;
    }
    return true;
}

/* The sum begins with the row's other members, and with the ids that were compared. */
static void begin_sum(kv_reader *r)
{
    kv_row row;
    kv_db_row_of(r->e, r->id, &row);
    kv_db_sum_row(&r->sum, &row);
}

static pawl_status miss(kv *k, kv_reader *r)
{
    kv_count_by(k, KV_MISSES, 1);
    free(r);
    return PAWL_E_NOT_FOUND;
}

pawl_status kv_read(kv *k, const kv_key *key, const int32_t *tokens, uint64_t n_tokens,
                    kv_reader **out, pawl_source *source)
{
    kv_reader *r = calloc(1, sizeof *r);
    if (!r)
        return miss(k, NULL);
    r->k = k;
    kv_lock(k);
    bool found = hold(k, r, key, tokens, n_tokens);
    if (found && !r->payload)
        begin_sum(r);
    kv_unlock(k);
    if (!found)
        return miss(k, r);
    if (!r->payload) {
        r->connection = connect_reader(k);
        bool opened = r->connection && open_piece(r);
        if (!opened) {
            /* without a connection it is not the row's fault */
            bool damaged =
                r->connection != NULL && (sqlite3_errcode(r->connection->db) & 0xff) != SQLITE_BUSY;
            close_reader(r);
            kv_lock(k);
            k->promised -= r->copy ? r->e->size : 0;
            if (damaged)
                remove_damaged(k, r->e);
            kv_index_release(&k->index, r->e);
            kv_unlock(k);
            free(r->copy);
            return miss(k, r);
        }
    }
    kv_count_by(k, r->payload ? KV_READS_MEMORY : KV_READS_DISK, 1);
    *source = (pawl_source){r, r->payload ? from_memory : from_disk};
    *out = r;
    return PAWL_OK;
}

void kv_read_end(kv_reader *r, bool good)
{
    kv *k = r->k;
    bool whole = r->at == r->e->size && !r->failed;
    close_reader(r);
    kv_lock(k);
    if (r->copy)
        k->promised -= r->e->size;
    if (!good || r->failed) {
        remove_damaged(k, r->e);
    } else if (r->copy && whole && !r->e->gone && !r->e->payload) {
        kv_index_set_memory(&k->index, r->e, r->copy);
        r->copy = NULL;
    }
    kv_index_release(&k->index, r->e);
    kv_unlock(k);
    free(r->copy);
    free(r);
}
