/*
 * script/bindings.c - the library pawl: what a script says while it runs.
 *
 * Names and their errors are documented in lua/pawl.d.lua; a test holds the two against
 * each other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/json.h"
#include "script/state.h"

#include <math.h>
#include <string.h>

#define MAX_NOTE 200 /* bytes of a note of progress */

/* pawl.emit(value) */
static int emit(lua_State *L)
{
    const script_listener *to = &script_of(L)->config->listener;
    size_t size;
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    json_push_encoded(L, 1);
    const char *json = lua_tolstring(L, -1, &size);
    sandbox_spend(L, 100 + size / 16);
    if (to->emit)
        to->emit(to->arg, json, size);
    return 0;
}

/* pawl.progress(done, total, note) */
static int progress(lua_State *L)
{
    const script_listener *to = &script_of(L)->config->listener;
    double done = luaL_checknumber(L, 1), total = luaL_optnumber(L, 2, 0);
    const char *note = lua_isnoneornil(L, 3) ? "" : options_check_text(L, 3, "note");
    luaL_argcheck(L, isfinite(done) && done >= 0, 1, "a number from 0 is wanted");
    luaL_argcheck(L, isfinite(total) && total >= 0, 2, "a number from 0 is wanted");
    luaL_argcheck(L, strlen(note) <= MAX_NOTE, 3, "at most 200 bytes are wanted");
    sandbox_spend(L, 100);
    if (to->progress)
        to->progress(to->arg, done, total, note);
    return 0;
}

/* The texts of all arguments from first, with tabs between. Pushes it. */
static const char *push_line(lua_State *L, int first)
{
    int n = lua_gettop(L);
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    for (int i = first; i <= n; i++) {
        if (i > first)
            luaL_addchar(&out, '\t');
        env_text(L, i, NULL);
        luaL_addvalue(&out);
    }
    luaL_pushresult(&out);
    return lua_tostring(L, -1);
}

static int write_log(lua_State *L, int32_t level, int first)
{
    const script_listener *to = &script_of(L)->config->listener;
    const char *text = push_line(L, first);
    sandbox_spend(L, 100 + strlen(text) / 16);
    if (to->log)
        to->log(to->arg, level, text);
    return 0;
}

/* pawl.log(level, …) */
static int log_line(lua_State *L)
{
    static const char *const names[] = {"debug", "info", "warn", "error", NULL};
    static const int32_t levels[] = {PAWL_LOG_DEBUG, PAWL_LOG_INFO, PAWL_LOG_WARN, PAWL_LOG_ERROR};
    return write_log(L, levels[luaL_checkoption(L, 1, NULL, names)], 2);
}

static int print(lua_State *L)
{
    return write_log(L, PAWL_LOG_INFO, 1);
}

static void push_params(lua_State *L)
{
    const script_config *config = script_of(L)->config;
    lua_createtable(L, 0, (int)config->n_params);
    for (size_t i = 0; i < config->n_params; i++) {
        lua_pushstring(L, config->params[i].value);
        lua_setfield(L, -2, config->params[i].name);
    }
}

void bindings_open(lua_State *L)
{
    static const luaL_Reg own[] = {{"emit", emit},
                                   {"progress", progress},
                                   {"log", log_line},
                                   {"map", task_map_binding},
                                   {NULL, NULL}};
    luaL_newlib(L, own);
    lua_pushinteger(L, SCRIPT_API);
    lua_setfield(L, -2, "api");
    session_push_constructor(L);
    lua_setfield(L, -2, "session");
    json_push_library(L);
    lua_setfield(L, -2, "json");
    push_params(L);
    lua_setfield(L, -2, "params");
    lua_setfield(L, -2, "pawl");
    lua_pushcfunction(L, print);
    lua_setfield(L, -2, "print");
}
