/*
 * script/teller.h - tells those who follow runs what these say.
 *
 * A thread of its own reads the stored events behind each follower's place and sends them,
 * so that whoever has seen an event finds it again, and a follower that reads slowly delays
 * no run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_TELLER_H
#define SCRIPT_TELLER_H

#include "run/pipelines.h"
#include "run/runtime.h"

#define TELLER_MAX_FOLLOWERS 256

typedef struct teller teller;

/* is_active(arg, id): more may come of this run. [teller] */
teller *teller_open(run_runtime *runtime, bool (*is_active)(void *arg, const char *id), void *arg,
                    pawl_error *error);
/* Ends the thread and all followers; nobody is taken any more. [main] */
void teller_stop(teller *t);
void teller_free(teller *t); /* of one that was stopped. NULL allowed. [main] */
/* Events were stored, or a run has ended. [any] */
void teller_poke(teller *t);

/* Follows a run from behind an event. end: the END that is sent at last; the teller's, where
 * this is true. False: too many follow. [any] */
bool teller_follow(teller *t, const char *id, uint64_t after, run_listener listener, run_event *end,
                   run_follower *follower);

/* Made before it is known whether there is anything to follow. NULL: no memory. [any] */
run_follower *teller_new_follower(teller *t);
void teller_retain(run_follower *follower);
void teller_unfollow(run_follower *follower);
void teller_release(run_follower *follower); /* NULL allowed */

#endif /* SCRIPT_TELLER_H */
