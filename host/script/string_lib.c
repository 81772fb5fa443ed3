/*
 * script/string_lib.c - the library `string` of a script. See env.h.
 *
 * Taken over from Lua's own: what copies. Ours: what searches (pattern.h), and rep and
 * format, whose work or output is not bounded by their arguments' length. Left out:
 * dump, pack, packsize, unpack.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/pattern.h"

#include <lualib.h>
#include <string.h>

#define BYTES_A_UNIT 16 /* of a text that is scanned */

/* ------------------------------------------------------------- find, match */

/* A start position of the script's as an offset; size + 1 where it lies behind the end. */
static size_t offset_of(lua_Integer position, size_t size)
{
    if (position > 0)
        return (lua_Unsigned)position - 1 > size ? size + 1 : (size_t)position - 1;
    if (position == 0 || position < -(lua_Integer)size)
        return 0;
    return size - (size_t)-position;
}

static bool is_plain(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] != '\0' && strchr("^$*+?.([%-", text[i]))
            return false;
    return true;
}

static int find_plain(lua_State *L, const char *subject, size_t size, size_t from, const char *text,
                      size_t text_size)
{
    sandbox_spend(L, (size - from) / BYTES_A_UNIT);
    const char *at =
        text_size ? memmem(subject + from, size - from, text, text_size) : subject + from;
    if (!at) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, at - subject + 1);
    lua_pushinteger(L, at - subject + (lua_Integer)text_size);
    return 2;
}

static int search(lua_State *L, bool find)
{
    size_t size, text_size;
    const char *subject = luaL_checklstring(L, 1, &size);
    const char *text = luaL_checklstring(L, 2, &text_size);
    size_t from = offset_of(luaL_optinteger(L, 3, 1), size);
    sandbox_spend(L, 1 + text_size / BYTES_A_UNIT);
    if (from > size) {
        lua_pushnil(L);
        return 1;
    }
    if (find && (lua_toboolean(L, 4) || is_plain(text, text_size)))
        return find_plain(L, subject, size, from, text, text_size);
    bool anchored = text_size && text[0] == '^';
    pattern p;
    pattern_init(&p, L, subject, size, text + anchored, text_size - anchored);
    for (const char *at = subject + from; at <= subject + size; at++) {
        const char *end = pattern_match(&p, at);
        if (end && find) {
            lua_pushinteger(L, at - subject + 1);
            lua_pushinteger(L, end - subject);
            return 2 + (p.n_captures ? pattern_push_captures(&p, at, end) : 0);
        }
        if (end)
            return pattern_push_captures(&p, at, end);
        if (anchored)
            break;
    }
    lua_pushnil(L);
    return 1;
}

static int string_find(lua_State *L)
{
    return search(L, true);
}

static int string_match(lua_State *L)
{
    return search(L, false);
}

/* ------------------------------------------------------------- gmatch */

/* Upvalues: subject, pattern, offset of the next try, end of the latest match or -1. */
static int gmatch_next(lua_State *L)
{
    size_t size, text_size;
    const char *subject = lua_tolstring(L, lua_upvalueindex(1), &size);
    const char *text = lua_tolstring(L, lua_upvalueindex(2), &text_size);
    size_t from = (size_t)lua_tointeger(L, lua_upvalueindex(3));
    lua_Integer last = lua_tointeger(L, lua_upvalueindex(4));
    pattern p;
    sandbox_spend(L, 1);
    pattern_init(&p, L, subject, size, text, text_size);
    for (; from <= size; from++) {
        const char *end = pattern_match(&p, subject + from);
        if (!end || end - subject == last)
            continue;
        lua_pushinteger(L, end - subject);
        lua_pushvalue(L, -1);
        lua_replace(L, lua_upvalueindex(3));
        lua_replace(L, lua_upvalueindex(4));
        return pattern_push_captures(&p, subject + from, end);
    }
    lua_pushinteger(L, (lua_Integer)size + 1);
    lua_replace(L, lua_upvalueindex(3));
    return 0;
}

static int string_gmatch(lua_State *L)
{
    size_t size;
    luaL_checklstring(L, 1, &size);
    luaL_checkstring(L, 2);
    size_t from = offset_of(luaL_optinteger(L, 3, 1), size);
    lua_settop(L, 2);
    lua_pushinteger(L, (lua_Integer)from);
    lua_pushinteger(L, -1);
    lua_pushcclosure(L, gmatch_next, 4);
    return 1;
}

/* ------------------------------------------------------------- gsub */

/* The replacement text with its %0 to %9 and %%. */
static void add_expanded(pattern *p, luaL_Buffer *out, const char *at, const char *end)
{
    size_t size;
    const char *text = lua_tolstring(p->L, 3, &size), *text_end = text + size;
    const char *percent;
    sandbox_spend(p->L, size / BYTES_A_UNIT);
    while ((percent = memchr(text, '%', (size_t)(text_end - text)))) {
        luaL_addlstring(out, text, (size_t)(percent - text));
        char c = percent + 1 < text_end ? percent[1] : '\0';
        if (c == '%') {
            luaL_addchar(out, '%');
        } else if (c == '0') {
            luaL_addlstring(out, at, (size_t)(end - at));
        } else if (c >= '1' && c <= '9') {
            pattern_push_capture(p, c - '1', at, end);
            luaL_tolstring(p->L, -1, NULL); /* a position becomes text */
            lua_remove(p->L, -2);
            luaL_addvalue(out);
        } else {
            luaL_error(p->L, "invalid use of '%%' in replacement string");
        }
        text = percent + 2;
    }
    luaL_addlstring(out, text, (size_t)(text_end - text));
}

