/*
 * store_help.h - what the tests of the store share: a folder that goes away again,
 * responses to put, and waiting for done().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_HELP_H
#define STORE_HELP_H

#include "store/store.h"

#include <ftw.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct help_waiter {
    pthread_mutex_t lock;
    pthread_cond_t came;
    unsigned calls;     /* how often done() was called */
    pawl_status status; /* what it said last           */
    pawl_error error;
} help_waiter;

#define HELP_WAITER                                                                                \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER                        \
    }

static inline void help_done(void *arg, pawl_status status, const pawl_error *error)
{
    help_waiter *w = arg;
    pthread_mutex_lock(&w->lock);
    w->calls++;
    w->status = status;
    if (error)
        w->error = *error;
    pthread_cond_broadcast(&w->came);
    pthread_mutex_unlock(&w->lock);
}

static inline pawl_status help_wait(help_waiter *w, unsigned calls)
{
    pthread_mutex_lock(&w->lock);
    while (w->calls < calls)
        pthread_cond_wait(&w->came, &w->lock);
    pawl_status status = w->status;
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* A small response; its text members say whose they are. tokens are static. */
static inline store_response help_response(const char *id, const char *parent_id)
{
    static const int32_t tokens[] = {1, 50256, -1, 2147483647};
    return (store_response){.id = id,
                            .parent_id = parent_id,
                            .model = "smollm2",
                            .status = "completed",
                            .created_ms = 1767225600123,
                            .completed_ms = 1767225601456,
                            .request = "{\"temperature\":0}",
                            .input = "[{\"type\":\"message\"}]",
                            .output = "[]",
                            .result = "{\"usage\":{}}",
                            .tokens = tokens,
                            .n_tokens = 4,
                            .n_prompt = 3};
}

/* Puts and waits; what put() refuses at once is returned likewise. */
static inline pawl_status help_put(store *s, const store_response *r, pawl_error *error)
{
    help_waiter w = HELP_WAITER;
    pawl_status status = s->put(s, r, help_done, &w, error);
    if (status)
        return status;
    status = help_wait(&w, 1);
    if (status && error)
        *error = w.error;
    return status;
}

static inline pawl_status help_remove(store *s, const char *id, pawl_error *error)
{
    help_waiter w = HELP_WAITER;
    pawl_status status = s->remove(s, id, help_done, &w, error);
    if (status)
        return status;
    status = help_wait(&w, 1);
    if (status && error)
        *error = w.error;
    return status;
}

static inline bool help_has(store *s, const char *id, int with_removed)
{
    store_response *found = NULL;
    bool has = s->get(s, id, with_removed, &found, NULL) == PAWL_OK;
    free(found);
    return has;
}

static inline void help_make_folder(char folder[64])
{
    strcpy(folder, "/tmp/pawl-store-XXXXXX");
    if (!mkdtemp(folder))
        abort();
}

static inline int help_unlink_one(const char *path, const struct stat *st, int flag,
                                  struct FTW *where)
{
    (void)st;
    (void)flag;
    (void)where;
    return remove(path);
}

static inline void help_remove_folder(const char *folder)
{
    nftw(folder, help_unlink_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Runs SQL on a file of a folder as a stranger would; ends the test program where it fails. */
static inline void help_sql(const char *folder, const char *file, const char *sql)
{
    char path[128];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        abort();
    }
    sqlite3_close(db);
}

#endif /* STORE_HELP_H */
