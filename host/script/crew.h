/*
 * script/crew.h - threads for what scripts wait for and the worker is too busy for: files,
 * child processes, other people's servers.
 *
 * The host opens one for all its runs. A job is a pending (pending.h): it runs on a thread of
 * the crew, and its end is told to the hub of the run that started it. A job that may take
 * long watches its stop descriptor, which can be read once the run has given it up.
 *
 * A child process that a thread starts dies with the thread, so these live until
 * crew_close(). No Lua here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_CREW_H
#define SCRIPT_CREW_H

#include "script/pending.h"

#define CREW_MAX_THREADS 64
#define CREW_MAX_WAITING 4096 /* jobs that no thread has taken yet */

typedef struct crew crew;

/* NULL: no memory, or no threads. */
crew *crew_open(unsigned n_threads);
/* Every run that has started jobs is closed. Waits for what is left of them. NULL allowed. */
void crew_close(crew *c);

typedef struct crew_job {
    pending base;
    struct crew_job *next;
    int stop_fd;                          /* an eventfd                        */
    void (*run)(void *work, int stop_fd); /* [crew] not called once cancelled */
    void (*clear)(void *work);            /* frees it, done or not             */
    void *work;
} crew_job;

/* The work becomes the job's in every case. NULL: no memory, or too many wait. */
crew_job *crew_start(crew *c, pending_hub *hub, void (*run)(void *work, int stop_fd),
                     void (*clear)(void *work), void *work);
/* Whether the job with this stop descriptor is not wanted any more. */
bool crew_is_stopped(int stop_fd);

#endif /* SCRIPT_CREW_H */
