/*
 * store/readers.c - connections that read pawl.db, for any thread. See readers.h.
 *
 * A get() is a few microseconds from the page cache; four connections are enough
 * that a large row does not hold up everybody. The order of locks: none is ever
 * taken while another is held.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/readers.h"

#include <string.h>

void readers_init(readers *all)
{
    memset(all, 0, sizeof *all);
    atomic_init(&all->next, 0);
    for (size_t i = 0; i < READERS_COUNT; i++)
        pthread_mutex_init(&all->each[i].lock, NULL);
}

void readers_destroy(readers *all)
{
    for (size_t i = 0; i < READERS_COUNT; i++)
        pthread_mutex_destroy(&all->each[i].lock);
}

static pawl_status connect_one(reader *one, const char *path, pawl_error *error)
{
    pawl_status status = db_open_reader(path, &one->db, error);
    if (status)
        return status;
    status = responses_open(&one->rows, one->db, false, error);
    if (status) {
        db_close(one->db);
        one->db = NULL;
    }
    return status;
}

pawl_status readers_connect(readers *all, const char *path, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < READERS_COUNT && !status; i++) {
        pthread_mutex_lock(&all->each[i].lock);
        status = connect_one(&all->each[i], path, error);
        pthread_mutex_unlock(&all->each[i].lock);
    }
    if (status)
        readers_disconnect(all);
    return status;
}

void readers_disconnect(readers *all)
{
    for (size_t i = 0; i < READERS_COUNT; i++) {
        reader *one = &all->each[i];
        pthread_mutex_lock(&one->lock);
        responses_close(&one->rows);
        db_close(one->db);
        one->db = NULL;
        pthread_mutex_unlock(&one->lock);
    }
}

pawl_status readers_get(readers *all, const char *id, bool with_removed, store_response **out,
                        pawl_error *error)
{
    pawl_status status;
    reader *one = &all->each[atomic_fetch_add(&all->next, 1) % READERS_COUNT];
    pthread_mutex_lock(&one->lock);
    if (one->db)
        status = responses_get(&one->rows, id, with_removed, out, error);
    else
        status = pawl_fail(error, PAWL_E_BUSY,
                           "the database is being opened again after a disk error; retry");
    pthread_mutex_unlock(&one->lock);
    return status;
}