/* What a match is replaced by. */
static void add_replacement(pattern *p, luaL_Buffer *out, const char *at, const char *end)
{
    lua_State *L = p->L;
    int type = lua_type(L, 3);
    if (type == LUA_TFUNCTION) {
        lua_pushvalue(L, 3);
        int n = pattern_push_captures(p, at, end);
        lua_call(L, n, 1);
    } else if (type == LUA_TTABLE) {
        pattern_push_capture(p, 0, at, end);
        lua_gettable(L, 3);
    } else {
        add_expanded(p, out, at, end);
        return;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        luaL_addlstring(out, at, (size_t)(end - at));
        return;
    }
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    luaL_addvalue(out);
}

static int string_gsub(lua_State *L)
{
    size_t size, text_size;
    const char *subject = luaL_checklstring(L, 1, &size), *at = subject, *last = NULL;
    const char *text = luaL_checklstring(L, 2, &text_size);
    int type = lua_type(L, 3);
    luaL_argexpected(L,
                     type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                         type == LUA_TTABLE,
                     3, "string/function/table");
    if (type == LUA_TNUMBER)
        lua_tostring(L, 3);
    lua_Integer most = luaL_optinteger(L, 4, (lua_Integer)size + 1), n = 0;
    bool anchored = text_size && text[0] == '^';
    pattern p;
    luaL_Buffer out;
    lua_settop(L, 4);
    sandbox_spend(L, 1);
    pattern_init(&p, L, subject, size, text + anchored, text_size - anchored);
    luaL_buffinit(L, &out);
    while (n < most) {
        const char *end = pattern_match(&p, at);
        if (end && end != last) {
            n++;
            add_replacement(&p, &out, at, end);
            at = last = end;
        } else if (at < subject + size) {
            luaL_addchar(&out, *at++);
        } else {
            break;
        }
        if (anchored)
            break;
    }
    luaL_addlstring(&out, at, (size_t)(subject + size - at));
    luaL_pushresult(&out);
    lua_pushinteger(L, n);
    return 2;
}

/* ------------------------------------------------------------- rep, format */

/* Upvalue 1: Lua's own, which would loop a quintillion times to repeat nothing. */
static int string_rep(lua_State *L)
{
    size_t size, separator;
    luaL_checklstring(L, 1, &size);
    luaL_optlstring(L, 3, "", &separator);
    luaL_checkinteger(L, 2);
    sandbox_spend(L, 1);
    if (size + separator == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Upvalue 1: Lua's own. It would print addresses. */
static int string_format(lua_State *L)
{
    size_t size;
    const char *format = luaL_checklstring(L, 1, &size), *end = format + size;
    const char *percent = format;
    sandbox_spend(L, 1 + size / BYTES_A_UNIT);
    while ((percent = memchr(percent, '%', (size_t)(end - percent)))) {
        percent++;
        if (*percent != '%')
            percent += strspn(percent, "-+ #0123456789.");
        if (*percent == 'p')
            return luaL_error(L, "invalid conversion '%%p' to 'format': there are no addresses");
        if (percent < end)
            percent++;
    }
    int n = lua_gettop(L);
    luaL_checkstack(L, 8, "too many arguments");
    for (int i = 2; i <= n; i++) {
        int type = lua_type(L, i);
        if (type == LUA_TNIL || type == LUA_TBOOLEAN || type == LUA_TNUMBER || type == LUA_TSTRING)
            continue;
        env_text(L, i, NULL);
        lua_replace(L, i);
    }
    return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

/* Our function around Lua's own of the same name, into the table at the top. */
static void add_around(lua_State *L, int from, const char *name, lua_CFunction function)
{
    lua_getfield(L, from, name);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, -2, name);
}

void env_push_string(lua_State *L)
{
    static const char *const kept[] = {"byte", "char", "len", "lower", "reverse", "sub", "upper"};
    static const luaL_Reg own[] = {{"find", string_find},
                                   {"match", string_match},
                                   {"gmatch", string_gmatch},
                                   {"gsub", string_gsub},
                                   {NULL, NULL}};
    lua_pushcfunction(L, luaopen_string);
    lua_call(L, 0, 1);
    int from = lua_gettop(L);
    luaL_newlib(L, own);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        env_guard(L, from, kept[i]);
    add_around(L, from, "rep", string_rep);
    add_around(L, from, "format", string_format);
    lua_pushliteral(L, ""); /* the metatable that luaopen_string gave all strings */
    if (lua_getmetatable(L, -1)) {
        lua_pushvalue(L, from + 1);
        lua_setfield(L, -2, "__index");
        lua_pushboolean(L, 0);
        lua_setfield(L, -2, "__metatable");
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    lua_remove(L, from);
}
