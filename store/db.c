/*
 * store/db.c - SQLite connections as this house uses them. See db.h.
 *
 * Settings and why:
 *   journal_mode WAL       readers never wait for the writer
 *   synchronous EXTRA      a commit that returned survives a power cut. With a log that is
 *                          FULL, but making a new file and its log takes a journal whose
 *                          removal only EXTRA flushes: a journal that came back after a
 *                          power cut would undo all, log included
 *   wal_autocheckpoint 0   SQLite before 3.51.3 loses pages when one connection
 *                          commits while another checkpoints and resets the log.
 *                          So one connection does both, when it says so.
 *   query_only, READONLY   readers cannot break that rule
 *   foreign_keys           the tree of responses has no torn edges
 *   secure_delete          what was removed is overwritten, whatever SQLite's default
 *   trusted_schema off, cell_size_check, DEFENSIVE: the file may be hostile
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/db.h"

#include <string.h>

#include "store/migrate.h"

#define BUSY_MS 2000         /* for external tools that hold a lock for a moment */
#define LOG_LIMIT "67108864" /* the log file is cut to 64 MiB after a checkpoint */

static pawl_status code_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return PAWL_E_LIMIT;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return PAWL_E_DEVICE;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return PAWL_E_FORMAT;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return PAWL_E_BUSY;
    case SQLITE_NOMEM:
        return PAWL_E_MEMORY;
    case SQLITE_CONSTRAINT:
        return PAWL_E_ARGUMENT;
    case SQLITE_TOOBIG:
        return PAWL_E_LIMIT;
    default:
        return PAWL_E_INTERNAL;
    }
}

pawl_status db_fail(sqlite3 *db, const char *doing, pawl_error *error)
{
    int rc = sqlite3_extended_errcode(db);
    int system_errno = sqlite3_system_errno(db);
    pawl_status code = code_of(rc);
    const char *path = sqlite3_db_filename(db, "main");
    if (!path)
        path = "the database";
    if (code == PAWL_E_LIMIT && (rc & 0xff) != SQLITE_TOOBIG)
        return pawl_fail(error, code, "%s: no space left on the disk while %s; free some", path,
                         doing);
    if (code == PAWL_E_DEVICE)
        return pawl_fail(error, code, "%s: the disk failed: %s (%d%s%s) while %s", path,
                         sqlite3_errmsg(db), rc, system_errno ? ", " : "",
                         system_errno ? strerror(system_errno) : "", doing);
    return pawl_fail(error, code, "%s: %s (%d) while %s", path, sqlite3_errmsg(db), rc, doing);
}

pawl_status db_exec(sqlite3 *db, const char *sql, pawl_error *error)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return db_fail(db, sql, error);
    return PAWL_OK;
}

pawl_status db_prepare(sqlite3 *db, const char *sql, sqlite3_stmt **out, pawl_error *error)
{
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) != SQLITE_OK)
        return db_fail(db, "preparing a statement", error);
    return PAWL_OK;
}

pawl_status db_get_int(sqlite3 *db, const char *sql, int64_t *out, pawl_error *error)
{
    sqlite3_stmt *statement;
    pawl_status status = db_prepare(db, sql, &statement, error);
    if (status)
        return status;
    if (sqlite3_step(statement) == SQLITE_ROW)
        *out = sqlite3_column_int64(statement, 0);
    else
        status = db_fail(db, sql, error);
    sqlite3_finalize(statement);
    return status;
}

void db_close(sqlite3 *db)
{
    sqlite3_close(db);
}

static pawl_status open_file(const char *path, int flags, sqlite3 **out, pawl_error *error)
{
    sqlite3 *db = NULL;
    pawl_status status = PAWL_OK;
    if (sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        status = db ? db_fail(db, "opening it", error)
                    : pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", path);
    if (!status) {
        sqlite3_extended_result_codes(db, 1);
        sqlite3_busy_timeout(db, BUSY_MS);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        status = db_exec(db,
                         "PRAGMA wal_autocheckpoint = 0; PRAGMA trusted_schema = OFF;"
                         "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;",
                         error);
    }
    if (status) {
        db_close(db);
        return status;
    }
    *out = db;
    return PAWL_OK;
}

/* journal_mode answers with the mode that is now in force. */
static pawl_status set_wal(sqlite3 *db, pawl_error *error)
{
    sqlite3_stmt *statement;
    pawl_status status = db_prepare(db, "PRAGMA journal_mode = WAL", &statement, error);
    if (status)
        return status;
    if (sqlite3_step(statement) != SQLITE_ROW) {
        status = db_fail(db, "switching to a write-ahead log", error);
    } else {
        const char *mode = (const char *)sqlite3_column_text(statement, 0);
        if (!mode || strcmp(mode, "wal") != 0)
            status = pawl_fail(error, PAWL_E_UNSUPPORTED,
                               "%s: the file system cannot carry a write-ahead log (it needs "
                               "shared memory); use a local disk",
                               sqlite3_db_filename(db, "main"));
    }
    sqlite3_finalize(statement);
    return status;
}

pawl_status db_open_writer(const char *path, const db_kind *kind, sqlite3 **out, pawl_error *error)
{
    if (!sqlite3_threadsafe())
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "this SQLite was built without threads; use one built with them");
    sqlite3 *db;
    pawl_status status = open_file(path, SQLITE_OPEN_READWRITE, &db, error);
    if (status)
        return status;
    status = migrate_check(db, kind, error); /* before anything is written */
    if (!status)
        status = db_exec(db, "PRAGMA synchronous = EXTRA", error); /* before the first write */
    if (!status && kind->before)
        status = db_exec(db, kind->before, error);
    if (!status)
        status = set_wal(db, error);
    if (!status)
        status = db_exec(db,
                         "PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;"
                         "PRAGMA journal_size_limit = " LOG_LIMIT ";",
                         error);
    if (!status && kind->settings)
        status = db_exec(db, kind->settings, error);
    if (!status)
        status = migrate_run(db, kind, error);
    if (status) {
        db_close(db);
        return status;
    }
    *out = db;
    return PAWL_OK;
}

pawl_status db_open_reader(const char *path, sqlite3 **out, pawl_error *error)
{
    sqlite3 *db;
    pawl_status status = open_file(path, SQLITE_OPEN_READONLY, &db, error);
    if (status)
        return status;
    sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    status = db_exec(db, "PRAGMA query_only = ON", error);
    if (status) {
        db_close(db);
        return status;
    }
    *out = db;
    return PAWL_OK;
}

pawl_status db_checkpoint(sqlite3 *db, int mode, pawl_error *error)
{
    if (sqlite3_wal_checkpoint_v2(db, NULL, mode, NULL, NULL) != SQLITE_OK)
        return db_fail(db, "copying the log into it", error);
    return PAWL_OK;
}
