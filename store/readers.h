/*
 * store/readers.h - connections that read pawl.db, for any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_READERS_H
#define STORE_READERS_H

#include "store/responses.h"

#include <pthread.h>
#include <stdatomic.h>

#define READERS_COUNT 4

typedef struct reader {
    pthread_mutex_t lock; /* guards what follows              */
    sqlite3 *db;          /* NULL while the database is away  */
    responses rows;       /* its statements                   */
} reader;

typedef struct readers {
    reader each[READERS_COUNT]; /* a get() locks one of them           */
    atomic_uint next;           /* which one: they take turns          */
} readers;

void readers_init(readers *all);
void readers_destroy(readers *all); /* after readers_disconnect() */

/* Only the thread that owns the writing connection may connect and disconnect.
 * disconnect waits for gets that are under way; later ones are PAWL_E_BUSY until
 * connected again. */
pawl_status readers_connect(readers *all, const char *path, pawl_error *error);
void readers_disconnect(readers *all);

pawl_status readers_get(readers *all, const char *id, bool with_removed, store_response **out,
                        pawl_error *error); /* [any] */

#endif /* STORE_READERS_H */
