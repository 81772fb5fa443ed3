/*
 * script/runs.h - the pipelines that a server has, and the runs of them.
 *
 * Pipelines are the files of configured folders, loaded once. Runs are started, looked at,
 * followed, cancelled and answered by questions (run/pipelines.h); they belong to no
 * connection. What was running when the process ended is resumed when it starts again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_RUNS_H
#define SCRIPT_RUNS_H

#include "run/pipelines.h"
#include "run/runtime.h"
#include "script/limits.h"

#define RUNS_MAX_PIPELINES 256

typedef struct runs runs;

typedef struct runs_config {
    run_runtime *runtime;       /* its store keeps the runs                        */
    const char *const *folders; /* n_folders; modules are found in all of them     */
    size_t n_folders;
    size_t n_workers;
    script_limits allowed; /* what any run may use; 0: any                     */
} runs_config;

/* Loads every NAME.lua of the folders; one that returns no pipeline is a module, one that
 * does not load is refused with the reason. [main] */
pawl_status runs_open(const runs_config *config, runs **out, pawl_error *error);
/* For net; lives as long as the runs. */
const run_pipelines *runs_interface(const runs *r);
/* Goes on with what was cut off. Once, after the models are there. [main] */
void runs_resume_all(runs *r);
/* Cuts off what runs, ends who follows, ends the threads. Before run_close(). [main] */
void runs_stop(runs *r);
void runs_close(runs *r); /* after run_close(), whose store may still call back. NULL allowed */

#endif /* SCRIPT_RUNS_H */
