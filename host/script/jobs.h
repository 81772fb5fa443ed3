/*
 * script/jobs.h - jobs that a script has given to the crew, from its side.
 *
 * What a job brings back is kept outside the script's memory until the script takes it, so a
 * run has few at once: JOBS_AT_ONCE. One that wants another is told to try again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_JOBS_H
#define SCRIPT_JOBS_H

#include "script/failure.h"
#include "script/crew.h"

#include <lua.h>

#define JOBS_AT_ONCE 8 /* of one run */

typedef struct jobs {
    crew_job *list[JOBS_AT_ONCE]; /* a reference each, or NULL */
} jobs;

typedef struct jobs_kind {
    void (*run)(void *work, int stop_fd);        /* [crew]                               */
    void (*clear)(void *work);                   /* frees it                             */
    int (*push)(lua_State *L, const void *work); /* pushes what it brought; how many values */
} jobs_kind;

/* Makes the metatable of jobs, and core.busy. */
void jobs_open(lua_State *L, int core);
/* Whether one more can be started: pushes its handle, or core.busy, to be returned. Raises
 * where nothing can wait. what: the name of the function. */
bool jobs_begin(lua_State *L, const char *what);
/* Starts it, with the handle on top of the stack, and waits for it; to be returned by a C
 * function. The work becomes its own. NULL: there was no memory for it. */
int jobs_wait(lua_State *L, const jobs_kind *kind, void *work);
/* Pushes nil and the failure. */
int jobs_push_failure(lua_State *L, const failure *f);
/* The run is over. */
void jobs_close(jobs *all);

#endif /* SCRIPT_JOBS_H */
