/*
 * script/json_encode.c - values of a script as JSON text. See json.h.
 *
 * A table is an array when it is marked as one or has elements and nothing else, and an
 * object when all its keys are strings; {} without a mark is an object. Members are
 * sorted by name, so that equal values have equal text. Broken UTF-8 becomes U+FFFD.
 * What has no JSON form (functions, mixed keys, holes, NaN) raises an error.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/json_rules.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MEMBERS 65536 /* of one object */

/* Registry keys: the mark of arrays (a metatable); null is the pointer to its name. */
static const char array_key = 'a';
static const char null_value[] = "null";

/* Text that grows in a userdata at a fixed place of the stack, since values come and go
 * above it. */
typedef struct writer {
    lua_State *L;
    int slot;
    char *data;
    size_t size;
    size_t room;
    int depth;
} writer;

static void add_value(writer *w, int index);

static void add(writer *w, const char *text, size_t size)
{
    if (size > w->room - w->size) {
        size_t room = w->room * 2;
        while (room - w->size < size)
            room *= 2;
        char *data = lua_newuserdatauv(w->L, room, 0);
        memcpy(data, w->data, w->size);
        lua_replace(w->L, w->slot);
        w->data = data;
        w->room = room;
    }
    memcpy(w->data + w->size, text, size);
    w->size += size;
}

static void add_text(writer *w, const char *text)
{
    add(w, text, strlen(text));
}

static void add_escape(writer *w, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *known = c ? strchr(from, c) : NULL;
    char text[8];
    if (known)
        snprintf(text, sizeof text, "\\%c", to[known - from]);
    else
        snprintf(text, sizeof text, "\\u%04x", c);
    add_text(w, text);
}

/* Whole characters only. */
static void add_escaped(writer *w, const char *text, size_t size)
{
    size_t plain = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        add(w, text + plain, i - plain);
        plain = i + 1;
        add_escape(w, c);
    }
    add(w, text + plain, size - plain);
}

static void add_string(writer *w, const char *text, size_t size)
{
    sandbox_spend(w->L, 1 + size / 16);
    add(w, "\"", 1);
    while (size) {
        size_t valid = utf8_valid_prefix(text, size);
        add_escaped(w, text, valid);
        text += valid;
        size -= valid;
        if (!size)
            break;
        add_text(w, "\xEF\xBF\xBD");
        text++;
        size--;
        while (size && ((unsigned char)*text & 0xC0) == 0x80) {
            text++;
            size--;
        }
    }
    add(w, "\"", 1);
}

static void add_number(writer *w, int index)
{
    char text[40];
    if (lua_isinteger(w->L, index)) {
        snprintf(text, sizeof text, "%lld", (long long)lua_tointeger(w->L, index));
    } else {
        double value = lua_tonumber(w->L, index);
        if (!isfinite(value))
            luaL_error(w->L, "%f has no JSON form", value);
        for (int digits = 15; digits <= 17; digits++) { /* the shortest that reads back */
            snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) >= value && strtod(text, NULL) <= value)
                break;
        }
        if (!strpbrk(text, ".e"))
            strcat(text, ".0"); /* a float stays one */
    }
    add_text(w, text);
}

/* ------------------------------------------------------------- tables */

typedef struct member {
    const char *name;
    size_t size;
} member;

static int by_name(const void *a, const void *b)
{
    const member *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->size < y->size ? x->size : y->size);
    return order ? order : x->size < y->size ? -1 : x->size > y->size;
}

/* How many entries the table has; *n_text of them have a text as key. */
static size_t count(lua_State *L, int index, size_t *n_text)
{
    size_t n = 0;
    *n_text = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        sandbox_spend(L, 1);
        n++;
        *n_text += lua_type(L, -2) == LUA_TSTRING;
    }
    return n;
}

static bool is_marked(lua_State *L, int index)
{
    if (!lua_getmetatable(L, index))
        return false;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
    bool marked = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return marked;
}

static void add_array(writer *w, int index, lua_Integer n)
{
    add(w, "[", 1);
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1)
            add(w, ",", 1);
        lua_rawgeti(w->L, index, i);
        add_value(w, lua_gettop(w->L));
        lua_pop(w->L, 1);
    }
    add(w, "]", 1);
}

