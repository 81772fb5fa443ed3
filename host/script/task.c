/*
 * script/task.c - the coroutines of one run. See task.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

#define RESUME_UNITS 250           /* what starting or continuing a task is charged  */
#define TRACEBACK_ROOM (64u << 10) /* more memory, once the script is dead            */

/* Registry key of the table that keeps alive: slot → handle, or thread of the main task. */
static const char alive_key = 'l';

static int64_t now_of(const script *s)
{
    return s->box.clock->monotonic_ns(s->box.clock->context);
}

/* ------------------------------------------------------------- places */

/* FNV-1a; nobody but the script itself would gain by a collision. */
static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ at[i]) * 1099511628211u;
    return hash;
}

uint64_t task_scope(uint64_t outer, const char *kind, uint64_t a, uint64_t b)
{
    uint64_t hash = mix(14695981039346656037u, &outer, sizeof outer);
    hash = mix(hash, kind, strlen(kind) + 1);
    hash = mix(hash, &a, sizeof a);
    return mix(hash, &b, sizeof b);
}

task_frame *task_innermost(script *s)
{
    for (const task *t = s->tasks.current; t; t = t->parent)
        if (t->frames)
            return t->frames;
    return NULL;
}

void task_enter_step(lua_State *L, const char *key)
{
    task *t = script_of(L)->tasks.current;
    size_t size = strlen(key), depth = 0;
    for (const task_frame *f = t->frames; f; f = f->outer)
        depth++;
    if (depth == TASK_MAX_STEPS)
        lib_error(L, "more than %d steps within each other", TASK_MAX_STEPS);
    sandbox_claim(L, sizeof(task_frame) + size + 1);
    task_frame *f = calloc(1, sizeof *f + size + 1);
    if (!f)
        lib_error(L, "no memory for a step");
    f->outer = t->frames;
    f->scope = t->scope;
    f->counter = t->counter;
    memcpy(f->key, key, size);
    t->frames = f;
    t->scope = task_scope(0, key, 0, 0); /* keys are unique: whichever task it is in */
    t->counter = 0;
}

void task_leave_step(lua_State *L, task *t)
{
    script *s = script_of(L);
    task_frame *f = t->frames;
    for (size_t i = 0; i < f->held.n; i++) /* said already: the listener has heard it */
        journal_again(s->config.journal, &f->held.list[i]);
    journal_forget(&f->held);
    t->frames = f->outer;
    t->scope = f->scope;
    t->counter = f->counter;
    sandbox_disclaim(L, sizeof *f + strlen(f->key) + 1);
    free(f);
    s->tasks.epoch++;
}

/* ------------------------------------------------------------- slots */

static void keep_alive(lua_State *L, const task *t)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &alive_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &alive_key);
    }
    lua_insert(L, -2);
    lua_rawsetp(L, -2, t);
    lua_pop(L, 1);
}

/* Pushes what keeps a task alive. */
static void push_alive(lua_State *L, const task *t)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &alive_key);
    lua_rawgetp(L, -1, t);
    lua_remove(L, -2);
}

/* Moves the function and the arguments at the top of L into a new coroutine; pushes it. */
static lua_State *move_into_coroutine(lua_State *L, int n_arguments)
{
    lua_State *co = lua_newthread(L);
    lua_insert(L, -2 - n_arguments);
    lua_xmove(L, co, n_arguments + 1);
    return co;
}

static task *free_slot(script *s)
{
    for (size_t i = 0; i < TASK_MAX; i++)
        if (s->tasks.slots[i].state == TASK_FREE)
            return &s->tasks.slots[i];
    return NULL;
}

void task_add_main(lua_State *L, int n_arguments)
{
    task *t = &script_of(L)->tasks.slots[0];
    *t = (task){.state = TASK_READY, .n_arguments = n_arguments, .deadline_ns = INT64_MAX};
    t->co = move_into_coroutine(L, n_arguments);
    keep_alive(L, t);
}

bool task_spawn(lua_State *L, int n_arguments, uint64_t scope)
{
    script *s = script_of(L);
    task *t = free_slot(s);
    if (!t)
        return false;
    task_handle *handle = lua_newuserdatauv(L, sizeof *handle, 2);
    *handle = (task_handle){.end = TASK_CANCELLED};
    luaL_setmetatable(L, "task");
    lua_insert(L, -2 - n_arguments);
    lua_State *co = move_into_coroutine(L, n_arguments);
    lua_setiuservalue(L, -2, 2);
    lua_pushvalue(L, -1);
    keep_alive(L, t);
    *t = (task){.state = TASK_READY,
                .co = co,
                .n_arguments = n_arguments,
                .deadline_ns = INT64_MAX,
                .handle = handle,
                .parent = s->tasks.current,
                .scope = scope};
    *handle = (task_handle){.slot = t, .end = TASK_RUNNING};
    return true;
}

