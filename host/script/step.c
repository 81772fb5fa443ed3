/*
 * script/step.c - durable steps, and waiting for an answer from outside.
 *
 *   core.step_begin(key)        "found" and the value; "mine": it is this task's to do now;
 *                               "busy": another task does it
 *   core.step_wait(key)         until that one has ended
 *   core.step_keep(key, value)  the value is on the disk: "kept" and the value as JSON has
 *                               it; "busy": the store has too much to do; nil and an error
 *   core.step_leave(key)        the step is over, kept or not
 *   core.park(key, prompt, schema)  the run ends until there is a value of this key
 *
 * Where a run keeps nothing on a disk, what its steps gave is in a table of the state.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/json.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

#define STEP_UNITS 1000 /* what asking or writing costs */
#define METATABLE "pawl.write"
#define MAX_QUESTION (64u << 10) /* bytes of prompt and schema as JSON */

/* Registry key of the table key → JSON, of a run without a disk. */
static const char memory_key = 'm';

static const char *check_key(lua_State *L)
{
    const char *key = options_check_text(L, 1, "key");
    size_t size = strlen(key);
    if (size < 1 || size > JOURNAL_MAX_KEY)
        lib_error(L, "a step's key has 1 to %d bytes", JOURNAL_MAX_KEY);
    return key;
}

static void push_table(lua_State *L, const char *name)
{
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, name) == LUA_TTABLE)
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, name);
}

/* The task that does the step, or NULL. */
static const task *doing(const script *s, const char *key)
{
    for (size_t i = 0; i < TASK_MAX; i++)
        for (const task_frame *f = s->tasks.slots[i].frames; f; f = f->outer)
            if (strcmp(f->key, key) == 0)
                return &s->tasks.slots[i];
    return NULL;
}

/* Pushes the value of a step that has one. */
static bool push_recorded(lua_State *L, const char *key)
{
    const script *s = script_of(L);
    pawl_error error = {.struct_size = sizeof error};
    char *value = NULL;
    size_t size;
    if (!script_is_kept(s)) {
        push_table(L, &memory_key);
        if (lua_getfield(L, -1, key) != LUA_TSTRING)
            return false;
        const char *text = lua_tolstring(L, -1, &size);
        return json_push_decoded(L, text, size);
    }
    pawl_status status = journal_find(s->config.journal, key, &value, &error);
    if (status == PAWL_E_NOT_FOUND)
        return false;
    if (status)
        lib_error(L, "the journal cannot be read: %s", error.message);
    lua_pushstring(L, value); /* so that it is freed whatever decoding raises */
    free(value);
    const char *text = lua_tolstring(L, -1, &size);
    if (!json_push_decoded(L, text, size))
        lib_error(L, "the value of step '%s' is damaged", key);
    return true;
}

static int core_step_begin(lua_State *L)
{
    script *s = script_of(L);
    const char *key = check_key(L);
    sandbox_spend(L, STEP_UNITS);
    const task *owner = doing(s, key);
    if (owner && task_is_above(s, owner))
        return lib_error(L, "step '%s' within itself", key);
    if (owner) {
        lua_pushliteral(L, "busy");
        return 1;
    }
    if (push_recorded(L, key)) {
        lua_pushliteral(L, "found");
        lua_insert(L, -2);
        return 2;
    }
    task_enter_step(L, key);
    lua_pushliteral(L, "mine");
    return 1;
}

static int wait_again(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    if (!doing(script_of(L), lua_tostring(L, 1)))
        return 0;
    return task_join(L, INT64_MAX, 0, wait_again);
}

static int core_step_wait(lua_State *L)
{
    check_key(L);
    task_check_can_wait(L, "a step");
    return wait_again(L, LUA_OK, 0);
}

static task *check_own(lua_State *L, const char *key)
{
    task *t = script_of(L)->tasks.current;
    if (!t->frames || strcmp(t->frames->key, key) != 0)
        lib_error(L, "step '%s' is not the innermost one", key);
    return t;
}

