/*
 * script/script.c - one pipeline, from its text to how it ended. See script.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/script.h"

#include "script/env.h"
#include "script/json.h"
#include "script/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_MESSAGE 4000
#define PIECE_BYTES 512    /* of source between two looks at the clock */
#define CHECKED_UNITS 1000 /* charged for each; makes sandbox_spend() look */

const char *script_end_name(enum script_end end)
{
    static const char *const names[] = {"done",         "syntax", "script",   "memory",
                                        "instructions", "time",   "cancelled"};
    return names[end];
}

/* Skips a byte order mark and the first line of a file with "#!"; lines keep their numbers. */
static const char *skip_head(const char *source, size_t *size)
{
    const char *at = source, *end = source + *size;
    if (*size >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0)
        at += 3;
    if (at < end && *at == '#')
        while (at < end && *at != '\n')
            at++;
    *size = (size_t)(end - at);
    return at;
}

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

/* Loads, runs and takes what the script returned: a value is emitted last; nil and an
 * error are raised. Called protected, with the result as its argument. */
static int body(lua_State *L)
{
    script *s = script_of(L);
    script_result *result = lua_touserdata(L, 1);
    const script_listener *to = &s->config->listener;
    source from = {.left = s->config->size};
    from.at = skip_head(s->config->source, &from.left);
    env_open(L);
    bindings_open(L);
    lua_settop(L, 0);
    lua_pushfstring(L, "@%s", s->config->name);
    if (lua_load(L, read_piece, &from, lua_tostring(L, 1), "t") != LUA_OK) {
        result->end = SCRIPT_SYNTAX;
        return lua_error(L);
    }
    lua_settop(L, 1 + task_run_main(L));
    lua_settop(L, 3); /* name, value, error */
    if (!lua_isnil(L, 2)) {
        size_t size;
        json_push_encoded(L, 2);
        const char *json = lua_tolstring(L, -1, &size);
        if (to->emit)
            to->emit(to->arg, json, size);
        return 0;
    }
    return lua_isnil(L, 3) ? 0 : lua_error(L);
}

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
    const script_config *config = s->config;
    switch (s->box.killed) {
    case SCRIPT_MEMORY:
        if (s->box.refused > SCRIPT_MAX_BLOCK)
            snprintf(text, size,
                     "a text, a table or the call stack would grow beyond %d MiB, the most that "
                     "one of them may have",
                     (int)(SCRIPT_MAX_BLOCK >> 20));
        else
            snprintf(text, size, "the script needs more than its %.1f MiB of memory",
                     (double)config->max_memory / (1 << 20));
        return;
    case SCRIPT_INSTRUCTIONS:
        snprintf(text, size, "the script ran more than its %llu instructions",
                 (unsigned long long)config->max_instructions);
        return;
    case SCRIPT_TIME:
        snprintf(text, size, "the script ran longer than its %.3f s",
                 (double)config->max_ms / 1000);
        return;
    default:
        snprintf(text, size, "the script was cancelled");
    }
}

static void run(script *s, script_result *result)
{
    lua_State *L = s->box.main;
    char text[MAX_MESSAGE];
    lua_pushcfunction(L, body); /* neither this nor the next takes memory */
    lua_pushlightuserdata(L, result);
    int status = lua_pcall(L, 1, 0, 0);
    if (status == LUA_OK)
        return;
    if (sandbox_must_die(&s->box, status)) {
        result->end = s->box.killed;
        describe_budget(s, text, sizeof text);
    } else {
        if (result->end != SCRIPT_SYNTAX)
            result->end = SCRIPT_FAILED;
        describe(L, text, sizeof text);
    }
    result->message = strdup(text);
    result->traceback = s->traceback;
}

void script_run(const script_config *config, script_result *result)
{
    *result = (script_result){.end = SCRIPT_DONE};
    script *s = calloc(1, sizeof *s);
    if (s) {
        s->config = config;
        s->hub = call_hub_open();
    }
    if (!s || !s->hub || config->size > SCRIPT_MAX_SOURCE ||
        config->max_memory < SCRIPT_MIN_MEMORY || !sandbox_open(&s->box, config)) {
        result->end = SCRIPT_MEMORY;
        result->message = strdup(config->size > SCRIPT_MAX_SOURCE
                                     ? "the script has more than 1 MiB of text"
                                     : "a Lua state takes at least 256 KiB of memory");
    } else {
        run(s, result);
        result->instructions = s->box.spent;
        result->peak_memory = s->box.peak;
        result->elapsed_ns = s->box.clock->monotonic_ns(s->box.clock->context) - s->box.begun_ns;
        sandbox_close(&s->box);
    }
    if (s)
        call_hub_release(s->hub);
    free(s);
}

void script_result_clear(script_result *result)
{
    free(result->message);
    free(result->traceback);
    *result = (script_result){0};
}
