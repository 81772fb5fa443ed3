/*
 * store/keys.h - API keys: their rows, and all of them in memory.
 *
 * A key is looked up for every request, so the answer comes from memory; the store
 * thread writes rows and, when they are committed, the memory. A `keys` belongs to
 * sqlite_store.c and outlives the writer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_KEYS_H
#define STORE_KEYS_H

#include "store/store.h"

#include <pthread.h>
#include <sqlite3.h>

typedef struct keys {
    pthread_rwlock_t lock; /* guards what follows; held for microseconds  */
    store_key *list;       /* n of room for STORE_MAX_KEYS, oldest first  */
    size_t n;
    size_t n_damaged; /* rows that could not be believed: they count */
} keys;

pawl_status keys_open(keys *all, pawl_error *error); /* [main] */
void keys_close(keys *all);                          /* [main] */

/* What a key must be, in memory and on the way in. [any] */
pawl_status keys_check(const store_key *key, pawl_error *error);

/* Reads all rows. [owner of db] */
pawl_status keys_load(keys *all, sqlite3 *db, pawl_error *error);
/* Inside the transaction that is open. [store] */
pawl_status keys_insert(sqlite3 *db, const store_key *key, pawl_error *error);
pawl_status keys_update(sqlite3 *db, const char *id, enum store_key_mark mark, int64_t when_ms,
                        pawl_error *error);
/* After it was committed. [store] */
void keys_learn(keys *all, const store_key *key);
void keys_learn_mark(keys *all, const char *id, enum store_key_mark mark, int64_t when_ms);

/* As in store.h. [any] */
bool keys_find(keys *all, const char *hash, const char *id, store_key *key);
size_t keys_count(keys *all);
pawl_status keys_list(keys *all, store_key **list, size_t *n, pawl_error *error);

#endif /* STORE_KEYS_H */