/* Ends a task and those that it spawned. */
static void drop(lua_State *L, task *t, enum task_end end)
{
    script *s = script_of(L);
    for (size_t i = 0; i < TASK_MAX; i++)
        if (s->tasks.slots[i].state != TASK_FREE && s->tasks.slots[i].parent == t)
            drop(L, &s->tasks.slots[i], TASK_CANCELLED);
    if (t->state == TASK_PENDING)
        pending_cancel(t->waiting);
    while (t->frames)
        task_leave_step(L, t);
    if (t->handle) {
        t->handle->slot = NULL;
        t->handle->end = end;
    }
    s->tasks.epoch++;
    lua_pushnil(L);
    keep_alive(L, t);
    *t = (task){.state = TASK_FREE};
}

void task_cancel(lua_State *L, task *t)
{
    drop(L, t, TASK_CANCELLED);
}

void task_drop_all(lua_State *L)
{
    script *s = script_of(L);
    if (s->tasks.slots[0].state != TASK_FREE)
        drop(L, &s->tasks.slots[0], TASK_CANCELLED);
}

bool task_is_above(const script *s, const task *t)
{
    for (const task *each = s->tasks.current; each; each = each->parent)
        if (each == t)
            return true;
    return false;
}

/* ------------------------------------------------------------- running */

/* The script ends with the error at the top of L; co is the task that it came from. */
static void end_with_error(lua_State *L, lua_State *co)
{
    script *s = script_of(L);
    s->box.running = NULL;
    s->box.max_memory += TRACEBACK_ROOM;
    luaL_traceback(L, co, NULL, 0);
    free(s->result.traceback);
    s->result.traceback = strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    lua_error(L);
}

/* Nobody may ever ask how it ended. */
static void report_failure(lua_State *L, const task *t, int error)
{
    script *s = script_of(L);
    if (t->handle->awaited || lua_type(L, error) != LUA_TSTRING)
        return;
    context_log(s, "warn", "a task failed, and nobody waits for it:", lua_tostring(L, error));
}

/* Takes what a task left on its stack: n values, or its error at the top of L. */
static void finish(lua_State *L, task *t, bool failed, int n)
{
    lua_State *co = t->co;
    push_alive(L, t);
    if (failed) {
        report_failure(L, t, -2);
        lua_insert(L, -2);
    } else {
        luaL_checkstack(L, n + 2, "too many results");
        lua_createtable(L, n, 1);
        for (int i = n; i >= 1; i--) {
            lua_xmove(co, L, 1);
            lua_rawseti(L, -2, i);
        }
        lua_pushinteger(L, n);
        lua_setfield(L, -2, "n");
    }
    lua_setiuservalue(L, -2, 1);
    lua_pop(L, 1);
    drop(L, t, failed ? TASK_RAISED : TASK_RETURNED);
}

/* Runs a task until it yields or ends. True: it was the main task, which left n values
 * on L's stack. */
static bool resume(lua_State *L, task *t, int *n)
{
    script *s = script_of(L);
    lua_State *co = t->co;
    int n_arguments = t->n_arguments;
    t->n_arguments = 0;
    t->state = TASK_READY;
    t->waiting = NULL;
    s->tasks.current = t;
    s->box.spent += RESUME_UNITS;
    s->box.protected = t->protected;
    sandbox_enter(&s->box, co);
    int status = lua_resume(co, L, n_arguments, n);
    s->box.running = NULL;
    s->tasks.current = NULL;
    t->protected = s->box.protected;
    if (status == LUA_YIELD) {
        lua_pop(co, *n);
        return false;
    }
    bool failed = status != LUA_OK;
    if (failed)
        lua_xmove(co, L, 1);
    if (failed && (sandbox_must_die(&s->box, status) || !t->handle))
        end_with_error(L, co);
    if (t->handle) {
        finish(L, t, failed, *n);
        return false;
    }
    luaL_checkstack(L, *n + 1, "too many results");
    lua_xmove(co, L, *n);
    return true;
}

static bool is_ready(script *s, task *t, int64_t now_ns)
{
    bool late = now_ns >= t->deadline_ns;
    switch (t->state) {
    case TASK_READY:
        return true;
    case TASK_PENDING:
        if (late) { /* it is cancelled, and ends soon */
            pending_cancel(t->waiting);
            t->deadline_ns = INT64_MAX;
            t->timed_out = true;
        }
        if (t->watch)
            t->watch(s, t->waiting);
        return pending_ended(t->waiting);
    case TASK_ASLEEP:
        return late;
    case TASK_JOINING:
        t->timed_out = late;
        return late || t->epoch != s->tasks.epoch;
    default:
        return false;
    }
}

