/*
 * store/readers.h - connections that read pawl.db, for any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_READERS_H
#define STORE_READERS_H

#include "store/talks.h"

#include <pthread.h>
#include <stdatomic.h>

#define READERS_COUNT 4

typedef struct reader {
    pthread_mutex_t lock; /* guards what follows              */
    sqlite3 *db;          /* its own connection               */
    responses rows;       /* its statements                   */
    talks talks;          /* and these                        */
} reader;

typedef struct readers {
    reader each[READERS_COUNT]; /* a get() locks one of them           */
    atomic_uint next;           /* which one: they take turns          */
} readers;

/* After the writing connection, and closed before it. [main] */
pawl_status readers_open(readers *all, const char *path, pawl_error *error);
void readers_close(readers *all);

/* One of them, for a few statements, to be given back by the same thread. [any] */
reader *readers_take(readers *all);
void readers_give(reader *one);

#endif /* STORE_READERS_H */
