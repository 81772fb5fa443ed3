/*
 * script/task.h - the coroutines of one run, and who waits for what.
 *
 * A script looks sequential: a function that has to wait yields, and the run goes on with
 * another task, or its thread does something else. The main task is the pipeline's
 * function; further ones are spawned, by the script or by ctx:map. A task ends at the latest
 * with the one that spawned it. Scripts have no coroutines of their own, so a yield always
 * arrives here. One thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_TASK_H
#define SCRIPT_TASK_H

#include "script/journal.h"
#include "script/sandbox.h"

#define TASK_MAX 257      /* at once, the main task included    */
#define TASK_MAX_STEPS 32 /* within each other, of one task     */

typedef struct script script;

enum task_state {
    TASK_FREE,    /* the slot is not used                                  */
    TASK_READY,   /* goes on at the next turn                              */
    TASK_PENDING, /* waits for another thread                              */
    TASK_ASLEEP,  /* waits for the clock                                   */
    TASK_JOINING, /* waits until a task or a step has ended, and looks then */
    TASK_PARKED   /* waits for an answer from outside                      */
};

enum task_end { TASK_RUNNING, TASK_RETURNED, TASK_RAISED, TASK_CANCELLED };

/* What a script holds of a task: a userdata, whose user value is what it returned, packed,
 * or what it raised. */
typedef struct task_handle {
    struct task *slot; /* NULL: it has ended */
    enum task_end end;
    bool awaited; /* somebody will hear of its error */
} task_handle;

/* A step that a task is in. Its members have the outer values while it lasts. */
typedef struct task_frame {
    struct task_frame *outer;
    uint64_t scope;
    uint32_t counter;
    journal_events held; /* what was emitted in it */
    char key[];
} task_frame;

typedef struct task {
    enum task_state state;
    lua_State *co;
    int protected;                        /* sandbox.protected of it while it does not run       */
    int n_arguments;                      /* on its stack, for the first resume                  */
    pending *waiting;                     /* of PENDING, borrowed                                */
    void (*watch)(script *s, pending *p); /* looks at it meanwhile, or NULL  */
    int64_t deadline_ns;                  /* of PENDING, ASLEEP, JOINING; INT64_MAX: never    */
    bool timed_out;                       /* the deadline passed before                       */
    unsigned epoch;                       /* of JOINING: when it looked                       */
    task_handle *handle;                  /* NULL: the main task                              */
    struct task *parent;                  /* which spawned it; NULL: the main task            */
    uint64_t scope;                       /* where in the run it is: the same in every replay */
    uint32_t counter;                     /* places used in that scope                        */
    task_frame *frames;                   /* the innermost step                               */
} task;

typedef struct task_list {
    task slots[TASK_MAX];
    task *current;  /* whose coroutine runs                       */
    size_t next;    /* whose turn it is                           */
    unsigned epoch; /* counts the ends of tasks and steps         */
} task_list;

enum task_progress { TASK_RAN, TASK_WAITS, TASK_ALL_PARKED, TASK_MAIN_ENDED };

/* Moves the function and the arguments at the top of L into the main task. */
void task_add_main(lua_State *L, int n_arguments);
/* Goes on until nothing is ready, the slice is over or the main task has ended; then what
 * it returned is on L's stack, *n values. Raises its error. */
enum task_progress task_go_on(lua_State *L, int64_t slice_ns, int *n);
/* When a task wants to be looked at again. */
int64_t task_due(const script *s);
/* Ends all tasks; their pendings are cancelled. */
void task_drop_all(lua_State *L);

/* Spawns a task at a place of the current one: pops the function and its arguments. Pushes
 * its handle, or nothing and false: no slot is free. */
bool task_spawn(lua_State *L, int n_arguments, uint64_t scope);
void task_cancel(lua_State *L, task *t);
/* Whether t is the current task or one that it descends from. */
bool task_is_above(const script *s, const task *t);

/* A number for a place in the run that is the same in every replay of it. */
uint64_t task_scope(uint64_t outer, const char *kind, uint64_t a, uint64_t b);
/* The innermost step around the current task, or NULL. */
task_frame *task_innermost(script *s);
/* Enters a step; raises where it cannot. Leaves the innermost one: what was emitted in it
 * and not kept is said. */
void task_enter_step(lua_State *L, const char *key);
void task_leave_step(lua_State *L, task *t);

/* Raises where nothing can wait: below table.sort, string.gsub and the like, and while a
 * file loads. */
void task_check_can_wait(lua_State *L, const char *what);
/* Each makes the current task yield, `done` then goes on; to be returned by a C function.
 * task_wait: until p has ended, or is cancelled when the timeout (0: none) has passed;
 * watch: called now and then meanwhile, or NULL. task_join: until a task or step ends. */
int task_wait(lua_State *L, pending *p, int64_t timeout_ms, void (*watch)(script *s, pending *p),
              lua_KContext context, lua_KFunction done);
int task_sleep(lua_State *L, int64_t ms, lua_KFunction done);
int task_join(lua_State *L, int64_t deadline_ns, lua_KContext context, lua_KFunction done);
int task_park(lua_State *L, lua_KFunction done);

#endif /* SCRIPT_TASK_H */
