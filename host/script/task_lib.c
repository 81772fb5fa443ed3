/*
 * script/task_lib.c - what lua/pawl.lua makes tasks of.
 *
 *   core.spawn(fn, ...)             a task at the next place; nil: no slot is free
 *   core.place()                    a number for a place, for core.member
 *   core.member(place, i, fn, ...)  a task at the i-th place below it
 *   core.join(tasks, timeout_ms)    the index of the first of the list that has ended;
 *                                   nil: the time is over
 *   core.result(task)               what it returned; raises what it raised
 *   core.cancel(task)
 *   core.pause(ms)
 *   core.task_methods               the table behind task:name()
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/state.h"

#define METATABLE "task"

static task_handle *check_task(lua_State *L, int index)
{
    task_handle *handle = luaL_testudata(L, index, METATABLE);
    if (!handle)
        lib_error(L, "a task is wanted, not a %s", luaL_typename(L, index));
    return handle;
}

/* The function at index first, with what follows it, becomes a task. */
static int spawn_at(lua_State *L, int first, uint64_t scope)
{
    luaL_checktype(L, first, LUA_TFUNCTION);
    if (!task_spawn(L, lua_gettop(L) - first, scope))
        lua_pushnil(L);
    return 1;
}

static int core_spawn(lua_State *L)
{
    task *t = script_of(L)->tasks.current;
    return spawn_at(L, 1, task_scope(t->scope, "task", t->counter++, 0));
}

static int core_place(lua_State *L)
{
    lua_pushinteger(L, script_of(L)->tasks.current->counter++);
    return 1;
}

static int core_member(lua_State *L)
{
    const task *t = script_of(L)->tasks.current;
    uint64_t place = (uint64_t)luaL_checkinteger(L, 1), i = (uint64_t)luaL_checkinteger(L, 2);
    return spawn_at(L, 3, task_scope(t->scope, "member", place, i));
}

/* ------------------------------------------------------------- waiting */

/* The index of the first task of the list at index 1 that has ended, or 0. */
static lua_Integer first_ended(lua_State *L)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1), found = 0;
    for (lua_Integer i = 1; i <= n && !found; i++) {
        lua_rawgeti(L, 1, i);
        task_handle *handle = check_task(L, -1);
        handle->awaited = true;
        if (handle->end != TASK_RUNNING)
            found = i;
        lua_pop(L, 1);
    }
    sandbox_spend(L, (uint64_t)n);
    return found;
}

static int join(lua_State *L, int status, lua_KContext deadline)
{
    const task *t = script_of(L)->tasks.current;
    lua_Integer found = first_ended(L);
    bool late = status == LUA_YIELD && t->timed_out;
    if (found)
        lua_pushinteger(L, found);
    else if (late)
        lua_pushnil(L);
    else
        return task_join(L, deadline, deadline, join);
    return 1;
}

static int core_join(lua_State *L)
{
    const base_clock *clock = sandbox_of(L)->clock;
    lua_Integer ms = luaL_optinteger(L, 2, 0);
    int64_t now = clock->monotonic_ns(clock->context), deadline = INT64_MAX;
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_rawlen(L, 1) < 1 || lua_rawlen(L, 1) >= TASK_MAX)
        return lib_error(L, "a list of 1 to %d tasks is wanted", TASK_MAX - 1);
    if (ms > 0 && ms < (INT64_MAX - now) / 1000000)
        deadline = now + ms * 1000000;
    lua_settop(L, 1);
    if (!first_ended(L))
        task_check_can_wait(L, "a task's end");
    return join(L, LUA_OK, deadline);
}

static int core_result(lua_State *L)
{
    const task_handle *handle = check_task(L, 1);
    if (handle->end == TASK_CANCELLED)
        return env_failure(L, "cancelled", false, "the task was cancelled");
    if (handle->end == TASK_RUNNING)
        return lib_error(L, "the task runs");
    lua_getiuservalue(L, 1, 1);
    if (handle->end == TASK_RAISED)
        return lua_error(L);
    lua_getfield(L, -1, "n");
    int n = (int)lua_tointeger(L, -1);
    lua_pop(L, 1);
    luaL_checkstack(L, n, "too many results");
    for (int i = 1; i <= n; i++)
        lua_rawgeti(L, 2, i);
    return n;
}

static int core_cancel(lua_State *L)
{
    const task_handle *handle = check_task(L, 1);
    if (handle->slot && task_is_above(script_of(L), handle->slot))
        return lib_error(L, "a task cannot cancel itself, or one that it was spawned by");
    if (handle->slot)
        task_cancel(L, handle->slot);
    return 0;
}

static int paused(lua_State *L, int status, lua_KContext context)
{
    (void)L;
    (void)status;
    (void)context;
    return 0;
}

static int core_pause(lua_State *L)
{
    lua_Integer ms = luaL_checkinteger(L, 1);
    task_check_can_wait(L, "sleep");
    return task_sleep(L, ms, paused);
}

void task_open(lua_State *L, int core)
{
    static const luaL_Reg own[] = {{"spawn", core_spawn},   {"place", core_place},
                                   {"member", core_member}, {"join", core_join},
                                   {"result", core_result}, {"cancel", core_cancel},
                                   {"pause", core_pause},   {NULL, NULL}};
    lua_pushvalue(L, core);
    luaL_setfuncs(L, own, 0);
    luaL_newmetatable(L, METATABLE);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, core, "task_methods");
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}
