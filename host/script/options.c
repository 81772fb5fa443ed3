/*
 * script/options.c - the table that a script gives to session:generate. See state.h.
 *
 * Misuse raises: a misspelt option that is silently dropped costs its author an hour.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/json.h"
#include "script/state.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

#define MAX_TOKENS (1 << 30)
#define MAX_TIMEOUT_MS (365LL * 24 * 3600 * 1000)
#define MAX_TOOLS 256
#define MAX_TOOLS_BYTES (256u << 10)

const char *options_check_text(lua_State *L, int index, const char *what)
{
    size_t size;
    if (lua_type(L, index) != LUA_TSTRING)
        luaL_error(L, "'%s' is a text, not a %s", what, luaL_typename(L, index));
    const char *text = lua_tolstring(L, index, &size);
    sandbox_spend(L, size / 16);
    size_t valid = utf8_valid_prefix(text, size);
    if (valid != size || strlen(text) != size)
        luaL_error(L, "'%s' has %s at byte %d", what, valid != size ? "broken UTF-8" : "a NUL",
                   (int)(valid != size ? valid : strlen(text)) + 1);
    return text;
}

/* The value at the top as a number in a range. */
static double number(lua_State *L, const char *name, double min, double max)
{
    double value = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : (double)NAN;
    if (!(value >= min && value <= max))
        luaL_error(L, "'%s' is a number from %f to %f", name, min, max);
    return value;
}

static lua_Integer integer(lua_State *L, const char *name, lua_Integer min, lua_Integer max)
{
    int whole = 0;
    lua_Integer value = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : 0;
    if (!whole || value < min || value > max)
        luaL_error(L, "'%s' is a whole number from %I to %I", name, (LUAI_UACINT)min,
                   (LUAI_UACINT)max);
    return value;
}

static void add_stop(lua_State *L, generate_options *o)
{
    const char *text = options_check_text(L, -1, "stop");
    if (!*text || strlen(text) > RUN_MAX_STOP_BYTES)
        luaL_error(L, "a text of 'stop' has from 1 to %d bytes", RUN_MAX_STOP_BYTES);
    if (o->n_stop == RUN_MAX_STOP)
        luaL_error(L, "'stop' has at most %d texts", RUN_MAX_STOP);
    o->stop[o->n_stop++] = text; /* the script's table keeps it */
}

static void read_stop(lua_State *L, generate_options *o)
{
    if (!lua_istable(L, -1)) {
        add_stop(L, o);
        return;
    }
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        add_stop(L, o);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static bool is_name(const char *name)
{
    size_t size = strlen(name);
    return size >= 1 && size <= 128 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
               size;
}

/* The list {{name, description, parameters}, …} at the top becomes JSON at slot 3. */
static void read_tools(lua_State *L, generate_options *o)
{
    int list = lua_gettop(L);
    if (!lua_istable(L, list) || lua_rawlen(L, list) > MAX_TOOLS)
        luaL_error(L, "'tools' is a list of at most %d tables", MAX_TOOLS);
    lua_newtable(L);
    for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++) {
        if (!lua_istable(L, -1) || lua_getfield(L, -1, "name") != LUA_TSTRING ||
            !is_name(lua_tostring(L, -1)))
            luaL_error(L, "tools[%d] needs a 'name' of 1 to 128 letters, digits, '_', '-' or '.'",
                       (int)i);
        lua_pop(L, 1);
        lua_createtable(L, 0, 2);
        lua_insert(L, -2);
        lua_setfield(L, -2, "function");
        lua_pushliteral(L, "function");
        lua_setfield(L, -2, "type");
        lua_rawseti(L, list + 1, i);
    }
    lua_pop(L, 1);
    if (lua_rawlen(L, list + 1) > 0) {
        json_push_encoded(L, list + 1);
        if (lua_rawlen(L, -1) > MAX_TOOLS_BYTES)
            luaL_error(L, "'tools' has more than %d bytes", (int)MAX_TOOLS_BYTES);
        o->tools = lua_tostring(L, -1);
        lua_replace(L, 3);
    }
    lua_settop(L, list);
}

