/*
 * sim/disk.h - a store whose writes take virtual time, wait in a short queue, and fail.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "sim.h"

#define DISK_QUEUE 32

typedef struct disk_write {
    uint32_t turn;
    int64_t due;
    store_done done;
    void *arg;
} disk_write;

typedef struct sim_disk {
    store store; /* first: the host has a pointer to it */
    sim *sim;
    rng random;
    disk_write queue[DISK_QUEUE]; /* n_queued of them, oldest first */
    uint32_t n_queued;
} sim_disk;

void disk_open(sim *s);
void disk_close(sim *s);
/* Completes writes that are due; the next one's time, or SIM_NEVER. all: whenever due. */
int64_t disk_work(sim *s, bool all);

#endif /* SIM_DISK_H */
