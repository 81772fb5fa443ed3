/*
 * store/db.h - SQLite connections as this house uses them.
 *
 * A database has one connection that writes and checkpoints (the store thread's)
 * and any number that only read. None has SQLite's own mutex: whoever owns a
 * connection sees to it that one thread at a time uses it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_DB_H
#define STORE_DB_H

#include <pawl/plugin.h>

#include <sqlite3.h>

/* What a file must be to be ours, and how one comes to be (migrate.c). */
typedef struct db_kind {
    const char *name;           /* for messages: "pawl.db"                          */
    int application_id;         /* in the file's header                             */
    const char *const *scripts; /* scripts[v] brings a file of version v to v + 1   */
    int version;                /* how many scripts there are: what this build uses */
    const char *before;         /* PRAGMAs of a new file, before its first page; or NULL */
    const char *settings;       /* PRAGMAs after those of db.c; or NULL             */
} db_kind;

/* Opens, checks and, where it is older or new, migrates. The file exists already,
 * empty where it is new. Refusals as in sqlite_store.h. [owner] */
pawl_status db_open_writer(const char *path, const db_kind *kind, sqlite3 **out, pawl_error *error);
/* After the writer was opened, for as long as it is open. [owner] */
pawl_status db_open_reader(const char *path, sqlite3 **out, pawl_error *error);
/* Statements must have been finalized; NULL is allowed. */
void db_close(sqlite3 *db);

pawl_status db_exec(sqlite3 *db, const char *sql, pawl_error *error);
pawl_status db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, pawl_error *error);
/* The first column of the first row, an integer. */
pawl_status db_get_int(sqlite3 *db, const char *sql, int64_t *out, pawl_error *error);

/* The error of the call that just failed on this connection:
 *   PAWL_E_LIMIT   no space left           PAWL_E_DEVICE  the disk failed
 *   PAWL_E_FORMAT  the file is damaged     PAWL_E_BUSY    locked by someone else
 *   PAWL_E_MEMORY, PAWL_E_ARGUMENT (a constraint), PAWL_E_INTERNAL */
pawl_status db_fail(sqlite3 *db, const char *doing, pawl_error *error);

/* Copies the log into the database file. mode: SQLITE_CHECKPOINT_PASSIVE does what
 * it can, SQLITE_CHECKPOINT_TRUNCATE all of it and empties the log, or fails. Only
 * on the writing connection. */
pawl_status db_checkpoint(sqlite3 *db, int mode, pawl_error *error);

#endif /* STORE_DB_H */
