/*
 * store/rows.h - columns in and out of statements, for the tables of pawl.db.
 *
 * What is read is what someone wrote into a file once: each column is checked for its
 * type and its length before it is believed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include <stdbool.h>

#include "store/db.h"

/* Borrowed until the statement is reset; NULL binds NULL. at: from 1. */
void rows_bind_text(sqlite3_stmt *statement, int at, const char *text);
/* Runs a statement that answers with no row, and makes it ready for the next. */
pawl_status rows_run(sqlite3 *db, sqlite3_stmt *statement, const char *doing, pawl_error *error);
/* Makes it ready for the next, whatever it did. */
void rows_reset(sqlite3_stmt *statement);

/* A text column of at most max bytes, without NUL inside; NULL with *bad set to its
 * name otherwise. at: from 0. */
const char *rows_text(sqlite3_stmt *row, int at, size_t max, const char **bad);
/* The same for one that may be NULL: an id or nothing. */
const char *rows_link(sqlite3_stmt *row, int at, const char **bad);
/* A text column, whole and without NUL inside, into room bytes. False: it is none, or too long. */
bool rows_copy_text(sqlite3_stmt *row, int at, char *to, size_t room);
int64_t rows_int(sqlite3_stmt *row, int at, const char **bad);

#endif /* STORE_ROWS_H */
