/*
 * script/dialog.c - a conversation of a script's with a model. See dialog.h.
 *
 *   core.session(id, model)   a new one, or the stored one of this id
 *   core.score(session, reply, forget)  see generate.c
 *   core.session_methods      the table behind session:name()
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/dialog.h"

#include "script/env.h"
#include "script/work.h"

#include <stdlib.h>
#include <string.h>

#define METATABLE "session"
#define MARK "mark"
#define JOB "pawl.work"
#define MAX_PENDING 10000 /* items that wait for a turn            */
#define ITEM_BYTES 512    /* what an item takes beside its text    */

session *dialog_check(lua_State *L)
{
    session *s = luaL_checkudata(L, 1, METATABLE);
    if (!s->model)
        lib_error(L, "this session was dropped");
    return s;
}

/* ------------------------------------------------------------- what it holds */

static size_t item_bytes(const cJSON *item)
{
    const char *text = json_get_text(item, "output");
    if (!text)
        text = json_get_text(cJSON_GetArrayItem(json_get(item, "content"), 0), "text");
    return ITEM_BYTES + (text ? strlen(text) : 0);
}

static size_t record_bytes(const run_record *r)
{
    return sizeof *r + (size_t)r->n_tokens * sizeof *r->tokens + strlen(r->input) +
           strlen(r->output) + strlen(r->request) + strlen(r->result) + ITEM_BYTES;
}

void dialog_charge(lua_State *L, session *s)
{
    const cJSON *item;
    size_t bytes = 0;
    for (const run_record *r = s->record; r; r = r->parent)
        bytes += record_bytes(r);
    cJSON_ArrayForEach(item, s->pending) bytes += item_bytes(item);
    if (bytes < s->claimed) {
        sandbox_disclaim(L, s->claimed - bytes);
    } else {
        size_t more = bytes - s->claimed;
        sandbox_claim(L, more);
    }
    s->claimed = bytes;
}

static void let_go(lua_State *L, session *s)
{
    if (s->call)
        pending_close(&s->call->base);
    run_record_release(s->record);
    cJSON_Delete(s->pending);
    sandbox_disclaim(L, s->claimed);
    *s = (session){0};
}

static int session_gc(lua_State *L)
{
    let_go(L, lua_touserdata(L, 1));
    return 0;
}

/* session:drop() */
static int session_drop(lua_State *L)
{
    let_go(L, luaL_checkudata(L, 1, METATABLE));
    return 0;
}

static session *push_session(lua_State *L, run_model *model)
{
    session *s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (session){.model = model};
    luaL_setmetatable(L, METATABLE);
    s->pending = cJSON_CreateArray();
    if (!s->pending)
        lib_error(L, "no memory for a session");
    return s;
}

void dialog_must_be_idle(lua_State *L, session *s)
{
    if (s->call && !pending_ended(&s->call->base))
        lib_error(L, "this session generates already; use session:fork() for a second turn");
    if (s->call)
        pending_close(&s->call->base); /* of a task that was ended */
    s->call = NULL;
}

/* ------------------------------------------------------------- messages */

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

void dialog_add_message(lua_State *L, session *s, const char *role, const char *text,
                        const char *call_id)
{
    char id[CLOCK_ID_SIZE];
    size_t bytes = strlen(text) + ITEM_BYTES;
    if (cJSON_GetArraySize(s->pending) >= MAX_PENDING)
        lib_error(L, "more than %d messages wait for a turn", MAX_PENDING);
    sandbox_spend(L, (uint64_t)cJSON_GetArraySize(s->pending) / 16);
    sandbox_claim(L, bytes);
    s->claimed += bytes;
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
    lib_error(L, "no memory for a message");
}

