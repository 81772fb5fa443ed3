/*
 * script/text.c - texts as the model's tokenizer sees them.
 *
 *   ctx:window(model)
 *   core.measure(text, most, model)  how many tokens the text has, and how many bytes of it
 *                                    the first `most` of them are
 *
 * A short text is tokenised at once, a long one on the worker, so that no run holds up
 * others for longer than a slice.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/state.h"
#include "script/work.h"

#include <stdlib.h>
#include <string.h>

#define AT_ONCE 32768 /* bytes that are tokenised on the run's thread */
#define METATABLE "pawl.measure"
#define BYTES_A_UNIT 2 /* of a text that is tokenised */

run_model *text_find_model(lua_State *L, const char *name)
{
    run_runtime *runtime = script_of(L)->config.runtime;
    size_t n = runtime ? run_model_count(runtime) : 0;
    if (n == 0)
        lib_error(L, "no model is served; start with --model PATH");
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
    lib_error(L, "no model is named '%s'; there are: %s", name, lua_tostring(L, -1));
    return NULL;
}

static run_model *model_at(lua_State *L, int index)
{
    return text_find_model(L, lua_isnoneornil(L, index) ? NULL
                                                        : options_check_text(L, index, "model"));
}

/* ctx:window(model) */
static int ctx_window(lua_State *L)
{
    lib_check_ctx(L, "window");
    lua_pushinteger(L, (lua_Integer)model_at(L, 2)->info.context_limit);
    return 1;
}

/* ------------------------------------------------------------- measuring */

typedef struct measuring {
    const run_model *model;
    char *text; /* owned, where the worker does it */
    size_t size;
    uint64_t most;
    uint64_t n_tokens; /* results */
    uint64_t n_bytes;
    pawl_status status;
    pawl_error error;
} measuring;

static void measure(measuring *m)
{
    const run_model *model = m->model;
    pawl_segment segment = {{m->text, m->size}, PAWL_SEGMENT_LITERAL};
    int32_t *tokens = NULL;
    m->status = run_encode(model->tokenizer_api, model->tokenizer, &segment, 1, &tokens,
                           &m->n_tokens, &m->error);
    for (uint64_t i = 0; !m->status && i < m->n_tokens && i < m->most; i++)
        m->n_bytes += model->tokenizer_api->piece(model->tokenizer, tokens[i]).size;
    if (m->n_bytes > m->size) /* a tokenizer may add to a text */
        m->n_bytes = m->size;
    free(tokens);
}

static int push_measured(lua_State *L, const measuring *m)
{
    if (m->status)
        return lib_error(L, "the text cannot be tokenised: %s", m->error.message);
    lua_pushinteger(L, (lua_Integer)m->n_tokens);
    lua_pushinteger(L, (lua_Integer)m->n_bytes);
    return 2;
}

/* Worker thread. */
static void run_measuring(void *job)
{
    measure(job);
}

static void clear_measuring(void *job)
{
    measuring *m = job;
    free(m->text);
    free(m);
}

static int work_gc(lua_State *L)
{
    work **w = lua_touserdata(L, 1);
    if (*w)
        pending_close(&(*w)->base);
    *w = NULL;
    return 0;
}

/* Stack: text, most, model, the work. */
static int measured(lua_State *L, int status, lua_KContext context)
{
    work **w = lua_touserdata(L, 4);
    (void)status;
    (void)context;
    const measuring *m = (*w)->job;
    sandbox_disclaim(L, m->size);
    return push_measured(L, m);
}

static int measure_on_worker(lua_State *L, const measuring *asked)
{
    const script *s = script_of(L);
    task_check_can_wait(L, "counting the tokens of more than 32 KiB");
    work **w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = NULL;
    luaL_setmetatable(L, METATABLE);
    sandbox_claim(L, asked->size);
    measuring *m = malloc(sizeof *m);
    char *copy = malloc(asked->size);
    if (m && copy) {
        *m = *asked;
        m->text = memcpy(copy, asked->text, asked->size);
        *w = work_start(s->config.hub, s->config.runtime, run_measuring, clear_measuring, m);
    } else {
        free(m);
        free(copy);
    }
    if (!*w)
        return lib_error(L, "the runtime takes no more work now");
    return task_wait(L, &(*w)->base, 0, NULL, 0, measured);
}

static int core_measure(lua_State *L)
{
    measuring m = {.error = {.struct_size = sizeof m.error}};
    const char *text = options_check_text(L, 1, "text");
    lua_settop(L, 3);
    m.size = lua_rawlen(L, 1);
    m.most = (uint64_t)luaL_checkinteger(L, 2);
    m.model = model_at(L, 3);
    m.text = (char *)(uintptr_t)text;
    sandbox_spend(L, 100 + m.size / BYTES_A_UNIT);
    if (m.size > AT_ONCE)
        return measure_on_worker(L, &m);
    measure(&m);
    return push_measured(L, &m);
}

void text_open(lua_State *L, int core, int ctx)
{
    lua_pushcfunction(L, core_measure);
    lua_setfield(L, core, "measure");
    lua_pushcfunction(L, ctx_window);
    lua_setfield(L, ctx, "window");
    luaL_newmetatable(L, METATABLE);
    lua_pushcfunction(L, work_gc);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
}
