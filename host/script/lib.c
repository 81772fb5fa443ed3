/*
 * script/lib.c - what a script gets by require "pawl", its ctx, and its own modules.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/json.h"
#include "script/schema.h"
#include "script/state.h"

#include "base/file.h"
#include "base/utf8.h"
#include "prelude.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Registry keys: the pipeline's table, ctx, and module name → what it returned, or true
 * while it loads. */
static const char pipeline_key = 'p', ctx_key = 'c', modules_key = 'o';

#define MAX_DESCRIPTION 2000

int lib_error(lua_State *L, const char *format, ...)
{
    lua_Debug at;
    va_list arguments;
    int level = 1;
    while (lua_getstack(L, level, &at) && lua_getinfo(L, "S", &at) &&
           (strcmp(at.source, "=pawl") == 0 || at.source[0] == '='))
        level++;
    luaL_where(L, level);
    va_start(arguments, format);
    lua_pushvfstring(L, format, arguments);
    va_end(arguments);
    lua_concat(L, 2);
    return lua_error(L);
}

/* ------------------------------------------------------------- h.pipeline */

/* The value at the top as a limit: a number from 1. */
static double limit(lua_State *L, const char *name, double most)
{
    double value = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : (double)NAN;
    if (!(value > 0 && value <= most))
        luaL_error(L, "the limit '%s' is a number above 0, at most %f", name, most);
    return value;
}

static void read_limit(lua_State *L, const char *name, script_limits *to)
{
    const double whole = 9007199254740992.0;
    if (strcmp(name, "wall_s") == 0)
        to->wall_ms = (int64_t)ceil(limit(L, name, 366.0 * 24 * 3600) * 1000);
    else if (strcmp(name, "mem_mb") == 0)
        to->memory = (size_t)(limit(L, name, 65536) * (1 << 20));
    else if (strcmp(name, "tokens") == 0)
        to->tokens = (uint64_t)ceil(limit(L, name, whole));
    else if (strcmp(name, "calls") == 0)
        to->calls = (uint64_t)ceil(limit(L, name, whole));
    else if (strcmp(name, "tool_calls") == 0)
        to->tool_calls = (uint64_t)ceil(limit(L, name, whole));
    else if (strcmp(name, "instructions") == 0)
        to->instructions = (uint64_t)ceil(limit(L, name, whole));
    else
        luaL_error(L,
                   "unknown limit '%s'; known are wall_s, tokens, calls, tool_calls, mem_mb, "
                   "instructions",
                   name);
}

static void read_limits(lua_State *L, declaration *to)
{
    if (lua_getfield(L, 1, "limits") != LUA_TNIL) {
        luaL_checktype(L, -1, LUA_TTABLE);
        for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
            if (lua_type(L, -2) != LUA_TSTRING)
                luaL_error(L, "a limit is a name with a number");
            read_limit(L, lua_tostring(L, -2), &to->limits);
        }
    }
    lua_pop(L, 1);
}

