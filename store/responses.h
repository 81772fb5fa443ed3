/*
 * store/responses.h - the tree of responses, on one connection.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_RESPONSES_H
#define STORE_RESPONSES_H

#include "store/answers.h"
#include "store/db.h"
#include "store/store.h"

#include <stdbool.h>

/* What pawl.db must be. */
extern const db_kind responses_kind;

/* The statements of one connection; all zero where closed. */
typedef struct responses {
    sqlite3 *db;            /* borrowed                           */
    sqlite3_stmt *get;      /* a whole row by id                  */
    sqlite3_stmt *texts;    /* the same without tokens and tenant */
    sqlite3_stmt *look;     /* parent, removed, is needed         */
    sqlite3_stmt *insert;   /* NULL on a connection that reads    */
    sqlite3_stmt *mark;     /* removed = 1; NULL likewise         */
    sqlite3_stmt *delete_1; /* one row; NULL likewise             */
    answers answers;        /* which of them answer a key         */
} responses;

/* Prepares what is needed; db stays the caller's and outlives it. [owner] */
pawl_status responses_open(responses *r, sqlite3 *db, bool writes, pawl_error *error);
void responses_close(responses *r);

/* As in store.h, but at once and inside the transaction that is open; of a conversation
 * only its name is kept (talks.h does the rest). head: the parent may be removed,
 * for a conversation has it as its head. A status from SQLite itself (db_fail) may have
 * ended that transaction. [owner] */
pawl_status responses_put(responses *r, const store_response *response, bool head,
                          pawl_error *error);
pawl_status responses_remove(responses *r, const char *id, pawl_error *error);
/* PAWL_E_NOT_FOUND where there is no row, removed ones counting. */
pawl_status responses_check(responses *r, const char *id, pawl_error *error);
/* Something no longer needs this response: where it was removed, and nothing else needs
 * it either, its row goes, and so on upwards. Unknown ones are fine. */
pawl_status responses_let_go(responses *r, const char *id, pawl_error *error);

/* As in store.h. [owner] */
pawl_status responses_get(responses *r, const char *id, int how, store_response **out,
                          pawl_error *error);

#endif /* STORE_RESPONSES_H */
