/*
 * script/instance.h - one run of a pipeline, from its row in the store to its row.
 *
 * A run is an object with an id: its row says which text it runs with, what it was given and
 * how it stands (running, parked, done, failed, cancelled); its steps and events belong to
 * it. An instance is a run while it runs: on one thread at a time. A run that waits for an
 * answer has none, nor has one whose process was killed; both go on by instance_resume().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_INSTANCE_H
#define SCRIPT_INSTANCE_H

#include "script/script.h"

typedef struct instance instance;

typedef struct instance_config {
    run_runtime *runtime;      /* its store keeps the run; where it has none, nothing does */
    script_limits allowed;     /* what the host lets any run use; 0: any                  */
    journal_listener listener; /* hears what the run says                                 */
    void (*wake)(void *arg);   /* as of pending_hub_open(); NULL: instance_wait() is used */
    void *wake_arg;
    run_caller caller;
    const script_grants *grants; /* outlives the instance; NULL: none                     */
    const atomic_bool *cancel;   /* cancels it like instance_cancel(); NULL: only that does */
} instance_config;

/* Whether a text is an input that the pipeline takes: the schema's reasons. */
pawl_status instance_check_input(const pipeline *p, const char *input, pawl_error *error);

/* Begins a run; its row is on the disk when this returns. input: checked. path: of the file,
 * or "". */
pawl_status instance_begin(const instance_config *config, pipeline *p, const char *path,
                           const char *input, instance **out, pawl_error *error);
/* Goes on with one that is not done, with the text that it began with. PAWL_E_NOT_FOUND: there
 * is none (of this tenant); PAWL_E_ARGUMENT: it is done; PAWL_E_BUSY: it waits for an answer. */
pawl_status instance_resume(const instance_config *config, const char *id, instance **out,
                            pawl_error *error);
/* Gives a run other members of its input: n texts "NAME=TEXT", as of schema_typed(). It can be
 * resumed then, even if it is done; what its steps gave is kept, so it repeats none. The run
 * must not be running. */
pawl_status instance_change(const instance_config *config, const char *id,
                            const char *const *members, size_t n, pawl_error *error);
/* Answers the question of a parked run; it can be resumed then. PAWL_E_ARGUMENT: it asks
 * nothing, or wants another answer. Waits for the disk. */
pawl_status instance_answer(run_runtime *runtime, const run_caller *caller, const char *id,
                            const char *answer, pawl_error *error);
/* A run that waits, or was cut off and will not go on, is cancelled. Waits for the disk. */
pawl_status instance_give_up(run_runtime *runtime, const store_run *row, pawl_error *error);
/* The row of a run of this tenant's; the caller free()s it. */
pawl_status instance_look(run_runtime *runtime, const run_caller *caller, const char *id,
                          store_run **run, pawl_error *error);

const char *instance_id(const instance *i); /* "" where nothing is kept */

/* As of script.h. */
enum script_step instance_step(instance *i, int64_t slice_ns);
int64_t instance_due(const instance *i);
/* Waits until there may be something to go on with, at most so long. */
void instance_wait(instance *i, int64_t most_ms);
/* It ends soon; one that waits is woken. [any] */
void instance_cancel(instance *i);
/* How it ended, which is in its row when this returns; *result is the caller's to clear. An
 * instance that has not ended is cut off: its row goes on saying that it runs. Frees it. */
void instance_close(instance *i, script_result *result);

#endif /* SCRIPT_INSTANCE_H */