static void read_params(lua_State *L, declaration *to)
{
    pawl_error error = {.struct_size = sizeof error};
    cJSON *schema = NULL;
    size_t size;
    if (lua_getfield(L, 1, "params") != LUA_TNIL) {
        luaL_checktype(L, -1, LUA_TTABLE);
        json_push_encoded(L, -1);
        const char *text = lua_tolstring(L, -1, &size);
        pawl_status status = json_parse(text, size, &schema, &error);
        if (!status)
            status = schema_check(schema, &error);
        cJSON_Delete(schema);
        if (status)
            luaL_error(L, "'params': %s", error.message);
        to->params = strdup(text);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static bool is_name(const char *name, size_t most)
{
    size_t size = strlen(name);
    return size >= 1 && size <= most &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == size;
}

/* h.pipeline{name=, description=, params=, limits=, run=}: the same table, noted. */
static int h_pipeline(lua_State *L)
{
    static const char *const known[] = {"name", "description", "params", "limits", "run", NULL};
    script *s = script_of(L);
    declaration *to = &s->declared;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    if (!s->loading || to->made)
        return luaL_error(L, "a file declares one pipeline, while it loads");
    options_refuse_unknown(L, 1, known, "a pipeline");
    lua_getfield(L, 1, "name");
    const char *name = options_check_text(L, -1, "name");
    if (!is_name(name, PIPELINE_MAX_NAME))
        return luaL_error(L, "a pipeline's 'name' has 1 to %d letters, digits, '_' or '-'",
                          PIPELINE_MAX_NAME);
    snprintf(to->name, sizeof to->name, "%s", name);
    if (lua_getfield(L, 1, "run") != LUA_TFUNCTION)
        return luaL_error(L, "a pipeline's 'run' is a function");
    if (lua_getfield(L, 1, "description") != LUA_TNIL) {
        const char *text = options_check_text(L, -1, "description");
        if (strlen(text) > MAX_DESCRIPTION)
            return luaL_error(L, "a 'description' has at most %d bytes", MAX_DESCRIPTION);
        to->description = strdup(text);
    }
    read_limits(L, to);
    read_params(L, to);
    to->made = true;
    lua_settop(L, 1);
    lua_pushvalue(L, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &pipeline_key);
    return 1;
}

void lib_push_run(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &pipeline_key);
    lua_pushliteral(L, "run");
    lua_rawget(L, -2);
    lua_remove(L, -2);
    if (!lua_isfunction(L, -1))
        luaL_error(L, "the pipeline's 'run' is no function any more");
}

bool lib_is_pipeline(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &pipeline_key);
    bool same = lua_istable(L, index) && lua_rawequal(L, -1, index);
    lua_pop(L, 1);
    return same;
}

/* ------------------------------------------------------------- ctx */

void lib_push_ctx(lua_State *L)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ctx_key);
}

void lib_check_ctx(lua_State *L, const char *name)
{
    bool same = lua_gettop(L) >= 1;
    lua_rawgetp(L, LUA_REGISTRYINDEX, &ctx_key);
    same = same && lua_rawequal(L, 1, -1);
    lua_pop(L, 1);
    if (!same)
        luaL_error(L, "call it with a colon: ctx:%s(…)", name);
}

/* ------------------------------------------------------------- require */

static const pipeline_module *find_module(const pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_modules; i++)
        if (strcmp(p->modules[i].name, name) == 0)
            return &p->modules[i];
    return NULL;
}

/* Reads name.lua in the first root that has it, into the pipeline that is being made. */
static const pipeline_module *read_module(lua_State *L, const char *name)
{
    script *s = script_of(L);
    pipeline *p = s->config.pipeline;
    pawl_error error = {.struct_size = sizeof error};
    char file[PIPELINE_MAX_NAME + 5];
    buf text;
    pawl_status status = PAWL_E_NOT_FOUND;
    if (p->n_modules == PIPELINE_MAX_MODULES)
        luaL_error(L, "a pipeline requires at most %d modules", PIPELINE_MAX_MODULES);
    snprintf(file, sizeof file, "%s.lua", name);
    buf_init(&text, SCRIPT_MAX_SOURCE);
    for (size_t i = 0; i < s->n_roots && status; i++) {
        char *path = file_join(s->roots[i], file);
        status = path ? file_read(path, &text, &error) : PAWL_E_MEMORY;
        free(path);
    }
    bool plain = !status && utf8_valid_prefix(buf_text(&text), text.size) == text.size &&
                 strlen(buf_text(&text)) == text.size;
    pipeline_module *m = &p->modules[p->n_modules];
    if (plain) {
        m->name = strdup(name);
        m->text = buf_take(&text);
    }
    buf_clear(&text);
    if (status)
        luaL_error(L, "no module '%s': %s", name,
                   s->n_roots ? error.message : "there is no folder to look in");
    if (!plain || !m->name || !m->text) {
        free(m->name);
        free(m->text);
        *m = (pipeline_module){0};
        luaL_error(L, "module '%s' is no UTF-8 text", name);
    }
    p->n_modules++;
    return m;
}

