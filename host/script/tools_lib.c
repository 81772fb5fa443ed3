/*
 * script/tools_lib.c - what lua/pawl.lua makes the host's tools of.
 *
 *   core.host_tool(name)                        {name, description, parameters}; nil: none
 *   core.call_host_tool(name, args, timeout_ms) what it gave; core.busy; nil and an error
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/grants.h"
#include "script/jobs.h"
#include "script/json.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

typedef struct calling {
    const tools *all;
    const tool *tool;
    char *arguments;
    int64_t timeout_ms;
    bool good;
    bool json;
    buf out;
    failure why;
} calling;

static const tools *granted(lua_State *L)
{
    const script_grants *grants = script_of(L)->config.grants;
    return grants ? grants->tools : NULL;
}

static const tool *find(lua_State *L)
{
    const tools *all = granted(L);
    return all ? tools_find(all, luaL_checkstring(L, 1)) : NULL;
}

static int core_host_tool(lua_State *L)
{
    const tool *t = find(L);
    if (!t)
        return 0;
    if (!json_push_decoded(L, t->declaration, strlen(t->declaration)))
        return lib_error(L, "tool '%s': %s", t->name, lua_tostring(L, -1));
    return 1;
}

/* ------------------------------------------------------------- calling */

/* [crew] */
static void run(void *work, int stop_fd)
{
    calling *c = work;
    c->good = tools_call(c->all, c->tool, c->arguments, c->timeout_ms, stop_fd, &c->out, &c->json,
                         &c->why);
}

static void clear(void *work)
{
    calling *c = work;
    free(c->arguments);
    buf_clear(&c->out);
    free(c);
}

static int push(lua_State *L, const void *work)
{
    const calling *c = work;
    if (!c->good)
        return jobs_push_failure(L, &c->why);
    sandbox_spend(L, c->out.size / 16);
    if (!c->json)
        lua_pushlstring(L, buf_text(&c->out), c->out.size);
    else if (!json_push_decoded(L, buf_text(&c->out), c->out.size))
        return env_failure(L, "format", false, "what the tool gave cannot be read: %s",
                           lua_tostring(L, -1));
    return 1;
}

static calling *make(lua_State *L, const tool *t, const char *arguments)
{
    calling *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->all = granted(L);
    c->tool = t;
    c->arguments = strdup(arguments);
    if (c->arguments)
        return c;
    free(c);
    return NULL;
}

static int core_call_host_tool(lua_State *L)
{
    static const jobs_kind kind = {run, clear, push};
    const tool *t = find(L);
    int64_t timeout_ms = luaL_optinteger(L, 3, 0);
    if (!t)
        return lib_error(L, "there is no such tool");
    lua_settop(L, 2);
    json_push_encoded(L, 2);
    const char *arguments = lua_tostring(L, 3);
    if (lua_rawlen(L, 3) > TOOLS_MAX_ARGUMENTS)
        return env_failure(L, "too_large", false, "the arguments have more than %d KiB",
                           (int)(TOOLS_MAX_ARGUMENTS >> 10));
    if (!jobs_begin(L, "a tool of the host"))
        return 1;
    calling *c = make(L, t, arguments);
    if (c)
        c->timeout_ms = timeout_ms;
    return jobs_wait(L, &kind, c);
}

void tools_lib_open(lua_State *L, int core)
{
    static const luaL_Reg own[] = {
        {"host_tool", core_host_tool}, {"call_host_tool", core_call_host_tool}, {NULL, NULL}};
    lua_pushvalue(L, core);
    luaL_setfuncs(L, own, 0);
    lua_pop(L, 1);
}
