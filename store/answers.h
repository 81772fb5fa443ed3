/*
 * store/answers.h - which response answered a request that had an Idempotency-Key.
 *
 * Written together with the response, in one transaction. Kept for a day, and at most
 * ANSWERS_MAX of them, the latest. On one connection.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_ANSWERS_H
#define STORE_ANSWERS_H

#include "store/db.h"
#include "store/store.h"

#define ANSWERS_MAX 100000

typedef struct answers {
    sqlite3 *db;          /* borrowed                          */
    sqlite3_stmt *find;   /* by tenant and key                 */
    sqlite3_stmt *insert; /* NULL on a connection that reads, like those below */
    sqlite3_stmt *expire; /* what is too old or too much       */
    sqlite3_stmt *forget; /* those of a response               */
} answers;

/* As for responses.h. [owner] */
pawl_status answers_open(answers *a, sqlite3 *db, bool writes, pawl_error *error);
void answers_close(answers *a);
/* Notes the response's key, which it has; another answer to it is replaced. */
pawl_status answers_put(answers *a, const store_response *response, pawl_error *error);
pawl_status answers_forget(answers *a, const char *response_id, pawl_error *error);
pawl_status answers_find(answers *a, const char *tenant, const char *key, int64_t since_ms,
                         store_answer *out, pawl_error *error);

#endif /* STORE_ANSWERS_H */
