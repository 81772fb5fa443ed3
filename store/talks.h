/*
 * store/talks.h - names for places in the tree of responses, on one connection.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_TALKS_H
#define STORE_TALKS_H

#include "store/responses.h"

/* The statements of one connection; all zero where closed. */
typedef struct talks {
    responses *rows;        /* borrowed, and with it the connection         */
    sqlite3_stmt *get;      /* a whole row by id                            */
    sqlite3_stmt *place;    /* revision, head                               */
    sqlite3_stmt *insert;   /* NULL on a connection that reads, as are those below */
    sqlite3_stmt *update;   /* all but id, tenant and time of creation      */
    sqlite3_stmt *advance;  /* a new head                                   */
    sqlite3_stmt *delete_1; /* one row                                      */
    sqlite3_stmt *mark;     /* all its responses: removed = 1               */
    sqlite3_stmt *leaves;   /* those of them that nothing needs             */
} talks;

/* Prepares what is needed; rows stay the caller's and outlive it. [owner] */
pawl_status talks_open(talks *t, responses *rows, bool writes, pawl_error *error);
void talks_close(talks *t);

/* As in store.h, but at once and inside the transaction that is open. [owner] */
pawl_status talks_put(talks *t, const store_conversation *conversation, pawl_error *error);
pawl_status talks_remove(talks *t, const char *id, pawl_error *error);
/* A response, and what it changes in its conversation. */
pawl_status talks_put_response(talks *t, const store_response *response, pawl_error *error);

/* As in store.h. [owner] */
pawl_status talks_get(talks *t, const char *id, store_conversation **out, pawl_error *error);
pawl_status talks_list(talks *t, const store_page *page, store_conversation ***list, size_t *n,
                       pawl_error *error);

#endif /* STORE_TALKS_H */