/* session:add{role=, content=, tool_call_id=} */
static int session_add(lua_State *L)
{
    static const char *const known[] = {"role", "content", "tool_call_id", NULL};
    static const char *const roles[] = {"user", "system", "developer", "assistant", "tool", NULL};
    session *s = dialog_check(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    dialog_must_be_idle(L, s);
    options_refuse_unknown(L, 2, known, "a message");
    lua_getfield(L, 2, "role");
    lua_getfield(L, 2, "content");
    lua_getfield(L, 2, "tool_call_id");
    const char *role = options_check_text(L, 3, "role"), *call_id = NULL;
    const char *text = options_check_text(L, 4, "content");
    size_t i = 0;
    while (roles[i] && strcmp(roles[i], role) != 0)
        i++;
    if (!roles[i])
        return lib_error(L, "'role' is user, system, developer, assistant or tool, not '%s'", role);
    if (strcmp(role, "tool") == 0)
        call_id = options_check_text(L, 5, "tool_call_id");
    else if (!lua_isnil(L, 5))
        return lib_error(L, "only a message of the role tool has a 'tool_call_id'");
    if (call_id && strlen(call_id) > 128)
        return lib_error(L, "'tool_call_id' is one that a reply's tool_calls have");
    dialog_add_message(L, s, role, text, call_id);
    lua_settop(L, 1);
    return 1;
}

/* session:empty() */
static int session_empty(lua_State *L)
{
    const session *s = dialog_check(L);
    lua_pushboolean(L, !s->record && cJSON_GetArraySize(s->pending) == 0);
    return 1;
}

/* ------------------------------------------------------------- marks */

typedef struct mark {
    run_record *record;          /* the turn before it, a reference; NULL: the beginning */
    int n;                       /* messages added after that turn                       */
    char last_id[CLOCK_ID_SIZE]; /* of the last of them; "" none                */
    size_t claimed;
} mark;

static int mark_gc(lua_State *L)
{
    mark *m = lua_touserdata(L, 1);
    run_record_release(m->record);
    sandbox_disclaim(L, m->claimed);
    *m = (mark){.n = 0};
    return 0;
}

void dialog_push_mark(lua_State *L, run_record *record, int n, const char *last_id)
{
    size_t bytes = record ? record_bytes(record) : 0;
    mark *m = lua_newuserdatauv(L, sizeof *m, 0);
    *m = (mark){.n = n};
    luaL_setmetatable(L, MARK);
    snprintf(m->last_id, sizeof m->last_id, "%s", last_id ? last_id : "");
    sandbox_claim(L, bytes);
    m->claimed = bytes;
    m->record = record ? run_record_retain(record) : NULL;
}

static const char *id_of(const cJSON *items, int n)
{
    const char *id = json_get_text(cJSON_GetArrayItem(items, n - 1), "id");
    return n > 0 && id ? id : "";
}

/* session:mark() */
static int session_mark(lua_State *L)
{
    session *s = dialog_check(L);
    dialog_must_be_idle(L, s);
    int n = cJSON_GetArraySize(s->pending);
    dialog_push_mark(L, s->record, n, id_of(s->pending, n));
    return 1;
}

/* The items that followed the mark's turn: those of the next turn's record in the chain from
 * `at`, or those that wait. NULL: the mark is none of this conversation's. To be deleted. */
static cJSON *items_after(const session *s, const mark *m)
{
    cJSON *items = NULL;
    if (s->record == m->record)
        return cJSON_Duplicate(s->pending, true);
    for (const run_record *at = s->record; at; at = at->parent) {
        bool next = at->parent == m->record && (m->record || !at->parent_id);
        if (next && json_parse(at->input, strlen(at->input), &items, NULL) == PAWL_OK)
            return items;
    }
    return NULL;
}

/* session:rollback(mark) */
static int session_rollback(lua_State *L)
{
    session *s = dialog_check(L);
    const mark *m = luaL_checkudata(L, 2, MARK);
    dialog_must_be_idle(L, s);
    cJSON *items = items_after(s, m);
    if (!items || strcmp(id_of(items, m->n), m->last_id) != 0) {
        cJSON_Delete(items);
        return lib_error(L, "this mark is none of this session's, or what it marked is gone");
    }
    while (cJSON_GetArraySize(items) > m->n)
        cJSON_DeleteItemFromArray(items, cJSON_GetArraySize(items) - 1);
    cJSON_Delete(s->pending);
    s->pending = items;
    run_record *before = m->record ? run_record_retain(m->record) : NULL;
    run_record_release(s->record);
    s->record = before;
    dialog_charge(L, s);
    return 0;
}

/* session:fork() */
static int session_fork(lua_State *L)
{
    session *s = dialog_check(L);
    dialog_must_be_idle(L, s);
    session *fork = push_session(L, s->model);
    sandbox_claim(L, s->claimed);
    fork->claimed = s->claimed;
    cJSON_Delete(fork->pending);
    fork->pending = cJSON_Duplicate(s->pending, true);
    fork->record = s->record ? run_record_retain(s->record) : NULL;
    if (!fork->pending)
        return lib_error(L, "no memory for a session");
    return 1;
}

/* ------------------------------------------------------------- requests, counts */

run_request *dialog_request(lua_State *L, const session *s)
{
    run_request *r = run_request_new(sandbox_of(L)->clock);
    if (!r)
        lib_error(L, "no memory for a request");
    r->caller = script_of(L)->config.caller;
    r->model = s->model;
    r->parent = s->record ? run_record_retain(s->record) : NULL;
    r->items = cJSON_Duplicate(s->pending, true);
    r->store = false;
    if (r->items)
        return r;
    run_request_free(r);
    lib_error(L, "no memory for a request");
    return NULL;
}

uint64_t dialog_count_call(lua_State *L)
{
    script *s = script_of(L);
    const script_limits *limits = &s->config.limits;
    if (limits->calls && s->calls >= limits->calls)
        sandbox_end(L, SCRIPT_CALLS);
    if (limits->tokens && s->tokens >= limits->tokens)
        sandbox_end(L, SCRIPT_TOKENS);
    s->calls++;
    return limits->tokens ? limits->tokens - s->tokens : UINT64_MAX;
}

void dialog_count_tokens(lua_State *L, const run_usage *usage)
{
    script *s = script_of(L);
    s->tokens += usage->input_tokens + usage->output_tokens;
    if (s->config.limits.tokens && s->tokens > s->config.limits.tokens)
        sandbox_end(L, SCRIPT_TOKENS);
}

/* ------------------------------------------------------------- jobs of the worker */

/* Counting a session's tokens, or finding a stored one. */
typedef struct job {
    run_runtime *runtime;
    run_request *request; /* counting                 */
    uint64_t n_tokens;
    bool refused;
    run_refusal refusal;
    run_caller caller; /* finding                  */
    char id[CLOCK_ID_SIZE];
    run_record *record;
} job;

static void clear_job(void *arg)
{
    job *j = arg;
    run_request_free(j->request);
    run_record_release(j->record);
    free(j);
}

/* Worker thread. */
static void do_job(void *arg)
{
    job *j = arg;
    if (j->request)
        j->refused = !run_count(j->runtime, j->request, &j->n_tokens, &j->refusal);
    else
        j->record = run_find(j->runtime, &j->caller, j->id, false);
}

static int job_gc(lua_State *L)
{
    work **w = lua_touserdata(L, 1);
    if (*w)
        pending_close(&(*w)->base);
    *w = NULL;
    return 0;
}

/* Pushes what keeps a job's work, at stack index 3. */
static work **push_work(lua_State *L)
{
    lua_settop(L, 2);
    work **w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = NULL;
    luaL_setmetatable(L, JOB);
    return w;
}

/* Gives a copy of the job, with its request, to the worker, and waits. */
static int wait_for(lua_State *L, work **w, const job *from, lua_KFunction done)
{
    job *j = malloc(sizeof *j);
    if (j) {
        *j = *from;
        *w = work_start(script_of(L)->config.hub, j->runtime, do_job, clear_job, j);
    } else {
        run_request_free(from->request);
    }
    if (!*w)
        return lib_error(L, "the runtime takes no more work now");
    return task_wait(L, &(*w)->base, 0, NULL, 0, done);
}

static int counted(lua_State *L, int status, lua_KContext context)
{
    work **w = lua_touserdata(L, 3);
    const job *j = (*w)->job;
    (void)status;
    (void)context;
    if (j->refused)
        return reply_push_refusal(L, &j->refusal);
    lua_pushinteger(L, (lua_Integer)j->n_tokens);
    return 1;
}

/* session:tokens() */
static int session_tokens(lua_State *L)
{
    session *s = dialog_check(L);
    task_check_can_wait(L, "tokens");
    dialog_must_be_idle(L, s);
    sandbox_spend(L, 100 + s->claimed / 16);
    work **w = push_work(L);
    job j = {.runtime = script_of(L)->config.runtime, .request = dialog_request(L, s)};
    j.request->generate = false;
    return wait_for(L, w, &j, counted);
}

static int found(lua_State *L, int status, lua_KContext context)
{
    work **w = lua_touserdata(L, 3);
    const job *j = (*w)->job;
    (void)status;
    (void)context;
    if (!j->record || !run_record_can_continue(j->record))
        return lib_error(L, "no session '%s' is stored that can go on", j->id);
    if (lua_isnil(L, 2)) {
        lua_pushstring(L, j->record->model);
        lua_replace(L, 2);
    }
    session *s = push_session(L, text_find_model(L, lua_tostring(L, 2)));
    s->kept = true;
    s->record = run_record_retain(j->record);
    dialog_charge(L, s);
    return 1;
}

/* core.session(id, model) */
static int core_session(lua_State *L)
{
    const script *run = script_of(L);
    job j = {.runtime = run->config.runtime, .caller = run->config.caller};
    lua_settop(L, 2);
    const char *model = lua_isnil(L, 2) ? NULL : options_check_text(L, 2, "model");
    if (lua_isnil(L, 1)) {
        push_session(L, text_find_model(L, model))->kept = true;
        return 1;
    }
    const char *id = options_check_text(L, 1, "id");
    if (strlen(id) >= sizeof j.id)
        return lib_error(L, "no session of this id is stored");
    text_find_model(L, model);
    task_check_can_wait(L, "a stored session");
    snprintf(j.id, sizeof j.id, "%s", id);
    return wait_for(L, push_work(L), &j, found);
}

/* ------------------------------------------------------------- opening */

/* session.id: the one that ctx:session(id) resumes, nil where nothing of it is stored; else
 * a method (upvalue 1). */
static int session_index(lua_State *L)
{
    const session *s = luaL_checkudata(L, 1, METATABLE);
    const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(name, "id") != 0) {
        lua_settop(L, 2);
        lua_rawget(L, lua_upvalueindex(1));
        return 1;
    }
    if (s->record && s->record->stored)
        lua_pushstring(L, s->record->id);
    else
        lua_pushnil(L);
    return 1;
}

/* A metatable with a finalizer that scripts do not see; leaves it on the stack. */
static void new_metatable(lua_State *L, const char *name, lua_CFunction gc)
{
    luaL_newmetatable(L, name);
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
}

void dialog_open(lua_State *L, int core)
{
    static const luaL_Reg methods[] = {
        {"add", session_add},   {"empty", session_empty},       {"tokens", session_tokens},
        {"mark", session_mark}, {"rollback", session_rollback}, {"fork", session_fork},
        {"drop", session_drop}, {"generate", generate_binding}, {NULL, NULL}};
    static const luaL_Reg own[] = {
        {"session", core_session}, {"score", generate_score}, {NULL, NULL}};
    lua_pushvalue(L, core);
    luaL_setfuncs(L, own, 0);
    luaL_newlib(L, methods);
    lua_pushvalue(L, -1);
    lua_setfield(L, core, "session_methods");
    new_metatable(L, METATABLE, session_gc);
    lua_pushvalue(L, -2);
    lua_pushcclosure(L, session_index, 1);
    lua_setfield(L, -2, "__index");
    new_metatable(L, MARK, mark_gc);
    new_metatable(L, JOB, job_gc);
    lua_pop(L, 5);
    generate_open(L);
}
