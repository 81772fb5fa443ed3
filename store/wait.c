/*
 * store/wait.c - waiting for a write. See wait.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/wait.h"

void store_wait_open(store_wait *w)
{
    *w = (store_wait){.error = {.struct_size = sizeof w->error}};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->came, NULL);
}

void store_wait_done(void *arg, pawl_status status, const pawl_error *error)
{
    store_wait *w = arg;
    pthread_mutex_lock(&w->lock);
    w->status = status;
    if (error)
        w->error = *error;
    w->done = true;
    pthread_cond_signal(&w->came); /* under the lock: the waiter destroys both afterwards */
    pthread_mutex_unlock(&w->lock);
}

pawl_status store_wait_close(store_wait *w, pawl_status asked, pawl_error *error)
{
    pawl_status status = asked;
    if (!asked) {
        pthread_mutex_lock(&w->lock);
        while (!w->done)
            pthread_cond_wait(&w->came, &w->lock);
        pthread_mutex_unlock(&w->lock);
        status = w->status;
        if (status && error)
            *error = w->error;
    }
    pthread_cond_destroy(&w->came);
    pthread_mutex_destroy(&w->lock);
    return status;
}
