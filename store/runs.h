/*
 * store/runs.h - runs of pipelines: their rows, and what they are asked for.
 *
 * A write is prepared on the caller's thread (checked, copied into one allocation) and
 * applied by the store thread inside its transaction; a question is answered on one of the
 * reading connections.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_RUNS_H
#define STORE_RUNS_H

#include "store/db.h"
#include "store/store.h"

typedef struct runs_write runs_write;

/* As in store.h; *what is one allocation of *size bytes. [any] */
pawl_status runs_prepare_put(const store_run *run, const char *text, runs_write **what,
                             size_t *size, pawl_error *error);
pawl_status runs_prepare_add(const store_addition *more, runs_write **what, size_t *size,
                             pawl_error *error);

/* Inside the transaction that is open; what: as prepared, of runs_remove an id. [store] */
pawl_status runs_put(sqlite3 *db, const void *what, pawl_error *error);
pawl_status runs_add(sqlite3 *db, const void *what, pawl_error *error);
pawl_status runs_remove(sqlite3 *db, const void *what, pawl_error *error);

enum runs_kind { RUNS_GET, RUNS_SOURCE, RUNS_STEP, RUNS_LIST, RUNS_EVENTS, RUNS_MEASURE };

/* One of the reading functions of store.h with its arguments. */
typedef struct runs_question {
    enum runs_kind kind;
    const char *id;  /* of a run; RUNS_SOURCE: a digest; RUNS_LIST: a state or NULL */
    const char *key; /* RUNS_STEP                                 */
    uint64_t after;  /* RUNS_EVENTS                               */
    size_t max;      /* rows                                      */
    store_run **run; /* where answers go, by kind                 */
    char **text;
    store_event **events;
    store_run_size *size;
    size_t *n;
} runs_question;

/* arg: a runs_question. [a reader] */
pawl_status runs_read(sqlite3 *db, void *arg, pawl_error *error);

#endif /* STORE_RUNS_H */
