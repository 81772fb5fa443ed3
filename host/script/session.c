/*
 * script/session.c - pawl.session: a conversation of a script's with a model.
 *
 * A session is the record of its latest turn, which keeps the turns before it, and the
 * items that wait for the next one. So a turn costs its new tokens, and a fork is one
 * more reference. Nothing is stored. What it holds outside of Lua is charged to the
 * script's memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/json.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

#define METATABLE "pawl.session"
#define MAX_PENDING 10000 /* items that wait for a turn            */
#define ITEM_BYTES 512    /* what an item takes beside its text    */

typedef struct session {
    run_model *model;   /* lives as long as the runtime       */
    run_record *record; /* of the latest turn, or NULL        */
    cJSON *pending;     /* array of items                     */
    call *call;         /* the turn that runs, or NULL        */
    bool added;         /* the last pending item is that turn's own text */
    bool timed;         /* that turn has a timeout            */
    size_t claimed;     /* bytes charged to the script        */
    size_t waiting;     /* of them for all pending items      */
    size_t last;        /* of them for the last pending item  */
} session;

static session *check_session(lua_State *L)
{
    return luaL_checkudata(L, 1, METATABLE);
}

static void claim(lua_State *L, session *s, size_t bytes)
{
    sandbox_claim(L, bytes);
    s->claimed += bytes;
}

static void disclaim(lua_State *L, session *s, size_t bytes)
{
    sandbox_disclaim(L, bytes);
    s->claimed -= bytes;
}

static int session_gc(lua_State *L)
{
    session *s = check_session(L);
    call_close(s->call);
    run_record_release(s->record);
    cJSON_Delete(s->pending);
    sandbox_disclaim(L, s->claimed);
    *s = (session){0};
    return 0;
}

/* Pushes an empty session. */
static session *push_session(lua_State *L, run_model *model)
{
    session *s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (session){.model = model};
    luaL_setmetatable(L, METATABLE);
    s->pending = cJSON_CreateArray();
    if (!s->pending)
        luaL_error(L, "no memory for a session");
    return s;
}

/* ------------------------------------------------------------- items */

static bool fill_message(cJSON *item, const char *role, const char *text)
{
    bool assistant = strcmp(role, "assistant") == 0;
    cJSON *parts = NULL, *part = cJSON_CreateObject();
    bool ok = part && cJSON_AddStringToObject(item, "role", role) &&
              cJSON_AddStringToObject(part, "type", assistant ? "output_text" : "input_text") &&
              cJSON_AddStringToObject(part, "text", text) &&
              (parts = cJSON_AddArrayToObject(item, "content"));
    if (ok)
        return cJSON_AddItemToArray(parts, part);
    cJSON_Delete(part);
    return false;
}

/* Adds an item; call_id: NULL of a message. */
static void add_item(lua_State *L, session *s, const char *role, const char *text,
                     const char *call_id)
{
    char id[CLOCK_ID_SIZE];
    if (cJSON_GetArraySize(s->pending) >= MAX_PENDING)
        luaL_error(L, "more than %d messages wait for a turn", MAX_PENDING);
    claim(L, s, strlen(text) + ITEM_BYTES);
    s->last = strlen(text) + ITEM_BYTES;
    s->waiting += s->last;
    clock_new_id(sandbox_of(L)->clock, call_id ? "fco_" : "msg_", id);
    cJSON *item = cJSON_CreateObject();
    bool ok = item &&
              cJSON_AddStringToObject(item, "type", call_id ? "function_call_output" : "message") &&
              cJSON_AddStringToObject(item, "id", id) &&
              cJSON_AddStringToObject(item, "status", "completed");
    if (ok && call_id)
        ok = cJSON_AddStringToObject(item, "call_id", call_id) &&
             cJSON_AddStringToObject(item, "output", text);
    else if (ok)
        ok = fill_message(item, role, text);
    if (ok && cJSON_AddItemToArray(s->pending, item))
        return;
    cJSON_Delete(item);
    luaL_error(L, "no memory for a message");
}

static void must_be_idle(lua_State *L, session *s)
{
    const call_outcome *outcome;
    if (s->call && !call_ended(s->call, &outcome))
        luaL_error(L, "this session generates already; use s:fork() for a second turn");
    call_close(s->call); /* of a task that was ended */
    s->call = NULL;
    if (s->added) {
        cJSON_DeleteItemFromArray(s->pending, cJSON_GetArraySize(s->pending) - 1);
        disclaim(L, s, s->last);
        s->waiting -= s->last;
    }
    s->added = false;
}

