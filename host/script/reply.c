/*
 * script/reply.c - what a turn gave, as a script sees it.
 *
 *   {text, finish, usage, tool_calls, reasoning?, mark}, or nil and {code, message, retryable}
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/json.h"
#include "script/session.h"

#include <string.h>

/* The texts of the parts of the item at the top, joined. Pushes it. */
static void push_item_text(lua_State *L)
{
    int item = lua_gettop(L);
    luaL_Buffer out;
    lua_getfield(L, item, "content");
    luaL_buffinit(L, &out);
    for (lua_Integer i = 1; lua_rawgeti(L, item + 1, i) == LUA_TTABLE; i++) {
        lua_getfield(L, -1, "text");
        lua_remove(L, -2);
        luaL_addvalue(&out);
    }
    lua_pop(L, 1);
    luaL_pushresult(&out);
    lua_remove(L, item + 1);
}

/* Appends the text at the top to a member of the table at index. Pops it. */
static void append(lua_State *L, int index, const char *name)
{
    if (lua_getfield(L, index, name) == LUA_TNIL) {
        lua_pop(L, 1);
    } else {
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    lua_setfield(L, index, name);
}

/* The function_call at the top as {id, name, arguments, arguments_json, parse_error} at the
 * end of the reply's calls. */
static void add_call(lua_State *L, int reply)
{
    int item = lua_gettop(L);
    size_t size;
    lua_createtable(L, 0, 4);
    lua_getfield(L, item, "call_id");
    lua_setfield(L, -2, "id");
    lua_getfield(L, item, "name");
    lua_setfield(L, -2, "name");
    lua_getfield(L, item, "arguments");
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "arguments_json");
    const char *text = lua_tolstring(L, -1, &size);
    bool parsed = text && json_push_decoded(L, text, size);
    lua_setfield(L, item + 1, parsed ? "arguments" : "parse_error");
    lua_settop(L, item + 1);
    lua_getfield(L, reply, "tool_calls");
    lua_insert(L, -2);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    lua_pop(L, 1);
}

static void push_usage(lua_State *L, const run_usage *u)
{
    const struct {
        const char *name;
        uint64_t n;
    } members[] = {{"input_tokens", u->input_tokens},
                   {"cached_tokens", u->cached_tokens},
                   {"output_tokens", u->output_tokens},
                   {"reasoning_tokens", u->reasoning_tokens}};
    lua_createtable(L, 0, 4);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        lua_pushinteger(L, (lua_Integer)members[i].n);
        lua_setfield(L, -2, members[i].name);
    }
}

/* The place before the turn: its parent's record and the items that were its input. */
static void push_mark(lua_State *L, const run_record *record)
{
    cJSON *items = NULL;
    char last[CLOCK_ID_SIZE] = "";
    json_parse(record->input, strlen(record->input), &items, NULL);
    int n = cJSON_GetArraySize(items);
    const char *id = json_get_text(cJSON_GetArrayItem(items, n - 1), "id");
    snprintf(last, sizeof last, "%s", id ? id : "");
    cJSON_Delete(items);
    session_push_mark(L, record->parent, n, last);
}

int reply_push(lua_State *L, const call_outcome *outcome)
{
    lua_createtable(L, 0, 6);
    int reply = lua_gettop(L);
    lua_pushliteral(L, "");
    lua_setfield(L, reply, "text");
    lua_newtable(L);
    lua_setfield(L, reply, "tool_calls");
    lua_pushstring(L, outcome->stop_reason);
    lua_setfield(L, reply, "finish");
    push_usage(L, &outcome->usage);
    lua_setfield(L, reply, "usage");
    push_mark(L, outcome->record);
    lua_setfield(L, reply, "mark");
    if (!json_push_decoded(L, outcome->record->output, strlen(outcome->record->output)))
        lib_error(L, "the reply cannot be read: %s", lua_tostring(L, -1));
    for (lua_Integer i = 1; lua_rawgeti(L, reply + 1, i) == LUA_TTABLE; i++) {
        lua_getfield(L, -1, "type");
        const char *type = lua_tostring(L, -1);
        lua_pop(L, 1);
        if (type && strcmp(type, "function_call") == 0) {
            add_call(L, reply);
        } else {
            push_item_text(L);
            append(L, reply, type && strcmp(type, "reasoning") == 0 ? "reasoning" : "text");
        }
        lua_settop(L, reply + 1);
    }
    lua_settop(L, reply);
    return 1;
}

int reply_push_refusal(lua_State *L, const run_refusal *refusal)
{
    static const struct {
        const char *code;
        bool retryable;
    } kinds[] = {
        [RUN_REFUSED_INPUT] = {"invalid_input", false},
        [RUN_REFUSED_TOO_LONG] = {"too_long", false},
        [RUN_REFUSED_UNSUPPORTED] = {"unsupported", false},
        [RUN_REFUSED_BUSY] = {"busy", true},
        [RUN_REFUSED_NOT_FOUND] = {"not_found", false},
        [RUN_REFUSED_STOPPING] = {"stopping", false},
        [RUN_REFUSED_INTERNAL] = {"internal", false},
        [RUN_REFUSED_KEY_BUSY] = {"busy", true},
    };
    return env_failure(L, kinds[refusal->reason].code, kinds[refusal->reason].retryable, "%s",
                       refusal->message);
}

int reply_push_failure(lua_State *L, const call_outcome *outcome, bool timed_out)
{
    if (outcome->refused)
        return reply_push_refusal(L, &outcome->refusal);
    if (!outcome->record)
        return env_failure(L, "internal", true, "no memory for the reply");
    if (strcmp(outcome->record->status, "cancelled") == 0)
        return env_failure(L, timed_out ? "timeout" : "cancelled", timed_out, "%s",
                           timed_out ? "the turn took longer than its timeout_ms"
                                     : "the turn was cancelled");
    const char *result = outcome->record->result, *message = NULL;
    if (json_push_decoded(L, result, strlen(result)) &&
        lua_getfield(L, -1, "error") == LUA_TTABLE && lua_getfield(L, -1, "message") == LUA_TSTRING)
        message = lua_tostring(L, -1);
    return env_failure(L, "engine", true, "%s", message ? message : "the engine failed");
}