/* What it means that no task is ready. */
static enum task_progress stalled(lua_State *L)
{
    script *s = script_of(L);
    bool parked = false;
    for (size_t i = 0; i < TASK_MAX; i++) {
        const task *t = &s->tasks.slots[i];
        if (t->state == TASK_PENDING || t->state == TASK_ASLEEP ||
            (t->state == TASK_JOINING && t->deadline_ns != INT64_MAX))
            return TASK_WAITS;
        parked = parked || t->state == TASK_PARKED;
    }
    if (parked)
        return TASK_ALL_PARKED;
    lua_pushliteral(L, "all tasks wait for each other");
    end_with_error(L, s->tasks.slots[0].co);
    return TASK_WAITS;
}

static void must_live(lua_State *L)
{
    script *s = script_of(L);
    if (sandbox_alive(&s->box))
        return;
    lua_pushlightuserdata(L, s);
    end_with_error(L, s->tasks.slots[0].co);
}

enum task_progress task_go_on(lua_State *L, int64_t slice_ns, int *n)
{
    script *s = script_of(L);
    int64_t until = slice_ns ? now_of(s) + slice_ns : INT64_MAX;
    s->box.slice_ns = until;
    int64_t now = now_of(s);
    for (size_t idle = 0; idle < TASK_MAX;) {
        task *t = &s->tasks.slots[s->tasks.next];
        s->tasks.next = (s->tasks.next + 1) % TASK_MAX;
        if (t->state == TASK_FREE || !is_ready(s, t, now)) {
            idle++;
            continue;
        }
        idle = 0;
        if (resume(L, t, n))
            return TASK_MAIN_ENDED;
        must_live(L);
        now = now_of(s);
        if (now > until)
            return TASK_RAN;
    }
    must_live(L);
    return stalled(L);
}

int64_t task_due(const script *s)
{
    int64_t due = s->box.deadline_ns;
    for (size_t i = 0; i < TASK_MAX; i++) {
        const task *t = &s->tasks.slots[i];
        bool timed =
            t->state == TASK_PENDING || t->state == TASK_ASLEEP || t->state == TASK_JOINING;
        if (timed && t->deadline_ns < due)
            due = t->deadline_ns;
    }
    return due;
}

/* ------------------------------------------------------------- waiting */

void task_check_can_wait(lua_State *L, const char *what)
{
    if (script_of(L)->loading)
        lib_error(L, "%s waits, and nothing can wait while the file loads", what);
    if (!lua_isyieldable(L))
        lib_error(L,
                  "%s waits, and nothing can wait within a function that table.sort, "
                  "string.gsub or a metamethod called",
                  what);
}

static task *begin_waiting(lua_State *L, enum task_state state, int64_t deadline_ns)
{
    task *t = script_of(L)->tasks.current;
    t->state = state;
    t->deadline_ns = deadline_ns;
    t->timed_out = false;
    t->watch = NULL;
    return t;
}

static int64_t in_ms(lua_State *L, int64_t ms)
{
    int64_t now = now_of(script_of(L));
    return ms <= 0 || ms > (INT64_MAX - now) / 1000000 ? INT64_MAX : now + ms * 1000000;
}

int task_wait(lua_State *L, pending *p, int64_t timeout_ms, void (*watch)(script *s, pending *p),
              lua_KContext context, lua_KFunction done)
{
    task *t = begin_waiting(L, TASK_PENDING, in_ms(L, timeout_ms));
    t->waiting = p;
    t->watch = watch;
    return lua_yieldk(L, 0, context, done);
}

int task_sleep(lua_State *L, int64_t ms, lua_KFunction done)
{
    begin_waiting(L, TASK_ASLEEP, ms <= 0 ? now_of(script_of(L)) : in_ms(L, ms));
    return lua_yieldk(L, 0, 0, done);
}

int task_join(lua_State *L, int64_t deadline_ns, lua_KContext context, lua_KFunction done)
{
    task *t = begin_waiting(L, TASK_JOINING, deadline_ns);
    t->epoch = script_of(L)->tasks.epoch;
    return lua_yieldk(L, 0, context, done);
}

int task_park(lua_State *L, lua_KFunction done)
{
    begin_waiting(L, TASK_PARKED, INT64_MAX);
    return lua_yieldk(L, 0, 0, done);
}