static void refuse_unknown(lua_State *L, int index, const char *const *known, const char *what)
{
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
        size_t i = 0;
        while (known[i] && strcmp(known[i], name) != 0)
            i++;
        if (!known[i])
            luaL_error(L, "unknown member '%s' of %s", name, what);
    }
}

/* s:add{role=, content=, call_id=} */
static int session_add(lua_State *L)
{
    static const char *const known[] = {"role", "content", "call_id", NULL};
    static const char *const roles[] = {"user", "system", "developer", "assistant", "tool", NULL};
    session *s = check_session(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    must_be_idle(L, s);
    refuse_unknown(L, 2, known, "a message");
    lua_getfield(L, 2, "role");
    lua_getfield(L, 2, "content");
    lua_getfield(L, 2, "call_id");
    const char *role = options_check_text(L, 3, "role"), *call_id = NULL;
    const char *text = options_check_text(L, 4, "content");
    size_t i = 0;
    while (roles[i] && strcmp(roles[i], role) != 0)
        i++;
    if (!roles[i])
        return luaL_error(L, "'role' is user, system, developer, assistant or tool, not '%s'",
                          role);
    if (strcmp(role, "tool") == 0)
        call_id = options_check_text(L, 5, "call_id");
    else if (!lua_isnil(L, 5))
        return luaL_error(L, "only a message of the role tool has a 'call_id'");
    if (call_id && strlen(call_id) > 128)
        return luaL_error(L, "'call_id' is one that a reply's calls have");
    add_item(L, s, role, text, call_id);
    lua_settop(L, 1);
    return 1;
}

/* ------------------------------------------------------------- the reply */

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
    if (lua_getfield(L, reply, "calls") == LUA_TNIL) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, reply, "calls");
    }
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

/* Pushes {text, finish, usage, reasoning?, calls?}. */
static void push_reply(lua_State *L, const call_outcome *outcome)
{
    lua_createtable(L, 0, 5);
    int reply = lua_gettop(L);
    lua_pushliteral(L, "");
    lua_setfield(L, reply, "text");
    lua_pushstring(L, outcome->stop_reason);
    lua_setfield(L, reply, "finish");
    push_usage(L, &outcome->usage);
    lua_setfield(L, reply, "usage");
    if (!json_push_decoded(L, outcome->record->output, strlen(outcome->record->output)))
        luaL_error(L, "the reply cannot be read: %s", lua_tostring(L, -1));
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
}

static int push_refusal(lua_State *L, const run_refusal *refusal)
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

/* What a turn that gave no reply returns. */
static int push_failure(lua_State *L, const session *s, const call_outcome *outcome)
{
    if (outcome->refused)
        return push_refusal(L, &outcome->refusal);
    if (!outcome->record)
        return env_failure(L, "internal", true, "no memory for the reply");
    if (strcmp(outcome->record->status, "cancelled") == 0)
        return env_failure(L, s->timed ? "timeout" : "cancelled", s->timed, "%s",
                           s->timed ? "the turn took longer than its timeout_ms"
                                    : "the turn was cancelled");
    const char *result = outcome->record->result, *message = NULL;
    if (json_push_decoded(L, result, strlen(result)) &&
        lua_getfield(L, -1, "error") == LUA_TTABLE && lua_getfield(L, -1, "message") == LUA_TSTRING)
        message = lua_tostring(L, -1);
    return env_failure(L, "engine", true, "%s", message ? message : "the engine failed");
}

static size_t record_bytes(const run_record *r)
{
    return sizeof *r + (size_t)r->n_tokens * sizeof *r->tokens + strlen(r->input) +
           strlen(r->output) + strlen(r->request) + strlen(r->result) + ITEM_BYTES;
}

/* The continuation of generate. */
static int generate_done(lua_State *L, int status, lua_KContext context)
{
    session *s = check_session(L);
    const call_outcome *outcome = NULL;
    (void)status;
    (void)context;
    if (!call_ended(s->call, &outcome))
        return luaL_error(L, "the turn has no end");
    if (outcome->refused || !outcome->record || !run_record_can_continue(outcome->record)) {
        int n = push_failure(L, s, outcome);
        must_be_idle(L, s); /* drops the text that was given to this turn */
        return n;
    }
    claim(L, s, record_bytes(outcome->record));
    push_reply(L, outcome);
    run_record_release(s->record);
    s->record = run_record_retain(outcome->record);
    s->added = false;
    while (cJSON_GetArraySize(s->pending))
        cJSON_DeleteItemFromArray(s->pending, 0);
    disclaim(L, s, s->waiting);
    s->waiting = 0;
    must_be_idle(L, s);
    return 1;
}

