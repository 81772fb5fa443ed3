/*
 * script/env.c - what a script can name. See env.h.
 *
 * Functions of Lua's own libraries are taken over one by one, by name; what is not
 * listed here does not exist for a script. Replaced are those that could swallow a
 * spent budget (pcall, xpcall), give memory to finalizers and weak tables (setmetatable),
 * run long without a look at the clock (next, pairs) or tell addresses (tostring).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"

#include <lualib.h>
#include <string.h>

#define MAX_PROTECTED 150

/* The key of the table of shadows in the registry; only its address matters. */
static const char shadows_key = 's';

/* ------------------------------------------------------------- pcall, xpcall */

/* Lua unwinds a coroutine from pcall to pcall and walks over the whole stack at each, so
 * a hundred thousand of them within each other would take minutes to end. */
static void enter_protected(lua_State *L)
{
    sandbox *s = sandbox_of(L);
    if (s->protected >= MAX_PROTECTED)
        luaL_error(L, "more than %d pcalls within each other", MAX_PROTECTED);
    s->protected ++;
}

/* extra: values on the stack that are no results. */
static int protected_done(lua_State *L, int status, lua_KContext extra)
{
    sandbox_of(L)->protected --;
    if (status == LUA_OK || status == LUA_YIELD)
        return lua_gettop(L) - (int)extra;
    sandbox_caught(L, status);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
}

static int guarded_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    enter_protected(L);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    int status = lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, protected_done);
    return protected_done(L, status, 0);
}

/* Upvalue 1: the script's handler, which sees no error that ends the script. */
static int on_error(lua_State *L)
{
    if (sandbox_must_die(sandbox_of(L), LUA_ERRRUN))
        return 1;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int guarded_xpcall(lua_State *L)
{
    int n_arguments = lua_gettop(L) - 2;
    luaL_checktype(L, 2, LUA_TFUNCTION);
    enter_protected(L);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, on_error, 1);
    lua_replace(L, 2); /* function, handler, arguments… */
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2); /* function, handler, true, function, arguments… */
    int status = lua_pcallk(L, n_arguments, LUA_MULTRET, 2, 2, protected_done);
    return protected_done(L, status, 2);
}

/* ------------------------------------------------------------- metatables */

/* What of a metatable takes effect. Not __gc: finalizers run outside of all budgets. Not
 * __mode: tables with weak keys can make one collection take quadratic time. */
static const char *const events[] = {
    "__index", "__newindex", "__call",   "__tostring", "__name",  "__eq",       "__lt",
    "__le",    "__len",      "__concat", "__unm",      "__add",   "__sub",      "__mul",
    "__div",   "__idiv",     "__mod",    "__pow",      "__band",  "__bor",      "__bxor",
    "__bnot",  "__shl",      "__shr",    "__close",    "__pairs", "__metatable"};

/* Pushes the shadow of the metatable at index: the same events, and the original as [1].
 * The script keeps no way to it, so what is not copied cannot come in later. */
static void push_shadow(lua_State *L, int index)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &shadows_key);
    lua_pushvalue(L, index);
    if (lua_rawget(L, -2) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_createtable(L, 1, 4);
        lua_pushvalue(L, index);
        lua_rawseti(L, -2, 1);
        lua_pushvalue(L, index);
        lua_pushvalue(L, -2);
        lua_rawset(L, -4);
    }
    lua_remove(L, -2);
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        lua_pushstring(L, events[i]);
        lua_pushvalue(L, -1);
        lua_rawget(L, index);
        lua_rawset(L, -3);
    }
}

static void refuse_event(lua_State *L, const char *name, const char *why)
{
    lua_pushstring(L, name);
    if (lua_rawget(L, 2) != LUA_TNIL)
        luaL_error(L, "a metatable may have no '%s' here: %s", name, why);
    lua_pop(L, 1);
}

static int guarded_setmetatable(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_argexpected(L, lua_isnil(L, 2) || lua_istable(L, 2), 2, "nil or table");
    lua_settop(L, 2);
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL)
        return luaL_error(L, "cannot change a protected metatable");
    if (lua_istable(L, 2)) {
        refuse_event(L, "__gc", "there are no finalizers");
        refuse_event(L, "__mode", "there are no weak tables");
        push_shadow(L, 2);
    }
    lua_setmetatable(L, 1);
    lua_settop(L, 1);
    return 1;
}

/* Nil for everything but tables. */
static int guarded_getmetatable(lua_State *L)
{
    luaL_checkany(L, 1);
    if (!lua_istable(L, 1) || !lua_getmetatable(L, 1)) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushliteral(L, "__metatable");
    if (lua_rawget(L, -2) == LUA_TNIL)
        lua_rawgeti(L, -2, 1);
    return 1;
}

/* ------------------------------------------------------------- the rest */

/* A table whose entries were all removed is long to walk over and has none to count. */
static int guarded_next(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 2);
    sandbox_spend(L, 1);
    if (lua_next(L, 1))
        return 2;
    lua_pushnil(L);
    return 1;
}

