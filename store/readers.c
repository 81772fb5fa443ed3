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

static pawl_status open_one(reader *one, const char *path, pawl_error *error)
{
    pawl_status status = db_open_reader(path, &one->db, error);
    if (!status)
        status = responses_open(&one->rows, one->db, false, error);
    if (!status)
        status = talks_open(&one->talks, &one->rows, false, error);
    return status;
}

pawl_status readers_open(readers *all, const char *path, pawl_error *error)
{
    pawl_status status = PAWL_OK;
    memset(all, 0, sizeof *all);
    atomic_init(&all->next, 0);
    for (size_t i = 0; i < READERS_COUNT; i++)
        pthread_mutex_init(&all->each[i].lock, NULL);
    for (size_t i = 0; i < READERS_COUNT && !status; i++)
        status = open_one(&all->each[i], path, error);
    if (status)
        readers_close(all);
    return status;
}

void readers_close(readers *all)
{
    for (size_t i = 0; i < READERS_COUNT; i++) {
        talks_close(&all->each[i].talks);
        responses_close(&all->each[i].rows);
        db_close(all->each[i].db);
        pthread_mutex_destroy(&all->each[i].lock);
    }
}

reader *readers_take(readers *all)
{
    reader *one = &all->each[atomic_fetch_add(&all->next, 1) % READERS_COUNT];
    pthread_mutex_lock(&one->lock);
    return one;
}

void readers_give(reader *one)
{
    pthread_mutex_unlock(&one->lock);
}