/* ------------------------------------------------------------- generate */

static bool fill_request(run_request *r, const session *s, const generate_options *o)
{
    uint64_t seed = r->sampling.seed;
    r->model = s->model;
    r->parent = s->record ? run_record_retain(s->record) : NULL;
    r->items = cJSON_Duplicate(s->pending, true);
    r->store = false;
    r->sampling = o->sampling;
    r->sampling.seed = o->seeded ? o->seed : seed;
    r->max_tokens = o->max_tokens;
    r->tools_off = o->tools_off;
    r->thinking = o->thinking;
    r->priority = o->batch ? RUN_BATCH : RUN_INTERACTIVE;
    if (o->tools && json_parse(o->tools, strlen(o->tools), &r->tools, NULL) != PAWL_OK)
        return false;
    if (o->effort && !(r->reasoning_effort = strdup(o->effort)))
        return false;
    for (size_t i = 0; i < o->n_stop; i++) {
        if (!(r->stop[i] = strdup(o->stop[i])))
            return false;
        r->n_stop++;
    }
    return r->items != NULL;
}

/* s:generate(text or options) */
static int session_generate(lua_State *L)
{
    session *s = check_session(L);
    script *run = script_of(L);
    generate_options options;
    task_check_can_wait(L, "generate");
    options_read(L, &options);
    must_be_idle(L, s);
    if (options.text) {
        add_item(L, s, "user", options.text, NULL);
        s->added = true;
    }
    if (cJSON_GetArraySize(s->pending) == 0)
        return luaL_error(L, "nothing to answer: give generate a text, or s:add a message");
    run_request *request = run_request_new(sandbox_of(L)->clock);
    if (!request || !fill_request(request, s, &options)) {
        run_request_free(request);
        return luaL_error(L, "no memory for a request, or 'tools' holds a NUL");
    }
    s->timed = options.timeout_ms > 0;
    s->call = call_start(run->hub, run->config->runtime, request);
    if (!s->call) {
        must_be_idle(L, s);
        return env_failure(L, "busy", true, "the runtime takes no more requests now");
    }
    return task_wait_call(L, s->call, options.timeout_ms, generate_done);
}

/* s:fork() */
static int session_fork(lua_State *L)
{
    session *s = check_session(L);
    must_be_idle(L, s);
    session *fork = push_session(L, s->model);
    claim(L, fork, s->claimed);
    fork->waiting = s->waiting;
    cJSON_Delete(fork->pending);
    fork->pending = cJSON_Duplicate(s->pending, true);
    fork->record = s->record ? run_record_retain(s->record) : NULL;
    if (!fork->pending)
        return luaL_error(L, "no memory for a session");
    return 1;
}

/* ------------------------------------------------------------- pawl.session */

static run_model *find_model(lua_State *L, const char *name)
{
    run_runtime *runtime = script_of(L)->config->runtime;
    size_t n = runtime ? run_model_count(runtime) : 0;
    if (n == 0)
        luaL_error(L, "no model is served; start with --model PATH");
    run_model *model = name ? run_model_find(runtime, name) : run_model_at(runtime, 0);
    if (model)
        return model;
    luaL_Buffer names;
    luaL_buffinit(L, &names);
    for (size_t i = 0; i < n; i++) {
        luaL_addstring(&names, i ? ", " : "");
        luaL_addstring(&names, run_model_at(runtime, i)->name);
    }
    luaL_pushresult(&names);
    luaL_error(L, "no model is named '%s'; there are: %s", name, lua_tostring(L, -1));
    return NULL;
}

static int new_session(lua_State *L)
{
    static const char *const known[] = {"model", "system", NULL};
    const char *name = NULL, *system = NULL;
    lua_settop(L, 1);
    if (!lua_isnil(L, 1)) {
        luaL_checktype(L, 1, LUA_TTABLE);
        refuse_unknown(L, 1, known, "a session's options");
        if (lua_getfield(L, 1, "model") != LUA_TNIL)
            name = options_check_text(L, -1, "model");
        if (lua_getfield(L, 1, "system") != LUA_TNIL)
            system = options_check_text(L, -1, "system");
    }
    session *s = push_session(L, find_model(L, name));
    if (system)
        add_item(L, s, "system", system, NULL);
    return 1;
}

void session_push_constructor(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"add", session_add}, {"generate", session_generate}, {"fork", session_fork}, {NULL, NULL}};
    luaL_newmetatable(L, METATABLE);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, session_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 1);
    lua_pushcfunction(L, new_session);
}
