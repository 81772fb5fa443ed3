/*
 * script/table_lib.c - the library `table` of a script. See env.h.
 *
 * The functions of Lua's own library, written anew because theirs trust the length and
 * the positions that they are given: with `__len`, or with plain positions as in
 * table.move({}, 1, 2^62, 2), they loop for years in C. Each element here is charged.
 * Metamethods are obeyed as Lua's own obey them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"

#include <limits.h>

#define MAX_UNPACK 65536 /* values that one call can return */

/* One element was touched. */
static void touch(lua_State *L)
{
    sandbox_spend(L, 4);
}

static lua_Integer length_of(lua_State *L, int index)
{
    luaL_checktype(L, index, LUA_TTABLE);
    return luaL_len(L, index);
}

static int table_concat(lua_State *L)
{
    size_t size;
    lua_Integer last = length_of(L, 1);
    const char *separator = luaL_optlstring(L, 2, "", &size);
    lua_Integer first = luaL_optinteger(L, 3, 1);
    last = luaL_optinteger(L, 4, last);
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    for (lua_Integer i = first; i <= last; i++) {
        touch(L);
        lua_geti(L, 1, i);
        if (!lua_isstring(L, -1))
            return luaL_error(L, "invalid value (at index %I) in table for 'concat'",
                              (LUAI_UACINT)i);
        luaL_addvalue(&out);
        if (i == last)
            break; /* last may be the largest integer */
        luaL_addlstring(&out, separator, size);
    }
    luaL_pushresult(&out);
    return 1;
}

static int table_insert(lua_State *L)
{
    lua_Integer end = (lua_Integer)((lua_Unsigned)length_of(L, 1) + 1), at = end;
    if (lua_gettop(L) == 3) {
        at = luaL_checkinteger(L, 2);
        luaL_argcheck(L, (lua_Unsigned)at - 1u < (lua_Unsigned)end, 2, "position out of bounds");
    } else if (lua_gettop(L) != 2) {
        return luaL_error(L, "wrong number of arguments to 'insert'");
    }
    for (lua_Integer i = end; i > at; i--) {
        touch(L);
        lua_geti(L, 1, i - 1);
        lua_seti(L, 1, i);
    }
    lua_seti(L, 1, at);
    return 0;
}

static int table_remove(lua_State *L)
{
    lua_Integer size = length_of(L, 1), at = luaL_optinteger(L, 2, size);
    if (lua_gettop(L) > 1)
        luaL_argcheck(
            L, (lua_Unsigned)size + 1u - (lua_Unsigned)at <= (lua_Unsigned)size || at == size, 2,
            "position out of bounds");
    lua_geti(L, 1, at);
    for (; at < size; at++) {
        touch(L);
        lua_geti(L, 1, at + 1);
        lua_seti(L, 1, at);
    }
    lua_pushnil(L);
    lua_seti(L, 1, at);
    return 1;
}

static int table_move(lua_State *L)
{
    lua_Integer first = luaL_checkinteger(L, 2), last = luaL_checkinteger(L, 3);
    lua_Integer to = luaL_checkinteger(L, 4);
    int target = lua_isnoneornil(L, 5) ? 1 : 5;
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, target, LUA_TTABLE);
    if (last >= first) {
        luaL_argcheck(L, first > 0 || last < LUA_MAXINTEGER + first, 3,
                      "too many elements to move");
        lua_Integer n = last - first + 1;
        luaL_argcheck(L, to <= LUA_MAXINTEGER - n + 1, 4, "destination wrap around");
        bool upwards = to > last || to <= first || target != 1;
        for (lua_Integer i = 0; i < n; i++) {
            lua_Integer k = upwards ? i : n - 1 - i;
            touch(L);
            lua_geti(L, 1, first + k);
            lua_seti(L, target, to + k);
        }
    }
    lua_pushvalue(L, target);
    return 1;
}

static int table_pack(lua_State *L)
{
    int n = lua_gettop(L);
    sandbox_spend(L, (uint64_t)n);
    lua_createtable(L, n, 1);
    lua_insert(L, 1);
    for (int i = n; i >= 1; i--)
        lua_seti(L, 1, i);
    lua_pushinteger(L, n);
    lua_setfield(L, 1, "n");
    return 1;
}

static int table_unpack(lua_State *L)
{
    lua_Integer first = luaL_optinteger(L, 2, 1);
    lua_Integer last = lua_isnoneornil(L, 3) ? luaL_len(L, 1) : luaL_checkinteger(L, 3);
    if (first > last)
        return 0;
    lua_Unsigned n = (lua_Unsigned)last - (lua_Unsigned)first;
    if (n >= MAX_UNPACK || !lua_checkstack(L, (int)n + 1))
        return luaL_error(L, "too many results to unpack");
    sandbox_spend(L, n);
    for (lua_Unsigned i = 0; i <= n; i++)
        lua_geti(L, 1, (lua_Integer)((lua_Unsigned)first + i));
    return (int)n + 1;
}

/* Whether the value at stack index a sorts before that at b. */
static bool less(lua_State *L, int a, int b)
{
    if (lua_isnil(L, 2))
        return lua_compare(L, a, b, LUA_OPLT);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, a);
    lua_pushvalue(L, b);
    lua_call(L, 2, 1);
    bool result = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return result;
}

/* Lets the value at the top of the stack sink from `hole` in a heap of n elements. Pops it. */
static void sift_down(lua_State *L, lua_Integer hole, lua_Integer n)
{
    int value = lua_gettop(L);
    for (lua_Integer child; (child = 2 * hole) <= n; hole = child) {
        touch(L);
        lua_geti(L, 1, child);
        if (child < n) {
            lua_geti(L, 1, child + 1);
            if (less(L, value + 1, value + 2)) {
                lua_replace(L, value + 1);
                child++;
            } else {
                lua_pop(L, 1);
            }
        }
        if (!less(L, value, value + 1)) {
            lua_pop(L, 1);
            break;
        }
        lua_seti(L, 1, hole);
    }
    lua_seti(L, 1, hole);
}

/* A heap sort: no order function, however inconsistent, makes it slow or leave the table. */
static int table_sort(lua_State *L)
{
    lua_Integer n = length_of(L, 1);
    luaL_argcheck(L, n < INT_MAX, 1, "array too big");
    if (!lua_isnoneornil(L, 2))
        luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    for (lua_Integer i = n / 2; i >= 1; i--) {
        lua_geti(L, 1, i);
        sift_down(L, i, n);
    }
    for (lua_Integer last = n; last > 1; last--) {
        lua_geti(L, 1, last);
        lua_geti(L, 1, 1);
        lua_seti(L, 1, last);
        sift_down(L, 1, last - 1);
    }
    return 0;
}

void env_push_table(lua_State *L)
{
    static const luaL_Reg own[] = {{"concat", table_concat}, {"insert", table_insert},
                                   {"move", table_move},     {"pack", table_pack},
                                   {"remove", table_remove}, {"sort", table_sort},
                                   {"unpack", table_unpack}, {NULL, NULL}};
    luaL_newlib(L, own);
}
