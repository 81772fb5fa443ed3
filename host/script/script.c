/*
 * script/script.c - one run of a pipeline, from its text to how it ended. See script.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/script.h"

#include "script/env.h"
#include "script/json.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

#define MAX_MESSAGE 4000
#define POLL_MS 20 /* how often script_run() looks whether it is cancelled */

const char *script_end_name(enum script_end end)
{
    static const char *const names[] = {"done",         "syntax",    "script", "memory",
                                        "instructions", "time",      "tokens", "calls",
                                        "tool_calls",   "cancelled", "parked"};
    return names[end];
}

void script_result_clear(script_result *result)
{
    free(result->message);
    free(result->traceback);
    free(result->value);
    *result = (script_result){0};
}

/* ------------------------------------------------------------- how it ended */

/* The error at the top as text, without calling anything of the script's. */
static void describe(lua_State *L, char *text, size_t size)
{
    if (lua_type(L, -1) == LUA_TSTRING) {
        snprintf(text, size, "%s", lua_tostring(L, -1));
        return;
    }
    snprintf(text, size, "an error that is a %s, without a text 'message'", luaL_typename(L, -1));
    if (!lua_istable(L, -1))
        return;
    lua_checkstack(L, 4);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING && lua_type(L, -1) == LUA_TSTRING &&
            strcmp(lua_tostring(L, -2), "message") == 0)
            snprintf(text, size, "%s", lua_tostring(L, -1));
}

static void describe_budget(const script *s, char *text, size_t size)
{
    const script_limits *limits = &s->config.limits;
    unsigned long long n = s->box.killed == SCRIPT_INSTRUCTIONS ? limits->instructions
                           : s->box.killed == SCRIPT_TOKENS     ? limits->tokens
                           : s->box.killed == SCRIPT_CALLS      ? limits->calls
                                                                : limits->tool_calls;
    switch (s->box.killed) {
    case SCRIPT_MEMORY:
        if (s->box.refused > SCRIPT_MAX_BLOCK)
            snprintf(text, size,
                     "a text, a table or the call stack would grow beyond %d MiB, the most that "
                     "one of them may have",
                     (int)(SCRIPT_MAX_BLOCK >> 20));
        else
            snprintf(text, size, "the script needs more than its %.1f MiB of memory",
                     (double)limits->memory / (1 << 20));
        return;
    case SCRIPT_TIME:
        snprintf(text, size, "the script ran longer than its %.3f s",
                 (double)limits->wall_ms / 1000);
        return;
    case SCRIPT_INSTRUCTIONS:
        snprintf(text, size, "the script ran more than its %llu instructions", n);
        return;
    case SCRIPT_TOKENS:
        snprintf(text, size, "the script used more than its %llu tokens", n);
        return;
    case SCRIPT_CALLS:
    case SCRIPT_TOOL_CALLS:
        snprintf(text, size, "the script made more than its %llu %s", n,
                 s->box.killed == SCRIPT_CALLS ? "turns" : "tool calls");
        return;
    default:
        snprintf(text, size, "the script was cancelled");
    }
}

/* After a protected call of status on the main state. */
static void end_badly(script *s, int status)
{
    char text[MAX_MESSAGE];
    if (sandbox_must_die(&s->box, status)) {
        s->result.end = s->box.killed;
        describe_budget(s, text, sizeof text);
    } else {
        if (s->result.end != SCRIPT_SYNTAX)
            s->result.end = SCRIPT_FAILED;
        describe(s->box.main, text, sizeof text);
    }
    free(s->result.value);
    s->result.value = NULL;
    s->result.message = strdup(text);
    s->ended = true;
    lua_settop(s->box.main, 0);
}

/* ------------------------------------------------------------- loading */

/* Called protected. */
static int load(lua_State *L)
{
    script *s = script_of(L);
    const pipeline *p = s->config.pipeline;
    env_open(L);
    lua_settop(L, 0);
    lib_open(L);
    lua_settop(L, 0);
    lua_pushfstring(L, "@%s", p->title);
    if (!lib_load(L, lua_tostring(L, 1), p->text)) {
        s->result.end = SCRIPT_SYNTAX;
        return lua_error(L);
    }
    sandbox_enter(&s->box, L);
    lua_call(L, 0, 1);
    s->box.running = NULL;
    lua_sethook(L, NULL, 0, 0);
    if (!s->declared.made || !lib_is_pipeline(L, -1))
        return luaL_error(L, "%s returns no pipeline; it should end with return h.pipeline{…}",
                          p->title);
    return 0;
}

/* A traceback of what went wrong while the file ran. */
static int on_load_error(lua_State *L)
{
    script *s = script_of(L);
    s->box.running = NULL;
    lua_sethook(L, NULL, 0, 0);
    s->box.max_memory += 64u << 10;
    luaL_traceback(L, L, NULL, 1);
    free(s->result.traceback);
    s->result.traceback = strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    return 1;
}

static void free_script(script *s)
{
    free(s->declared.description);
    free(s->declared.params);
    free(s->input);
    script_result_clear(&s->result);
    free(s);
}

static bool refuse(script_result *result, const char *why)
{
    *result = (script_result){.end = SCRIPT_MEMORY, .message = strdup(why)};
    return false;
}

