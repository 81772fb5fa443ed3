/*
 * script/generate.c - turns of a session: new replies, and the likelihood of given ones.
 *
 *   session:generate(options)
 *   core.score(session, reply, forget)
 *       the sum of the log-probabilities of a reply's tokens and of the one that ends it, and
 *       how many they are; forget: its state is not kept
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/dialog.h"

#include <stdlib.h>
#include <string.h>

#define SCORE "pawl.score"
#define TURN_UNITS 1000       /* what starting a turn is charged */
#define MAX_SCORED (4u << 10) /* bytes of a reply that is given  */

static bool fill_request(run_request *r, const session *s, const run_runtime *runtime,
                         const generate_options *o)
{
    uint64_t seed = r->sampling.seed;
    r->store = s->kept && run_store(runtime) != NULL;
    r->sampling = o->sampling;
    r->sampling.seed = o->seeded ? o->seed : seed;
    r->max_tokens = o->max_tokens;
    r->tools_off = o->tools_off;
    r->thinking = o->thinking;
    r->forget = o->forget;
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
    return true;
}

/* ------------------------------------------------------------- streaming */

static void say_text(script *s, const call *c, const char *kind, const char *text)
{
    buf json;
    buf_init(&json, JOURNAL_MAX_EVENT);
    buf_printf(&json, "{\"turn\":%llu,\"kind\":\"%s\",\"text\":", (unsigned long long)c->number,
               kind);
    json_add_quoted(&json, json_text(text));
    buf_add_text(&json, "}");
    if (!json.failed)
        journal_say(s->config.journal, "run.text", buf_text(&json));
    buf_clear(&json);
}

/* What came since the last look becomes one event: a run that is busy gets fewer of them. */
static void watch(script *s, pending *p)
{
    call *c = (call *)p;
    for (int reasoning = 1; reasoning >= 0 && s->config.journal; reasoning--) {
        char *text = call_take_text(c, reasoning);
        if (text && *text)
            say_text(s, c, reasoning ? "reasoning" : "text", text);
        free(text);
    }
}

/* ------------------------------------------------------------- generate */

/* The continuation of generate. */
static int generated(lua_State *L, int status, lua_KContext context)
{
    session *s = dialog_check(L);
    script *run = script_of(L);
    call *c = s->call;
    (void)status;
    (void)context;
    if (!c || !pending_ended(&c->base))
        return lib_error(L, "the turn has no end");
    if (c->streams)
        watch(run, &c->base);
    const call_outcome *outcome = &c->outcome;
    dialog_count_tokens(L, &outcome->usage);
    if (outcome->refused || !outcome->record || !run_record_can_continue(outcome->record)) {
        int n = reply_push_failure(L, outcome, run->tasks.current->timed_out);
        dialog_must_be_idle(L, s);
        return n;
    }
    int n = reply_push(L, outcome);
    run_record_release(s->record);
    s->record = run_record_retain(outcome->record);
    while (cJSON_GetArraySize(s->pending))
        cJSON_DeleteItemFromArray(s->pending, 0);
    dialog_must_be_idle(L, s);
    dialog_charge(L, s);
    return n;
}

/* session:generate(options) */
int generate_binding(lua_State *L)
{
    session *s = dialog_check(L);
    const script *run = script_of(L);
    generate_options options;
    task_check_can_wait(L, "generate");
    options_read(L, &options);
    dialog_must_be_idle(L, s);
    if (cJSON_GetArraySize(s->pending) == 0)
        return lib_error(L, "nothing to answer: add a message first");
    sandbox_spend(L, TURN_UNITS + s->claimed / 64);
    uint64_t left = dialog_count_call(L);
    if (left != UINT64_MAX && (!options.max_tokens || options.max_tokens > left))
        options.max_tokens = left;
    run_request *request = dialog_request(L, s);
    if (!fill_request(request, s, run->config.runtime, &options)) {
        run_request_free(request);
        return lib_error(L, "no memory for a request, or 'tools' holds a NUL");
    }
    s->call = call_start(run->config.hub, run->config.runtime, request, run->calls, options.stream);
    if (!s->call)
        return env_failure(L, "busy", true, "the runtime takes no more requests now");
    return task_wait(L, &s->call->base, options.timeout_ms, options.stream ? watch : NULL, 0,
                     generated);
}

/* ------------------------------------------------------------- score */

static int score_gc(lua_State *L)
{
    call **c = lua_touserdata(L, 1);
    if (*c)
        pending_close(&(*c)->base);
    *c = NULL;
    return 0;
}

/* Stack: session, reply, forget, the call. */
static int scored(lua_State *L, int status, lua_KContext context)
{
    call **c = lua_touserdata(L, 4);
    const call_outcome *outcome = &(*c)->outcome;
    (void)status;
    (void)context;
    dialog_count_tokens(L, &outcome->usage);
    if (outcome->refused || !outcome->record || !run_record_can_continue(outcome->record))
        return reply_push_failure(L, outcome, false);
    lua_pushnumber(L, outcome->score);
    lua_pushinteger(L, (lua_Integer)outcome->n_scored);
    return 2;
}

int generate_score(lua_State *L)
{
    session *s = dialog_check(L);
    const script *run = script_of(L);
    const char *reply = options_check_text(L, 2, "a choice");
    if (!*reply || strlen(reply) > MAX_SCORED)
        return lib_error(L, "a choice has 1 to %d bytes", (int)MAX_SCORED);
    task_check_can_wait(L, "select");
    dialog_must_be_idle(L, s);
    sandbox_spend(L, TURN_UNITS + s->claimed / 64);
    lua_settop(L, 3);
    call **c = lua_newuserdatauv(L, sizeof *c, 0);
    *c = NULL;
    luaL_setmetatable(L, SCORE);
    dialog_count_call(L);
    run_request *request = dialog_request(L, s);
    request->generate = false;
    request->forget = lua_toboolean(L, 3);
    request->score = strdup(reply);
    if (!request->score) {
        run_request_free(request);
        return lib_error(L, "no memory for a request");
    }
    *c = call_start(run->config.hub, run->config.runtime, request, run->calls, false);
    if (!*c)
        return env_failure(L, "busy", true, "the runtime takes no more requests now");
    return task_wait(L, &(*c)->base, 0, NULL, 0, scored);
}

void generate_open(lua_State *L)
{
    luaL_newmetatable(L, SCORE);
    lua_pushcfunction(L, score_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
