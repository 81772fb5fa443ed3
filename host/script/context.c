/*
 * script/context.c - what a run says, and what it reads of the clock, of chance and of its
 * budgets.
 *
 *   ctx:progress, ctx:log, ctx:random, ctx:budget, print
 *   core.emit(type, data)     false: too many events wait for the disk
 *   core.wall()               milliseconds since 1970
 *   core.key(kind)            the key of the next place in the run, for core.noted
 *   core.noted(key)           true and the value, if this place was noted in an earlier run
 *   core.note(key, value)     false: too many writes wait
 *   core.count_tool_call()
 *   core.check(schema, value) nil, or what is wrong; both as a script has them
 *   core.check_schema(schema) the same of the schema itself
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/json.h"
#include "script/schema.h"
#include "script/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NOTE 200    /* bytes of a note of progress */
#define SAY_UNITS 200   /* what saying something costs, before its length */
#define NOTE_UNITS 1000 /* the same of what is written */

/* ------------------------------------------------------------- events */

static bool is_event_type(const char *type)
{
    size_t size = strlen(type);
    return size >= 1 && size <= 64 &&
           strspn(type, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == size;
}

static int core_emit(lua_State *L)
{
    script *s = script_of(L);
    size_t size;
    const char *type = options_check_text(L, 1, "type");
    if (!is_event_type(type))
        return lib_error(L, "an event's type has 1 to 64 letters, digits, '_' or '-'");
    lua_settop(L, 2);
    json_push_encoded(L, 2);
    const char *json = lua_tolstring(L, -1, &size);
    sandbox_spend(L, SAY_UNITS + size / 16);
    if (size > JOURNAL_MAX_EVENT)
        return lib_error(L, "an event has %d bytes as JSON; at most %d are kept", (int)size,
                         (int)JOURNAL_MAX_EVENT);
    task_frame *step = task_innermost(s);
    bool said = true;
    if (s->config.journal && step) {
        if (!journal_hold(s->config.journal, &step->held, type, json))
            return lib_error(L, "more than %d events, or %d MiB, in one step", JOURNAL_MAX_WAITING,
                             (int)(JOURNAL_MAX_WAITING_BYTES >> 20));
    } else if (s->config.journal) {
        said = journal_say(s->config.journal, type, json);
    }
    lua_pushboolean(L, said);
    return 1;
}

/* ctx:progress(done, total, note) */
static int ctx_progress(lua_State *L)
{
    script *s = script_of(L);
    buf json;
    lib_check_ctx(L, "progress");
    double done = luaL_checknumber(L, 2), total = luaL_optnumber(L, 3, 0);
    const char *note = lua_isnoneornil(L, 4) ? "" : options_check_text(L, 4, "note");
    luaL_argcheck(L, isfinite(done) && done >= 0, 2, "a number from 0 is wanted");
    luaL_argcheck(L, isfinite(total) && total >= 0, 3, "a number from 0 is wanted");
    luaL_argcheck(L, strlen(note) <= MAX_NOTE, 4, "at most 200 bytes are wanted");
    sandbox_spend(L, SAY_UNITS);
    if (!s->config.journal)
        return 0;
    buf_init(&json, 4096);
    buf_printf(&json, "{\"done\":%.15g,\"total\":%.15g,\"note\":", done, total);
    json_add_quoted(&json, json_text(note));
    buf_add_text(&json, "}");
    journal_say(s->config.journal, "run.progress", buf_text(&json));
    buf_clear(&json);
    return 0;
}

/* Data of a log event: fields is JSON or NULL. Too many that wait: it is left out. */
static void say_line(script *s, const char *level, const char *text, size_t size,
                     const char *fields)
{
    buf json;
    if (!s->config.journal)
        return;
    buf_init(&json, JOURNAL_MAX_EVENT);
    buf_printf(&json, "{\"level\":\"%s\",\"message\":", level);
    json_add_quoted(&json, (pawl_bytes){text, size});
    if (fields)
        buf_printf(&json, ",\"fields\":%s", fields);
    buf_add_text(&json, "}");
    if (!json.failed)
        journal_say(s->config.journal, "run.log", buf_text(&json));
    buf_clear(&json);
}

void context_log(script *s, const char *level, const char *text, const char *more)
{
    char line[1000];
    snprintf(line, sizeof line, "%s%s%s", text, more ? " " : "", more ? more : "");
    say_line(s, level, line, strlen(line), NULL);
}

static int too_long(lua_State *L)
{
    return lib_error(L, "a line of the log has at most %d KiB", (int)(JOURNAL_MAX_EVENT >> 12));
}

/* ctx:log(level, message, fields) */
static int ctx_log(lua_State *L)
{
    static const char *const names[] = {"debug", "info", "warn", "error", NULL};
    size_t size, more = 0;
    const char *fields = NULL;
    lib_check_ctx(L, "log");
    const char *level = names[luaL_checkoption(L, 2, NULL, names)];
    luaL_checkany(L, 3);
    lua_settop(L, 4);
    if (!lua_isnil(L, 4)) {
        luaL_checktype(L, 4, LUA_TTABLE);
        json_push_encoded(L, 4);
        fields = lua_tolstring(L, -1, &more);
    }
    const char *text = env_text(L, 3, &size);
    sandbox_spend(L, SAY_UNITS + (size + more) / 16);
    if (size + more > JOURNAL_MAX_EVENT / 4)
        return too_long(L);
    say_line(script_of(L), level, text, size, fields);
    return 0;
}

/* print(…): the texts of all arguments with tabs between, as a line of the log. */
static int print(lua_State *L)
{
    int n = lua_gettop(L);
    size_t size;
    luaL_Buffer out;
    luaL_buffinit(L, &out);
    for (int i = 1; i <= n; i++) {
        if (i > 1)
            luaL_addchar(&out, '\t');
        env_text(L, i, NULL);
        luaL_addvalue(&out);
    }
    luaL_pushresult(&out);
    const char *text = lua_tolstring(L, -1, &size);
    sandbox_spend(L, SAY_UNITS + size / 16);
    if (size > JOURNAL_MAX_EVENT / 4)
        return too_long(L);
    say_line(script_of(L), "info", text, size, NULL);
    return 0;
}

/* ------------------------------------------------------------- time, chance */

static int core_wall(lua_State *L)
{
    const base_clock *clock = sandbox_of(L)->clock;
    lua_pushinteger(L, clock->wall_ms(clock->context));
    return 1;
}

/* Keys of the host's begin with a control character, which those of scripts have none of. */
static int core_key(lua_State *L)
{
    task *t = script_of(L)->tasks.current;
    char key[80];
    snprintf(key, sizeof key, "\001%.20s:%016llx:%u", luaL_checkstring(L, 1),
             (unsigned long long)t->scope, t->counter++);
    lua_pushstring(L, key);
    return 1;
}

static int core_noted(lua_State *L)
{
    const script *s = script_of(L);
    pawl_error error = {.struct_size = sizeof error};
    const char *key = luaL_checkstring(L, 1);
    char *value = NULL;
    sandbox_spend(L, NOTE_UNITS);
    pawl_status status = s->config.resumed && script_is_kept(s)
                             ? journal_find(s->config.journal, key, &value, &error)
                             : PAWL_E_NOT_FOUND;
    if (status == PAWL_E_NOT_FOUND) {
        lua_pushboolean(L, 0);
        return 1;
    }
    if (status)
        return lib_error(L, "the journal cannot be read: %s", error.message);
    lua_pushboolean(L, 1);
    bool good = json_push_decoded(L, value, strlen(value));
    free(value);
    return good ? 2 : lib_error(L, "a value of the journal is damaged");
}

static int core_note(lua_State *L)
{
    const script *s = script_of(L);
    pawl_error error = {.struct_size = sizeof error};
    const char *key = luaL_checkstring(L, 1);
    json_push_encoded(L, 2);
    sandbox_spend(L, NOTE_UNITS);
    pawl_status status = s->config.journal
                             ? journal_note(s->config.journal, key, lua_tostring(L, -1), &error)
                             : PAWL_OK;
    if (status && status != PAWL_E_BUSY)
        return lib_error(L, "%s", error.message);
    lua_pushboolean(L, status == PAWL_OK);
    return 1;
}

/* ctx:random(): a function of the run and of the place in it, so a replay has it again. */
static int ctx_random(lua_State *L)
{
    const script *s = script_of(L);
    task *t = s->tasks.current;
    const base_clock *clock = sandbox_of(L)->clock;
    char place[120], hex[DIGEST_HEX_SIZE];
    uint64_t bits = 0;
    lib_check_ctx(L, "random");
    sandbox_spend(L, 20);
    if (s->config.id) {
        snprintf(place, sizeof place, "%s:%016llx:%u", s->config.id, (unsigned long long)t->scope,
                 t->counter++);
        if (digest_bytes(place, strlen(place), hex, NULL) != PAWL_OK)
            return lib_error(L, "no memory for a random number");
        hex[16] = '\0';
        bits = strtoull(hex, NULL, 16);
    } else {
        clock->random(clock->context, &bits, sizeof bits);
    }
    lua_pushnumber(L, (double)(bits >> 11) / 9007199254740992.0); /* 53 bits of 2^53 */
    return 1;
}

/* ------------------------------------------------------------- budgets */

static void set_left(lua_State *L, const char *name, uint64_t limit, uint64_t used)
{
    if (!limit)
        return;
    lua_pushinteger(L, (lua_Integer)(used < limit ? limit - used : 0));
    lua_setfield(L, -2, name);
}

/* ctx:budget() */
static int ctx_budget(lua_State *L)
{
    const script *s = script_of(L);
    const sandbox *box = &s->box;
    const script_limits *limits = &s->config.limits;
    lib_check_ctx(L, "budget");
    lua_createtable(L, 0, 6);
    set_left(L, "tokens", limits->tokens, s->tokens);
    set_left(L, "calls", limits->calls, s->calls);
    set_left(L, "tool_calls", limits->tool_calls, s->tool_calls);
    set_left(L, "instructions", limits->instructions, box->spent);
    lua_pushnumber(L, (double)(box->max_memory - box->used - box->outside) / (1 << 20));
    lua_setfield(L, -2, "mem_mb");
    if (box->deadline_ns != INT64_MAX) {
        int64_t left = box->deadline_ns - box->clock->monotonic_ns(box->clock->context);
        lua_pushnumber(L, left > 0 ? (double)left / 1e9 : 0);
        lua_setfield(L, -2, "wall_s");
    }
    return 1;
}

static int core_count_tool_call(lua_State *L)
{
    script *s = script_of(L);
    uint64_t limit = s->config.limits.tool_calls;
    if (limit && s->tool_calls >= limit)
        sandbox_end(L, SCRIPT_TOOL_CALLS);
    s->tool_calls++;
    return 0;
}

/* ------------------------------------------------------------- schemas */

static int core_check(lua_State *L)
{
    pawl_error error = {.struct_size = sizeof error};
    cJSON *schema = NULL, *value = NULL;
    size_t size[2];
    lua_settop(L, 2);
    json_push_encoded(L, 1);
    json_push_encoded(L, 2);
    const char *schema_text = lua_tolstring(L, 3, &size[0]);
    const char *text = lua_tolstring(L, 4, &size[1]);
    size_t bytes = 8 * (size[0] + size[1]); /* a tree takes many times its text */
    sandbox_spend(L, bytes / 16);
    sandbox_claim(L, bytes);
    pawl_status status = json_parse(schema_text, size[0], &schema, &error);
    if (!status)
        status = json_parse(text, size[1], &value, &error);
    if (!status)
        status = schema_check(schema, &error);
    if (!status)
        status = schema_holds(schema, value, "the value", &error);
    cJSON_Delete(schema);
    cJSON_Delete(value);
    sandbox_disclaim(L, bytes);
    if (!status)
        return 0;
    lua_pushstring(L, error.message);
    return 1;
}

static int core_check_schema(lua_State *L)
{
    pawl_error error = {.struct_size = sizeof error};
    cJSON *schema = NULL;
    size_t size;
    lua_settop(L, 1);
    json_push_encoded(L, 1);
    const char *text = lua_tolstring(L, 2, &size);
    sandbox_claim(L, 8 * size);
    pawl_status status = json_parse(text, size, &schema, &error);
    if (!status)
        status = schema_check(schema, &error);
    cJSON_Delete(schema);
    sandbox_disclaim(L, 8 * size);
    if (!status)
        return 0;
    lua_pushstring(L, error.message);
    return 1;
}

void context_open(lua_State *L, int core, int ctx)
{
    static const luaL_Reg of_core[] = {
        {"emit", core_emit},   {"wall", core_wall},
        {"key", core_key},     {"noted", core_noted},
        {"note", core_note},   {"count_tool_call", core_count_tool_call},
        {"check", core_check}, {"check_schema", core_check_schema},
        {NULL, NULL}};
    static const luaL_Reg of_ctx[] = {{"progress", ctx_progress},
                                      {"log", ctx_log},
                                      {"random", ctx_random},
                                      {"budget", ctx_budget},
                                      {NULL, NULL}};
    lua_pushvalue(L, core);
    luaL_setfuncs(L, of_core, 0);
    lua_pushvalue(L, ctx);
    luaL_setfuncs(L, of_ctx, 0);
    lua_pop(L, 2);
    lua_pushglobaltable(L);
    lua_pushcfunction(L, print);
    lua_setfield(L, -2, "print");
    lua_pop(L, 1);
}