static const char *one_of(lua_State *L, const char *name, const char *const *words)
{
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    for (size_t i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return words[i];
    luaL_error(L, "'%s' is \"%s\", \"%s\"…", name, words[0], words[1]);
    return NULL;
}

static void read_effort(lua_State *L, generate_options *o)
{
    static const char *const words[] = {"low",     "medium", "high", "none",
                                        "minimal", "xhigh",  "max",  NULL};
    const char *effort = one_of(L, "reasoning_effort", words);
    o->thinking = strcmp(effort, "none") != 0;
    o->effort = o->thinking ? effort : NULL;
}

static bool read_sampling(lua_State *L, const char *name, pawl_sampling *sampling)
{
    struct {
        const char *name;
        double min, max;
        float *value;
    } const numbers[] = {
        {"temperature", 0, 2, &sampling->temperature},
        {"top_p", 0, 1, &sampling->top_p},
        {"min_p", 0, 1, &sampling->min_p},
        {"repetition_penalty", 0.01, 10, &sampling->repetition_penalty},
        {"presence_penalty", -2, 2, &sampling->presence_penalty},
        {"frequency_penalty", -2, 2, &sampling->frequency_penalty},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(name, numbers[i].name) == 0) {
            *numbers[i].value = (float)number(L, name, numbers[i].min, numbers[i].max);
            return true;
        }
    if (strcmp(name, "top_k") != 0)
        return false;
    sampling->top_k = (uint32_t)integer(L, name, 0, INT32_MAX);
    return true;
}

/* The value at the top, under its name. */
static void read_option(lua_State *L, const char *name, generate_options *o)
{
    static const char *const choices[] = {"auto", "none", NULL};
    static const char *const classes[] = {"interactive", "batch", NULL};
    if (read_sampling(L, name, &o->sampling))
        return;
    if (strcmp(name, "text") == 0) {
        o->text = options_check_text(L, -1, "text");
    } else if (strcmp(name, "max_tokens") == 0) {
        o->max_tokens = (uint64_t)integer(L, name, 1, MAX_TOKENS);
    } else if (strcmp(name, "seed") == 0) {
        o->seed = (uint64_t)integer(L, name, LUA_MININTEGER, LUA_MAXINTEGER);
        o->seeded = true;
    } else if (strcmp(name, "timeout_ms") == 0) {
        o->timeout_ms = integer(L, name, 1, MAX_TIMEOUT_MS);
    } else if (strcmp(name, "stop") == 0) {
        read_stop(L, o);
    } else if (strcmp(name, "tools") == 0) {
        read_tools(L, o);
    } else if (strcmp(name, "tool_choice") == 0) {
        o->tools_off = strcmp(one_of(L, name, choices), "none") == 0;
    } else if (strcmp(name, "priority") == 0) {
        o->batch = strcmp(one_of(L, name, classes), "batch") == 0;
    } else if (strcmp(name, "reasoning_effort") == 0) {
        read_effort(L, o);
    } else {
        luaL_error(L,
                   "unknown option '%s' of generate; known are text, max_tokens, temperature, "
                   "top_p, top_k, min_p, repetition_penalty, presence_penalty, "
                   "frequency_penalty, seed, stop, timeout_ms, tools, tool_choice, "
                   "reasoning_effort, priority",
                   name);
    }
}

void options_read(lua_State *L, generate_options *o)
{
    *o = (generate_options){.thinking = -1,
                            .sampling = {.struct_size = sizeof o->sampling,
                                         .temperature = 1.0f,
                                         .top_p = 1.0f,
                                         .repetition_penalty = 1.0f}};
    lua_settop(L, 2);
    lua_pushnil(L); /* slot 3: the JSON of the tools */
    if (lua_isnil(L, 2))
        return;
    if (!lua_istable(L, 2)) {
        o->text = options_check_text(L, 2, "text");
        return;
    }
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        luaL_checkstack(L, 16, NULL);
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "an option of generate is a name with a value, not [%d]",
                       (int)lua_tointeger(L, -2));
        read_option(L, lua_tostring(L, -2), o);
    }
}
