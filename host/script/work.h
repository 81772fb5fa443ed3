/*
 * script/work.h - a job that a script has given to the worker thread.
 *
 * For what takes too long to do on the run's thread, or belongs to the worker's: history,
 * rendering, tokenising, reading the store.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_WORK_H
#define SCRIPT_WORK_H

#include "run/runtime.h"
#include "script/pending.h"

typedef struct work {
    pending base;
    void (*run)(void *job);   /* [worker] */
    void (*clear)(void *job); /* frees it, done or not */
    void *job;
} work;

/* The job becomes the work's in every case. NULL: no memory, or the worker takes no more. */
work *work_start(pending_hub *hub, run_runtime *runtime, void (*run)(void *job),
                 void (*clear)(void *job), void *job);

#endif /* SCRIPT_WORK_H */