bool script_load(const script_config *config, const char *const *roots, size_t n_roots,
                 script **out, script_result *result)
{
    script *s = calloc(1, sizeof *s);
    if (!s)
        return refuse(result, "no memory for a script");
    s->config = *config;
    s->roots = roots;
    s->n_roots = n_roots;
    s->loading = true;
    if (config->limits.memory < SCRIPT_MIN_MEMORY ||
        !sandbox_open(&s->box, config->clock, &config->limits, config->cancel)) {
        free_script(s);
        return refuse(result, "a Lua state takes at least 256 KiB of memory");
    }
    lua_State *L = s->box.main;
    lua_pushcfunction(L, on_load_error); /* these take no memory */
    lua_pushcfunction(L, load);
    int status = lua_pcall(L, 0, 0, 1);
    s->loading = false;
    if (status != LUA_OK) {
        end_badly(s, status);
        script_close(s, result);
        return false;
    }
    lua_settop(L, 0);
    *out = s;
    return true;
}

bool script_open(const script_config *config, script **out, script_result *result)
{
    return script_load(config, NULL, 0, out, result);
}

/* ------------------------------------------------------------- running */

void script_begin(script *s, const char *input)
{
    s->input = strdup(input);
}

/* The main task: the pipeline's function with ctx and the input. */
static void start(lua_State *L)
{
    script *s = script_of(L);
    char *input = s->input;
    lib_push_run(L);
    lib_push_ctx(L);
    lua_pushstring(L, input); /* so that it is freed whatever decoding raises */
    s->input = NULL;
    free(input);
    size_t size;
    const char *text = lua_tolstring(L, -1, &size);
    if (!json_push_decoded(L, text, size))
        luaL_error(L, "the input cannot be read: %s", lua_tostring(L, -1));
    lua_remove(L, -2);
    task_add_main(L, 2);
}

/* What the pipeline's function returned: n values at the top. */
static void take_value(lua_State *L, int n)
{
    script *s = script_of(L);
    lua_settop(L, lua_gettop(L) - n + 2); /* a value and an error, each nil where it lacks */
    if (lua_isnil(L, -2) && !lua_isnil(L, -1))
        lua_error(L);
    json_push_encoded(L, -2);
    s->result.value = strdup(lua_tostring(L, -1));
    if (!s->result.value || lua_rawlen(L, -1) > STORE_MAX_VALUE)
        luaL_error(L, "the result has more than %d MiB as JSON", (int)(STORE_MAX_VALUE >> 20));
}

/* One step, called protected; the argument is the slice. */
static int step(lua_State *L)
{
    script *s = script_of(L);
    const int64_t *slice_ns = lua_touserdata(L, 1);
    int n = 0;
    if (s->input)
        start(L);
    switch (task_go_on(L, *slice_ns, &n)) {
    case TASK_MAIN_ENDED:
        s->ended = true;
        task_drop_all(L);
        take_value(L, n);
        s->result.end = SCRIPT_DONE;
        break;
    case TASK_ALL_PARKED:
        s->ended = true;
        s->result.end = SCRIPT_PARKED;
        break;
    case TASK_WAITS:
        lua_pushboolean(L, 1);
        return 1;
    case TASK_RAN:
        break;
    }
    return 0;
}

enum script_step script_step(script *s, int64_t slice_ns)
{
    lua_State *L = s->box.main;
    lua_settop(L, 0);
    lua_pushcfunction(L, step); /* neither this nor the next takes memory */
    lua_pushlightuserdata(L, &slice_ns);
    int status = lua_pcall(L, 1, 1, 0);
    bool waits = status == LUA_OK && lua_toboolean(L, -1);
    if (status != LUA_OK)
        end_badly(s, status);
    if (s->config.journal)
        journal_flush(s->config.journal, s->ended);
    return s->ended ? SCRIPT_ENDED : waits ? SCRIPT_WAITS : SCRIPT_READY;
}

int64_t script_due(const script *s)
{
    int64_t due = task_due(s), kept = journal_due(s->config.journal);
    return kept < due ? kept : due;
}

void script_close(script *s, script_result *result)
{
    sandbox *box = &s->box;
    s->result.instructions = box->spent;
    s->result.peak_memory = box->peak;
    s->result.elapsed_ns = box->clock->monotonic_ns(box->clock->context) - box->begun_ns;
    s->result.tokens = s->tokens;
    s->result.calls = s->calls;
    *result = s->result;
    s->result = (script_result){0};
    for (size_t i = 0; i < TASK_MAX; i++) { /* of a script that was killed */
        task *t = &s->tasks.slots[i];
        if (t->state == TASK_PENDING)
            pending_cancel(t->waiting);
        while (t->frames) {
            task_frame *f = t->frames;
            t->frames = f->outer;
            journal_forget(&f->held);
            free(f);
        }
    }
    sandbox_close(box);
    jobs_close(&s->jobs);
    free_script(s);
}

void script_run(const script_config *config, const char *input, script_result *result)
{
    const base_clock *clock = config->clock;
    script_config own = *config;
    script *s = NULL;
    own.hub = pending_hub_open(NULL, NULL);
    if (!own.hub) {
        refuse(result, "no memory for a script");
        return;
    }
    if (script_open(&own, &s, result)) {
        script_begin(s, input);
        for (enum script_step at; (at = script_step(s, 0)) != SCRIPT_ENDED;) {
            int64_t left = (script_due(s) - clock->monotonic_ns(clock->context)) / 1000000 + 1;
            if (at == SCRIPT_WAITS)
                pending_hub_wait(own.hub, left < 0 ? 0 : left < POLL_MS ? left : POLL_MS);
        }
        script_close(s, result);
    }
    pending_hub_close(own.hub);
}
