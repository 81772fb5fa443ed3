/*
 * script/docs_lib.c - what lua/pawl.lua makes ctx.docs of.
 *
 *   core.docs_list(folder)                     {{path, size, mtime}, …}
 *   core.docs_hash(paths)                      the SHA-256 of each; false: it cannot be read
 *   core.docs_read(path, max_bytes)            its bytes
 *   core.docs_text(path, max_bytes, timeout)   its text
 *
 * Each returns core.busy where it should be called again soon, or nil and an error; each
 * raises where no documents are granted.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/env.h"
#include "script/grants.h"
#include "script/jobs.h"
#include "script/state.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HASHED 256 /* files of one core.docs_hash */

typedef struct reading {
    const docs *docs;
    docs_text_options options;
    bool good;
    failure why;
    buf out;
    docs_list list;
    char (*hashes)[DIGEST_HEX_SIZE]; /* of each path; "": it cannot be read */
    size_t n_paths;
    char *paths[]; /* one, or those of docs_hash */
} reading;

static const docs *check_granted(lua_State *L)
{
    const script_grants *grants = script_of(L)->config.grants;
    if (!grants || !grants->docs)
        lib_error(L, "no documents are granted; start with --docs DIR");
    return grants->docs;
}

static void clear(void *work)
{
    reading *r = work;
    for (size_t i = 0; i < r->n_paths; i++)
        free(r->paths[i]);
    free(r->hashes);
    docs_list_clear(&r->list);
    buf_clear(&r->out);
    free(r);
}

static reading *make(const docs *d, size_t n_paths, size_t max_bytes)
{
    reading *r = calloc(1, sizeof *r + n_paths * sizeof r->paths[0]);
    if (!r)
        return NULL;
    r->docs = d;
    r->n_paths = n_paths;
    buf_init(&r->out, max_bytes);
    return r;
}

/* With the one path at index 1. */
static reading *make_one(lua_State *L, const docs *d, size_t max_bytes)
{
    reading *r = make(d, 1, max_bytes);
    if (r && !(r->paths[0] = strdup(lua_tostring(L, 1)))) {
        clear(r);
        return NULL;
    }
    return r;
}

/* ------------------------------------------------------------- list */

/* [crew] */
static void run_list(void *work, int stop_fd)
{
    reading *r = work;
    r->good = docs_list_files(r->docs, r->paths[0], stop_fd, &r->list, &r->why);
}

