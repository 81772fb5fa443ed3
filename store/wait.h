/*
 * store/wait.h - waiting for a write, for those who have nothing else to do.
 *
 *     store_wait w;
 *     store_wait_open(&w);
 *     status = s->put(s, &response, store_wait_done, &w, error);
 *     status = store_wait_close(&w, status, error);
 *
 * Not for the store's own thread, which would wait for itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_WAIT_H
#define STORE_WAIT_H

#include "store/store.h"

#include <pthread.h>

typedef struct store_wait {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t came;
    bool done;
    pawl_status status;
    pawl_error error;
} store_wait;

void store_wait_open(store_wait *w);
void store_wait_done(void *arg, pawl_status status, const pawl_error *error); /* a store_done */
/* What the write came to. asked: what the call itself returned; unless that was PAWL_OK,
 * there is nothing to wait for. */
pawl_status store_wait_close(store_wait *w, pawl_status asked, pawl_error *error);

#endif /* STORE_WAIT_H */