static void add_object(writer *w, int index, size_t n)
{
    lua_State *L = w->L;
    if (n > MAX_MEMBERS)
        luaL_error(L, "an object of more than %d members has no JSON form here", MAX_MEMBERS);
    member *members = lua_newuserdatauv(L, (n + 1) * sizeof *members, 0);
    size_t i = 0;
    for (lua_pushnil(L); i < n && lua_next(L, index); lua_pop(L, 1), i++)
        members[i].name = lua_tolstring(L, -2, &members[i].size); /* the table keeps it */
    qsort(members, i, sizeof *members, by_name);
    sandbox_spend(L, n * 16);
    add(w, "{", 1);
    for (size_t k = 0; k < i; k++) {
        if (k)
            add(w, ",", 1);
        add_string(w, members[k].name, members[k].size);
        add(w, ":", 1);
        lua_pushlstring(L, members[k].name, members[k].size);
        lua_rawget(L, index);
        add_value(w, lua_gettop(L));
        lua_pop(L, 1);
    }
    add(w, "}", 1);
}

static void add_table(writer *w, int index)
{
    lua_State *L = w->L;
    size_t n_text, n = count(L, index, &n_text);
    lua_Unsigned length = lua_rawlen(L, index);
    int top = lua_gettop(L);
    if (++w->depth > SCRIPT_JSON_DEPTH)
        luaL_error(L,
                   "tables nested deeper than %d levels (or within themselves) have no JSON form",
                   SCRIPT_JSON_DEPTH);
    luaL_checkstack(L, 12, "JSON");
    if (length == n && (n || is_marked(L, index)))
        add_array(w, index, (lua_Integer)n);
    else if (n_text == n && !is_marked(L, index))
        add_object(w, index, n);
    else
        luaL_error(L, "a table with holes, or with keys that are not all texts or all "
                      "positions, has no JSON form");
    lua_settop(L, top);
    w->depth--;
}

static void add_value(writer *w, int index)
{
    size_t size;
    const char *text;
    sandbox_spend(w->L, 2);
    switch (lua_type(w->L, index)) {
    case LUA_TNIL:
        add_text(w, "null");
        return;
    case LUA_TBOOLEAN:
        add_text(w, lua_toboolean(w->L, index) ? "true" : "false");
        return;
    case LUA_TNUMBER:
        add_number(w, index);
        return;
    case LUA_TSTRING:
        text = lua_tolstring(w->L, index, &size);
        add_string(w, text, size);
        return;
    case LUA_TTABLE:
        add_table(w, index);
        return;
    default:
        if (lua_touserdata(w->L, index) != null_value)
            luaL_error(w->L, "a %s has no JSON form", luaL_typename(w->L, index));
        add_text(w, "null");
    }
}

void json_push_encoded(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    writer w = {.L = L, .room = 256};
    w.data = lua_newuserdatauv(L, w.room, 0);
    w.slot = lua_gettop(L);
    add_value(&w, index);
    lua_pushlstring(L, w.data, w.size);
    lua_replace(L, w.slot);
}

/* ------------------------------------------------------------- marks */

void json_push_null(lua_State *L)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)null_value);
}

void json_mark_array(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &array_key);
    lua_setmetatable(L, -2);
}

int json_mark(lua_State *L)
{
    if (lua_isnone(L, 1))
        lua_newtable(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (lua_getmetatable(L, 1))
        return luaL_error(L, "a table with a metatable cannot be marked as an array");
    json_mark_array(L);
    return 1;
}

static int null_text(lua_State *L)
{
    lua_pushliteral(L, "null");
    return 1;
}

static void lock_metatable(lua_State *L)
{
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

void json_open(lua_State *L)
{
    lua_newtable(L);
    lock_metatable(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &array_key);
    json_push_null(L);
    lua_newtable(L); /* of all light userdata, of which a script has this one */
    lock_metatable(L);
    lua_pushcfunction(L, null_text);
    lua_setfield(L, -2, "__tostring");
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}
