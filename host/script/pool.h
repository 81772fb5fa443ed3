/*
 * script/pool.h - threads that step the instances of a server, a slice at a time.
 *
 * An instance is on one thread at a time. One that waits is on none: its hub wakes it, or
 * the clock does. One whose slice is over goes behind the others, so that a script which
 * computes delays nobody by more than a slice for each of those before him.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_POOL_H
#define SCRIPT_POOL_H

#include "script/instance.h"

#define POOL_MAX_RUNS 1024 /* at once, those that wait included */
#define POOL_MAX_JOBS 256
#define POOL_SLICE_NS 1000000

typedef struct pool pool;
typedef struct pool_place pool_place; /* of one instance */

/* ended(arg, id): an instance is gone. [a worker] */
pool *pool_open(const base_clock *clock, size_t n_workers, void (*ended)(void *arg, const char *id),
                void *arg, pawl_error *error);
/* Stops the workers, does the jobs that wait, cuts off all instances: their rows go on
 * saying that they run. Nothing is taken any more. [main] */
void pool_stop(pool *p);
void pool_free(pool *p); /* of one that was stopped. NULL allowed. [main] */

/* Runs job(arg) on a worker. False: too many wait, or it is being closed. [any] */
bool pool_do(pool *p, void (*job)(void *arg), void *arg);

/* A place for an instance that is being made. NULL: all are taken, or it is being closed. */
pool_place *pool_reserve(pool *p);
/* What the instance's configuration must have of its place. */
void pool_configure(pool_place *place, instance_config *config);
void pool_start(pool_place *place, instance *i); /* the instance becomes the pool's  */
void pool_unreserve(pool_place *place);

/* False: no instance of this id is here. [any] */
bool pool_has(pool *p, const char *id);
bool pool_cancel(pool *p, const char *id);
size_t pool_count(pool *p); /* [any] */

#endif /* SCRIPT_POOL_H */
