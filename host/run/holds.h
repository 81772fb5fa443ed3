/*
 * run/holds.h - which conversations somebody works on.
 *
 * A turn on a conversation, and whoever changes one, holds it from before it is read
 * until what follows from that is stored. Nobody waits for a hold: the second one is told
 * so. Holds live in this process, which is the only one that writes the store.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_HOLDS_H
#define RUN_HOLDS_H

#include <pthread.h>
#include <stdbool.h>

typedef struct run_holds {
    pthread_mutex_t lock; /* guards what follows         */
    struct hold *first;   /* a list: as many as turns run */
} run_holds;

void run_holds_open(run_holds *holds);
void run_holds_close(run_holds *holds);

/* False: somebody holds it, or there is no memory. [any] */
bool run_holds_take(run_holds *holds, const char *id);
void run_holds_give(run_holds *holds, const char *id); /* [any] */

#endif /* RUN_HOLDS_H */
