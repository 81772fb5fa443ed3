/*
 * store/kv_db.h - kv.db: the file, its rows, and their SQL.
 *
 * A kv_db is the writing connection, the writer thread's own. Those that read are opened
 * by kv_db_open_reader() and never write or checkpoint.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_KV_DB_H
#define STORE_KV_DB_H

#include "store/db.h"
#include "store/kv_index.h"
#include "store/kv_sum.h"

#define KV_DB_NAME "kv.db"
#define KV_DB_PAGE 16384
/* What a piece holds: 256 overflow pages and, in its leaf, the least that SQLite keeps there. */
#define KV_DB_PIECE (256u * (KV_DB_PAGE - 4))
#define KV_DB_MAX_PIECES 4096 /* of one chunk; a power of two */

/* Everything about a chunk but its payload. */
typedef struct kv_row {
    int64_t id;
    kv_key key, parent;
    char tenant[KV_TENANT_SIZE];
    uint64_t begin;
    uint32_t part;
    const int32_t *tokens; /* valid until the next row is read */
    uint64_t n_tokens;
    uint64_t size; /* of the payload                   */
    uint64_t sum;
    uint64_t hits;
    double heat;
    int64_t used_ms;
} kv_row;

typedef struct kv_db {
    sqlite3 *db;
    sqlite3_stmt *put_chunk, *put_piece, *put_used;
    sqlite3_stmt *delete_chunk, *delete_pieces, *delete_used;
    sqlite3_stmt *count_pages, *count_free;
} kv_db;

/* Opens for writing, or makes, the file at path. PAWL_E_UNSUPPORTED: a newer version, both
 * named. PAWL_E_FORMAT: damaged, or another program's. An older one of ours: PAWL_E_FORMAT
 * likewise, for a cache is not migrated. Others: the disk. */
pawl_status kv_db_open(const char *path, kv_db *out, pawl_error *error);
void kv_db_close(kv_db *d); /* also one that was never opened, if zeroed */
pawl_status kv_db_open_reader(const char *path, sqlite3 **out, pawl_error *error);
/* Makes room for a new file after PAWL_E_FORMAT: what is ours is deleted, anything else is
 * renamed to PATH.old. No connection of this process may be writing. */
void kv_db_set_aside(const char *path);

/* Gives every row that makes sense to take(), oldest first, and the ids of those that do
 * not to refuse(). *next_id: above all ids. They may not use d. */
pawl_status kv_db_load(kv_db *d, void (*take)(void *arg, const kv_row *row),
                       void (*refuse)(void *arg, int64_t id), void *arg, int64_t *next_id,
                       pawl_error *error);
/* Deletes the pieces of a chunk that was never finished: from next_id on. *n: how many. */
pawl_status kv_db_sweep(kv_db *d, int64_t next_id, uint64_t *n, pawl_error *error);

/* These go into the transaction that is open. */
pawl_status kv_db_put_piece(kv_db *d, int64_t id, uint32_t n, const void *data, uint64_t size,
                            pawl_error *error);
pawl_status kv_db_put_row(kv_db *d, const kv_row *row, pawl_error *error);
pawl_status kv_db_put_used(kv_db *d, int64_t id, uint64_t hits, double heat, int64_t used_ms,
                           pawl_error *error);
pawl_status kv_db_delete(kv_db *d, int64_t id, pawl_error *error); /* row and pieces */
/* Pages of the file, and how many of them are free. */
pawl_status kv_db_pages(kv_db *d, uint64_t *pages, uint64_t *n_free, pawl_error *error);

/* What a row says of its chunk, borrowed from it; without the payload. */
kv_chunk kv_db_chunk_of(const kv_row *row);
/* An entry as a row of that id, without its sum and its use; tokens stay the entry's. */
void kv_db_row_of(const kv_entry *e, int64_t id, kv_row *row);
/* A row's checksum begins with everything but its payload. */
void kv_db_sum_row(kv_sum *sum, const kv_row *row);
uint32_t kv_db_n_pieces(uint64_t size);
int64_t kv_db_piece_id(int64_t id, uint32_t n);
/* About how many bytes of the file a chunk takes. */
uint64_t kv_db_footprint(uint64_t size, uint64_t n_tokens);

#endif /* STORE_KV_DB_H */