static int core_step_leave(lua_State *L)
{
    task_leave_step(L, check_own(L, check_key(L)));
    return 0;
}

/* ------------------------------------------------------------- keeping */

static int write_gc(lua_State *L)
{
    journal_write **w = lua_touserdata(L, 1);
    if (*w)
        pending_close(&(*w)->base);
    *w = NULL;
    return 0;
}

/* Stack: key, value, its JSON, the write. */
static int kept(lua_State *L, int status, lua_KContext context)
{
    size_t size;
    journal_write **w = lua_touserdata(L, 4);
    (void)status;
    (void)context;
    if (*w && (*w)->status)
        return env_failure(L, "store", true, "the step could not be kept: %s", (*w)->error.message);
    const char *text = lua_tolstring(L, 3, &size);
    lua_pushliteral(L, "kept");
    if (!json_push_decoded(L, text, size))
        return lib_error(L, "the value of the step cannot be read");
    return 2;
}

static int keep_in_memory(lua_State *L)
{
    push_table(L, &memory_key);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 3);
    lua_rawset(L, -3);
    lua_settop(L, 3);
    journal_write **w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = NULL;
    return kept(L, LUA_OK, 0);
}

static int core_step_keep(lua_State *L)
{
    script *s = script_of(L);
    pawl_error error = {.struct_size = sizeof error};
    size_t size;
    const char *key = check_key(L);
    task *t = check_own(L, key);
    lua_settop(L, 2);
    json_push_encoded(L, 2);
    const char *json = lua_tolstring(L, 3, &size);
    sandbox_spend(L, STEP_UNITS + size / 16);
    if (size > JOURNAL_MAX_VALUE)
        return lib_error(L, "a step's result has %d bytes as JSON; at most %d are kept", (int)size,
                         (int)JOURNAL_MAX_VALUE);
    if (!script_is_kept(s))
        return keep_in_memory(L);
    task_check_can_wait(L, "a step");
    journal_write **w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = NULL;
    luaL_setmetatable(L, METATABLE);
    pawl_status status =
        journal_keep(s->config.journal, s->config.hub, key, json, &t->frames->held, w, &error);
    if (status == PAWL_E_BUSY) {
        lua_pushliteral(L, "busy");
        return 1;
    }
    if (status)
        return lib_error(L, "%s", error.message);
    return task_wait(L, &(*w)->base, 0, NULL, 0, kept);
}

/* ------------------------------------------------------------- parking */

static int never(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    return lib_error(L, "a parked task cannot go on");
}

/* Keeps the first question: the run is asked one at a time. */
static int core_park(lua_State *L)
{
    script *s = script_of(L);
    size_t size;
    luaL_checktype(L, 2, LUA_TSTRING);
    lua_settop(L, 3);
    lua_createtable(L, 0, 3);
    lua_pushvalue(L, 1);
    lua_setfield(L, -2, "key");
    lua_pushvalue(L, 2);
    lua_setfield(L, -2, "prompt");
    lua_pushvalue(L, 3);
    lua_setfield(L, -2, "schema");
    json_push_encoded(L, -1);
    const char *json = lua_tolstring(L, -1, &size);
    if (size > MAX_QUESTION)
        return lib_error(L, "a question has at most %d KiB", (int)(MAX_QUESTION >> 10));
    if (!script_is_kept(s))
        return lib_error(L, "interrupt needs a data folder, which keeps the run while it waits");
    task_check_can_wait(L, "interrupt");
    if (!s->result.value)
        s->result.value = strdup(json);
    return task_park(L, never);
}

void step_open(lua_State *L, int core)
{
    static const luaL_Reg own[] = {{"step_begin", core_step_begin},
                                   {"step_wait", core_step_wait},
                                   {"step_keep", core_step_keep},
                                   {"step_leave", core_step_leave},
                                   {"park", core_park},
                                   {NULL, NULL}};
    lua_pushvalue(L, core);
    luaL_setfuncs(L, own, 0);
    luaL_newmetatable(L, METATABLE);
    lua_pushcfunction(L, write_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 2);
}
