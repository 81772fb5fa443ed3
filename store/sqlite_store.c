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
#include "store/control.h"
#include "store/folder.h"
#include "store/readers.h"
#include "store/record.h"
#include "store/writer.h"

typedef struct sqlite_store {
    store table;      /* what callers hold: first, so that it is this  */
    int lock;         /* the folder's                                  */
    readers readers;  /* for get()                                     */
    writer *writer;   /* the store thread                              */
    keys keys;        /* all of them, in memory                        */
    control *control; /* answers other processes; NULL: it cannot      */
} sqlite_store;

static pawl_status store_put(store *table, const store_response *response, store_done done,
                             void *arg, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    pawl_status status = record_check(response, error);
    return status ? status : writer_put(s->writer, response, done, arg, error);
}

static pawl_status store_get(store *table, const char *id, int how, store_response **response,
                             pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!record_id_ok(id)) /* ids come from clients: one that cannot be was never stored */
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response of that id");
    reader *one = readers_take(&s->readers);
    pawl_status status = responses_get(&one->rows, id, how, response, error);
    readers_give(one);
    return status;
}

static pawl_status store_remove(store *table, const char *id, store_done done, void *arg,
                                pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!record_id_ok(id))
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored response of that id");
    return writer_remove(s->writer, id, done, arg, error);
}

/* ---------------------------------------------------------- conversations --- */

static pawl_status store_conversation_put(store *table, const store_conversation *conversation,
                                          store_done done, void *arg, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    pawl_status status = record_conversation_check(conversation, error);
    return status ? status : writer_conversation_put(s->writer, conversation, done, arg, error);
}

static pawl_status fail_unknown(pawl_error *error)
{
    return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no stored conversation of that id");
}

static pawl_status store_conversation_get(store *table, const char *id,
                                          store_conversation **conversation, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!record_id_ok(id))
        return fail_unknown(error);
    reader *one = readers_take(&s->readers);
    pawl_status status = talks_get(&one->talks, id, conversation, error);
    readers_give(one);
    return status;
}

static pawl_status store_conversation_list(store *table, const store_page *page,
                                           store_conversation ***list, size_t *n, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (page->limit < 1 || page->limit > STORE_MAX_PAGE)
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "a page of %zu conversations; from 1 to %d may be "
                         "asked for",
                         page->limit, STORE_MAX_PAGE);
    if (page->after && !record_id_ok(page->after))
        return fail_unknown(error);
    reader *one = readers_take(&s->readers);
    pawl_status status = talks_list(&one->talks, page, list, n, error);
    readers_give(one);
    return status;
}

static pawl_status store_conversation_remove(store *table, const char *id, store_done done,
                                             void *arg, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!record_id_ok(id))
        return fail_unknown(error);
    return writer_conversation_remove(s->writer, id, done, arg, error);
}

static pawl_status store_answer_find(store *table, const char *tenant, const char *key,
                                     int64_t since_ms, store_answer *answer, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    reader *one = readers_take(&s->readers);
    pawl_status status = answers_find(&one->rows.answers, tenant, key, since_ms, answer, error);
    readers_give(one);
    return status;
}

static void store_close(store *table)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!s)
        return;
    control_close(s->control);
    writer_stop(s->writer); /* done()s that it calls may still read */
    readers_close(&s->readers);
    writer_close(s->writer);
    keys_close(&s->keys);
    folder_close(s->lock);
    free(s);
}

/* ------------------------------------------------------------------- keys --- */

static pawl_status store_key_add(store *table, const store_key *key, store_done done, void *arg,
                                 pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    pawl_status status = keys_check(key, error);
    return status ? status : writer_key_add(s->writer, key, done, arg, error);
}

static pawl_status store_key_mark(store *table, const char *id, enum store_key_mark mark,
                                  int64_t when_ms, store_done done, void *arg, pawl_error *error)
{
    sqlite_store *s = (sqlite_store *)table;
    if (!record_id_ok(id))
        return pawl_fail(error, PAWL_E_NOT_FOUND, "there is no key of that id");
    return writer_key_mark(s->writer, id, mark, when_ms, done, arg, error);
}

static bool store_key_find(store *table, const char *hash, const char *id, store_key *key)
{
    return keys_find(&((sqlite_store *)table)->keys, hash, id, key);
}

static size_t store_key_count(store *table)
{
    return keys_count(&((sqlite_store *)table)->keys);
}

static pawl_status store_key_list(store *table, store_key **list, size_t *n, pawl_error *error)
{
    return keys_list(&((sqlite_store *)table)->keys, list, n, error);
}

/* ---------------------------------------------------------------- opening --- */

static pawl_status open_parts(sqlite_store *s, const char *folder, metrics *all, pawl_error *error)
{
    char *path = file_join(folder, "pawl.db");
    if (!path)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", folder);
    pawl_status status = folder_own_file(path, error);
    if (!status)
        status = writer_open(path, &s->keys, all, &s->writer, error);
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
    s->table = (store){.put = store_put,
                       .get = store_get,
                       .remove = store_remove,
                       .answer_find = store_answer_find,
                       .close = store_close,
                       .key_add = store_key_add,
                       .key_mark = store_key_mark,
                       .key_find = store_key_find,
                       .key_count = store_key_count,
                       .key_list = store_key_list,
                       .conversation_put = store_conversation_put,
                       .conversation_get = store_conversation_get,
                       .conversation_list = store_conversation_list,
                       .conversation_remove = store_conversation_remove};
    status = keys_open(&s->keys, error);
    if (!status) {
        status = open_parts(s, folder, all, error);
        if (status)
            keys_close(&s->keys);
    }
    if (status) {
        folder_close(s->lock);
        free(s);
        return status;
    }
    pawl_error why = {.struct_size = sizeof why};
    if (control_open(folder, &s->table, &s->control, &why) != PAWL_OK)
        log_write(PAWL_LOG_WARN, "store", "keys cannot be changed while this runs: %s",
                  why.message);
    log_write(PAWL_LOG_INFO, "store", "%s is open, SQLite %s", folder, sqlite3_libversion());
    *out = &s->table;
    return PAWL_OK;
}
