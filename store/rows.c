/*
 * store/rows.c - columns in and out of statements. See rows.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/rows.h"

#include <string.h>

#include "store/record.h"

void rows_bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    if (text)
        sqlite3_bind_text64(statement, at, text, strlen(text), SQLITE_STATIC, SQLITE_UTF8);
    else
        sqlite3_bind_null(statement, at);
}

void rows_reset(sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

pawl_status rows_run(sqlite3 *db, sqlite3_stmt *statement, const char *doing, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    if (sqlite3_step(statement) != SQLITE_DONE)
        status = db_fail(db, doing, error);
    rows_reset(statement);
    return status;
}

const char *rows_text(sqlite3_stmt *row, int at, size_t max, const char **bad)
{
    if (sqlite3_column_type(row, at) == SQLITE_TEXT) {
        const char *text = (const char *)sqlite3_column_text(row, at);
        size_t size = (size_t)sqlite3_column_bytes(row, at);
        if (text && size <= max && strlen(text) == size)
            return text;
    }
    *bad = sqlite3_column_name(row, at);
    return NULL;
}

const char *rows_link(sqlite3_stmt *row, int at, const char **bad)
{
    if (sqlite3_column_type(row, at) == SQLITE_NULL)
        return NULL;
    const char *id = rows_text(row, at, RECORD_MAX_ID, bad);
    if (id && !record_id_ok(id))
        *bad = sqlite3_column_name(row, at);
    return id;
}

bool rows_copy_text(sqlite3_stmt *row, int at, char *to, size_t room)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    size_t size = (size_t)sqlite3_column_bytes(row, at);
    if (sqlite3_column_type(row, at) != SQLITE_TEXT || !text || size >= room ||
        strlen(text) != size)
        return false;
    memcpy(to, text, size + 1);
    return true;
}

int64_t rows_int(sqlite3_stmt *row, int at, const char **bad)
{
    if (sqlite3_column_type(row, at) != SQLITE_INTEGER)
        *bad = sqlite3_column_name(row, at);
    return sqlite3_column_int64(row, at);
}