static int push_list(lua_State *L, const void *work)
{
    const reading *r = work;
    if (!r->good)
        return jobs_push_failure(L, &r->why);
    sandbox_spend(L, r->list.n * 50);
    lua_createtable(L, (int)r->list.n, 0);
    for (size_t i = 0; i < r->list.n; i++) {
        const docs_entry *e = &r->list.entries[i];
        lua_createtable(L, 0, 4);
        lua_pushstring(L, e->path);
        lua_setfield(L, -2, "path");
        lua_pushinteger(L, (lua_Integer)e->size);
        lua_setfield(L, -2, "size");
        lua_pushinteger(L, e->mtime_s);
        lua_setfield(L, -2, "mtime");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int core_docs_list(lua_State *L)
{
    static const jobs_kind kind = {run_list, clear, push_list};
    const docs *d = check_granted(L);
    options_check_text(L, 1, "folder");
    lua_settop(L, 1);
    return jobs_begin(L, "list") ? jobs_wait(L, &kind, make_one(L, d, 0)) : 1;
}

/* ------------------------------------------------------------- hash */

/* [crew] */
static void run_hash(void *work, int stop_fd)
{
    reading *r = work;
    r->hashes = calloc(r->n_paths, sizeof r->hashes[0]);
    for (size_t i = 0; r->hashes && i < r->n_paths && !crew_is_stopped(stop_fd); i++)
        if (!docs_hash(r->docs, r->paths[i], stop_fd, r->hashes[i], &r->why))
            r->hashes[i][0] = '\0';
    r->good = r->hashes || failure_set(&r->why, "busy", true, "no memory for digests");
}

static int push_hash(lua_State *L, const void *work)
{
    const reading *r = work;
    if (!r->good)
        return jobs_push_failure(L, &r->why);
    lua_createtable(L, (int)r->n_paths, 0);
    for (size_t i = 0; i < r->n_paths; i++) {
        if (r->hashes[i][0])
            lua_pushstring(L, r->hashes[i]);
        else
            lua_pushboolean(L, 0);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* The list at index 1, whose members are texts. */
static reading *make_many(lua_State *L, const docs *d, size_t n)
{
    reading *r = make(d, n, 0);
    for (size_t i = 0; r && i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        r->paths[i] = strdup(lua_tostring(L, -1));
        lua_pop(L, 1);
        if (!r->paths[i]) {
            clear(r);
            return NULL;
        }
    }
    return r;
}

static int core_docs_hash(lua_State *L)
{
    static const jobs_kind kind = {run_hash, clear, push_hash};
    const docs *d = check_granted(L);
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    size_t n = lua_rawlen(L, 1);
    luaL_argcheck(L, n >= 1 && n <= MAX_HASHED, 1, "1 to 256 paths are wanted");
    for (size_t i = 1; i <= n; i++) {
        luaL_argcheck(L, lua_rawgeti(L, 1, (lua_Integer)i) == LUA_TSTRING, 1, "no path");
        lua_pop(L, 1);
    }
    return jobs_begin(L, "list") ? jobs_wait(L, &kind, make_many(L, d, n)) : 1;
}

/* ------------------------------------------------------------- read, text */

static int push_bytes(lua_State *L, const void *work)
{
    const reading *r = work;
    if (!r->good)
        return jobs_push_failure(L, &r->why);
    sandbox_spend(L, r->out.size / 16);
    lua_pushlstring(L, buf_text(&r->out), r->out.size);
    return 1;
}

/* [crew] */
static void run_read(void *work, int stop_fd)
{
    reading *r = work;
    r->good = docs_read(r->docs, r->paths[0], stop_fd, &r->out, &r->why);
}

static int core_docs_read(lua_State *L)
{
    static const jobs_kind kind = {run_read, clear, push_bytes};
    const docs *d = check_granted(L);
    options_check_text(L, 1, "path");
    lua_Integer most = luaL_checkinteger(L, 2);
    lua_settop(L, 1);
    return jobs_begin(L, "read") ? jobs_wait(L, &kind, make_one(L, d, (size_t)most)) : 1;
}

/* [crew] */
static void run_text(void *work, int stop_fd)
{
    reading *r = work;
    r->good = docs_text(r->docs, r->paths[0], &r->options, stop_fd, &r->out, &r->why);
}

static int core_docs_text(lua_State *L)
{
    static const jobs_kind kind = {run_text, clear, push_bytes};
    const docs *d = check_granted(L);
    options_check_text(L, 1, "path");
    docs_text_options options = {.max_bytes = (uint64_t)luaL_checkinteger(L, 2),
                                 .timeout_ms = luaL_checkinteger(L, 3)};
    lua_settop(L, 1);
    if (!jobs_begin(L, "text"))
        return 1;
    reading *r = make_one(L, d, DOCS_MAX_TEXT);
    if (r)
        r->options = options;
    return jobs_wait(L, &kind, r);
}

void docs_lib_open(lua_State *L, int core)
{
    static const luaL_Reg own[] = {{"docs_list", core_docs_list},
                                   {"docs_hash", core_docs_hash},
                                   {"docs_read", core_docs_read},
                                   {"docs_text", core_docs_text},
                                   {NULL, NULL}};
    lua_pushvalue(L, core);
    luaL_setfuncs(L, own, 0);
    lua_pop(L, 1);
}
