/*
 * script/task.h - the coroutines of one run, and who waits for what.
 *
 * A script looks sequential: a function that has to wait yields, and the run's thread
 * goes on with another task or sleeps. The main task is the script itself; further
 * ones are the members of pawl.map(). Scripts have no coroutines of their own, so a
 * yield always arrives here. One thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_TASK_H
#define SCRIPT_TASK_H

#include "script/call.h"
#include "script/sandbox.h"

#define TASK_MAX 257         /* at once, the main task included */
#define TASK_MAX_PARALLEL 64 /* of one map                      */

typedef struct task_map task_map;

typedef struct task {
    lua_State *co;       /* NULL: the slot is free                             */
    int protected;       /* sandbox.protected of it while it does not run       */
    int n_arguments;     /* on its stack, for the first resume                 */
    call *waiting;       /* for this call, which is a session's, or NULL       */
    int64_t deadline_ns; /* when the call is cancelled; INT64_MAX: never       */
    task_map *map;       /* for the members of this map, or NULL               */
    task_map *member_of; /* NULL: the main task                                */
    lua_Integer index;   /* its place in that map                              */
} task;

typedef struct task_list {
    task slots[TASK_MAX];
    task *current; /* whose coroutine runs */
} task_list;

/* Runs the function at the top as the main task, with all its members, to its end;
 * leaves what it returned. Raises its error. */
int task_run_main(lua_State *L);

/* Raises where nothing can wait: below table.sort, string.gsub and the like. */
void task_check_can_wait(lua_State *L, const char *what);
/* The current task yields until the call has ended, or is cancelled when the timeout
 * (0: none) has passed. `done` then goes on. To be returned by a C function. */
int task_wait_call(lua_State *L, call *c, int64_t timeout_ms, lua_KFunction done);

/* pawl.map(list, function, {parallel=, on_error=}) */
int task_map_binding(lua_State *L);

#endif /* SCRIPT_TASK_H */
