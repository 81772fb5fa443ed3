/*
 * store/sqlite_store.c - the embedded store: pawl.db in a data folder.
 *
 *     any thread ── put, remove ──> queue ──> store thread ──> one writing connection
 *     any thread ── get ─────────────────────────────────────> four reading ones
 *
 * This file puts the parts together in the right order and checks what comes in;
 * folder.c holds the folder, writer.c the thread, readers.c the other connections.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/sqlite_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "store/folder.h"
#include "store/readers.h"
#include "store/record.h"
#include "store/writer.h"

typedef struct sqlite_store {
    store table;     /* what callers hold: first, so that it is this  */
    int lock;        /* the folder's                                  */
    readers readers; /* for get()                                     */
    writer *writer;  /* the store thread                              */
} sqlite_store;

static pawl_status store_put(store *table, const store_response *response, store_done done,
                             void *arg, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    pawl_status status = record_check(response, error);
    return status ? status : writer_put(s->writer, response, done, arg, error);
}

static pawl_status store_get(store *table, const char *id, int with_removed,
                             store_response **response, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!record_id_ok(id)) /* ids come from clients: one that cannot be was never stored */
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response of that id");
    return readers_get(&s->readers, id, with_removed != 0, response, error);
}

static pawl_status store_remove(store *table, const char *id, store_done done, void *arg,
                                pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!record_id_ok(id))
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response of that id");
    return writer_remove(s->writer, id, done, arg, error);
}

static void store_close(store *table)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!s)
        return;
    writer_stop(s->writer); /* done()s that it calls may still read */
    readers_close(&s->readers);
    writer_close(s->writer);
    folder_close(s->lock);
    free(s);
}

static pawl_status open_parts(sqlite_store *s, const char *folder, metrics *all, pawl_error *error)
{
    char *path = file_join(folder, "pawl.db");
    if (!path)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", folder);
    pawl_status status = folder_own_file(path, error);
    if (!status)
        status = writer_open(path, all, &s->writer, error);
    if (!status) {
        status = readers_open(&s->readers, path, error);
        if (status) {
            writer_stop(s->writer);
            writer_close(s->writer);
        }
    }
    free(path);
    return status;
}

pawl_status sqlite_store_open(const char *folder, store **out, pawl_error *error)
{
    return sqlite_store_open_measured(folder, NULL, out, error);
}

pawl_status sqlite_store_open_measured(const char *folder, metrics *all, store **out,
                                       pawl_error *error)
{
    sqlite_store *s = calloc(1, sizeof *s);
    if (!s)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", folder);
    pawl_status status = folder_open(folder, &s->lock, error);
    if (status) {
        free(s);
        return status;
    }
    s->table = (store){store_put, store_get, store_remove, store_close};
    status = open_parts(s, folder, all, error);
    if (status) {
        folder_close(s->lock);
        free(s);
        return status;
    }
    log_write(PAWL_LOG_INFO, "store", "%s is open, SQLite %s", folder, sqlite3_libversion());
    *out = &s->table;
    return PAWL_OK;
}