static int require(lua_State *L)
{
    const script *s = script_of(L);
    const char *name = options_check_text(L, 1, "a module's name");
    lua_settop(L, 1);
    if (!is_name(name, PIPELINE_MAX_NAME))
        return luaL_error(L, "a module's name has 1 to %d letters, digits, '_' or '-'",
                          PIPELINE_MAX_NAME);
    lua_rawgetp(L, LUA_REGISTRYINDEX, &modules_key);
    lua_pushvalue(L, 1);
    if (lua_rawget(L, 2) == LUA_TBOOLEAN && !lua_toboolean(L, -1))
        return luaL_error(L, "module '%s' requires itself", name);
    if (!lua_isnil(L, -1))
        return 1;
    if (!s->loading)
        return luaL_error(L, "require '%s' comes too late: require while the file loads", name);
    const pipeline_module *m = find_module(s->config.pipeline, name);
    if (!m)
        m = read_module(L, name);
    lua_pushvalue(L, 1);
    lua_pushboolean(L, 0);
    lua_rawset(L, 2);
    char title[PIPELINE_MAX_NAME + 6];
    snprintf(title, sizeof title, "@%s.lua", name);
    if (!lib_load(L, title, m->text))
        return lua_error(L);
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1);
    }
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -2);
    lua_rawset(L, 2);
    return 1;
}

/* ------------------------------------------------------------- loading */

#define PIECE_BYTES 512    /* of source between two looks at the clock */
#define CHECKED_UNITS 1000 /* charged for each; makes sandbox_spend() look */

/* The source in small pieces: compiling hostile text can be slow, and no hook runs then. */
typedef struct source {
    const char *at;
    size_t left;
} source;

static const char *read_piece(lua_State *L, void *arg, size_t *size)
{
    source *from = arg;
    const char *piece = from->at;
    *size = from->left < PIECE_BYTES ? from->left : PIECE_BYTES;
    from->at += *size;
    from->left -= *size;
    sandbox_spend(L, CHECKED_UNITS);
    return piece;
}

/* Skips a byte order mark and the first line of a file with "#!"; lines keep their numbers. */
static const char *skip_head(const char *text)
{
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0)
        text += 3;
    if (*text == '#')
        text += strcspn(text, "\n");
    return text;
}

bool lib_load(lua_State *L, const char *title, const char *text)
{
    const char *body = skip_head(text);
    source from = {body, strlen(body)};
    return lua_load(L, read_piece, &from, title, "t") == LUA_OK;
}

/* ------------------------------------------------------------- opening */

static int h_json(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    json_push_encoded(L, 1);
    return 1;
}

/* A value, or nil and {code = "json", message = …}: a model's text is no misuse. */
static int h_parse(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    if (json_push_decoded(L, text, size))
        return 1;
    return env_failure(L, "json", false, "%s", lua_tostring(L, -1));
}

static void push_h(lua_State *L)
{
    static const luaL_Reg own[] = {{"pipeline", h_pipeline},
                                   {"json", h_json},
                                   {"parse", h_parse},
                                   {"array", json_mark},
                                   {NULL, NULL}};
    luaL_newlib(L, own);
    lua_pushinteger(L, SCRIPT_API);
    lua_setfield(L, -2, "api");
    json_push_null(L);
    lua_setfield(L, -2, "null");
}

/* A part in Lua: a function of core, ctx and h. */
static void load_part(lua_State *L, const char *name, const unsigned char *text, size_t size,
                      int core)
{
    source from = {(const char *)text, size};
    if (lua_load(L, read_piece, &from, name, "t") != LUA_OK)
        lua_error(L);
    for (int i = 0; i < 3; i++)
        lua_pushvalue(L, core + i);
    lua_call(L, 3, 0);
}

void lib_open(lua_State *L)
{
    json_open(L);
    lua_newtable(L); /* core */
    int core = lua_gettop(L), ctx = core + 1, h = core + 2;
    lua_newtable(L);
    lua_pushvalue(L, ctx);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &ctx_key);
    push_h(L);
    context_open(L, core, ctx);
    task_open(L, core);
    step_open(L, core);
    text_open(L, core, ctx);
    dialog_open(L, core);
    jobs_open(L, core);
    docs_lib_open(L, core);
    tools_lib_open(L, core);
    load_part(L, "=pawl", pawl_lua, sizeof pawl_lua - 1, core);
    load_part(L, "=pawl.documents", documents_lua, sizeof documents_lua - 1, core);
    lua_newtable(L);
    lua_pushvalue(L, h);
    lua_setfield(L, -2, "pawl");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &modules_key);
    lua_pushglobaltable(L);
    lua_pushcfunction(L, require);
    lua_setfield(L, -2, "require");
    lua_settop(L, core - 1);
}