static int pairs_done(lua_State *L, int status, lua_KContext context)
{
    (void)L;
    (void)status;
    (void)context;
    return 3;
}

static int guarded_pairs(lua_State *L)
{
    luaL_checkany(L, 1);
    if (luaL_getmetafield(L, 1, "__pairs") == LUA_TNIL) {
        lua_pushcfunction(L, guarded_next);
        lua_pushvalue(L, 1);
        lua_pushnil(L);
        return 3;
    }
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 3, 0, pairs_done);
    return 3;
}

const char *env_text(lua_State *L, int index, size_t *size)
{
    int type = lua_type(L, index);
    bool plain =
        type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING;
    if (plain || luaL_getmetafield(L, index, "__tostring") != LUA_TNIL) {
        if (!plain)
            lua_pop(L, 1);
        return luaL_tolstring(L, index, size);
    }
    lua_pushstring(L, lua_typename(L, type));
    return lua_tolstring(L, -1, size);
}

static int guarded_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    env_text(L, 1, NULL);
    return 1;
}

int env_failure(lua_State *L, const char *code, bool retryable, const char *format, ...)
{
    va_list arguments;
    lua_pushnil(L);
    lua_createtable(L, 0, 3);
    lua_pushstring(L, code);
    lua_setfield(L, -2, "code");
    lua_pushboolean(L, retryable);
    lua_setfield(L, -2, "retryable");
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    lua_setfield(L, -2, "message");
    return 2;
}

/* Upvalue 1: a function of a standard library, which has no upvalues itself. */
static int guarded(lua_State *L)
{
    sandbox_spend(L, 1);
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

void env_guard(lua_State *L, int from, const char *name)
{
    lua_getfield(L, from, name);
    lua_pushcclosure(L, guarded, 1);
    lua_setfield(L, -2, name);
}

/* Opens a standard library and leaves its table on the stack. */
static void push_library(lua_State *L, lua_CFunction open)
{
    lua_pushcfunction(L, open);
    lua_call(L, 0, 1);
}

/* A library of which every function is harmless, as the field of the table at the top. */
static void add_whole_library(lua_State *L, lua_CFunction open, const char *name)
{
    push_library(L, open);
    int from = lua_gettop(L);
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, from); lua_pop(L, 1)) {
        const char *key = lua_tostring(L, -2);
        lua_pushvalue(L, from + 1);
        if (lua_iscfunction(L, -2) && strncmp(key, "random", 6) != 0)
            env_guard(L, from, key);
        else {
            lua_pushvalue(L, -2);
            lua_setfield(L, -2, key);
        }
        lua_pop(L, 1);
    }
    lua_remove(L, from);
    lua_setfield(L, -2, name);
}

/* math.random and math.randomseed share a generator as an upvalue; a run's is seeded
 * from the host's source. */
static void seed_random(lua_State *L)
{
    const base_clock *clock = sandbox_of(L)->clock;
    lua_Integer seed[2];
    clock->random(clock->context, seed, sizeof seed);
    lua_getfield(L, -1, "math");
    lua_getfield(L, -1, "randomseed");
    lua_pushinteger(L, seed[0]);
    lua_pushinteger(L, seed[1]);
    lua_call(L, 2, 0);
    lua_pop(L, 1);
}

void env_open(lua_State *L)
{
    static const char *const kept[] = {"assert", "error",  "ipairs", "rawequal", "rawget",
                                       "rawlen", "rawset", "select", "tonumber", "type"};
    static const luaL_Reg own[] = {{"pcall", guarded_pcall},
                                   {"xpcall", guarded_xpcall},
                                   {"setmetatable", guarded_setmetatable},
                                   {"getmetatable", guarded_getmetatable},
                                   {"next", guarded_next},
                                   {"pairs", guarded_pairs},
                                   {"tostring", guarded_tostring},
                                   {NULL, NULL}};
    lua_newtable(L); /* mt → its shadow; dies with either */
    lua_newtable(L);
    lua_pushliteral(L, "kv");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &shadows_key);

    push_library(L, luaopen_base);
    int base = lua_gettop(L);
    lua_newtable(L);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        bool linear = strncmp(kept[i], "raw", 3) == 0 || strncmp(kept[i], "t", 1) == 0 ||
                      strcmp(kept[i], "select") == 0;
        if (linear && strcmp(kept[i], "type") != 0) {
            env_guard(L, base, kept[i]);
            continue;
        }
        lua_getfield(L, base, kept[i]);
        lua_setfield(L, -2, kept[i]);
    }
    luaL_setfuncs(L, own, 0);
    add_whole_library(L, luaopen_math, "math");
    seed_random(L);
    add_whole_library(L, luaopen_utf8, "utf8");
    env_push_string(L);
    lua_setfield(L, -2, "string");
    env_push_table(L);
    lua_setfield(L, -2, "table");
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "_G");
    lua_remove(L, base);
    lua_pushvalue(L, -1);
    lua_rawseti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
}
