/*
 * script/sandbox.h - a Lua state that cannot outrun its budgets.
 *
 * A budget that is spent sets `killed`, which nothing in the script can undo: the
 * count hook then fires at every instruction, and pcall and xpcall (env.c) raise
 * again what they caught. Lua's hook does not run inside C, so each C function that
 * does work in proportion to its arguments says how much by sandbox_spend().
 *
 * The sandbox is declared by its owner and outlives the state. One thread, but for
 * *cancel, which any thread or signal handler may set.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_SANDBOX_H
#define SCRIPT_SANDBOX_H

#include "base/clock.h"
#include "script/limits.h"

#include <lauxlib.h>
#include <lua.h>

#include <stdatomic.h>
#include <stdbool.h>

typedef struct sandbox {
    const base_clock *clock;
    const atomic_bool *cancel; /* or NULL                                         */
    lua_State *main;
    lua_State *running;     /* the coroutine whose hook is armed, or NULL      */
    enum script_end killed; /* SCRIPT_DONE: it lives                           */
    size_t max_memory;
    size_t used;      /* bytes of the Lua state                          */
    size_t outside;   /* bytes that the host keeps for it                */
    size_t peak;      /* largest sum of the two                          */
    size_t refused;   /* size of the latest block that was refused; 0: none since */
    size_t n_big;     /* live blocks of BIG bytes and more               */
    size_t unwatched; /* bytes since the allocator looked at the clock   */
    uint64_t spent;
    uint64_t max_spent; /* UINT64_MAX: any                                 */
    uint64_t unchecked; /* units since budgets were compared               */
    int64_t begun_ns;
    int64_t deadline_ns; /* INT64_MAX: none                                 */
    int64_t slice_ns;    /* when the running task should yield; INT64_MAX: never */
    int protected;       /* pcalls within each other in the running task         */
    int interval;        /* instructions between two calls of the hook      */
} sandbox;

/* Fills the sandbox and opens its state. NULL: no memory. */
lua_State *sandbox_open(sandbox *s, const base_clock *clock, const script_limits *limits,
                        const atomic_bool *cancel);
void sandbox_close(sandbox *s);

sandbox *sandbox_of(lua_State *L);

/* The coroutine is going to run: its hook is armed. */
void sandbox_enter(sandbox *s, lua_State *L);

/* So many instructions' worth of work is done or about to be. Raises when a budget is
 * spent; what is called next may then not be reached. */
void sandbox_spend(lua_State *L, uint64_t units);

/* Compares time and cancel without raising. False: the script is killed. */
bool sandbox_alive(sandbox *s);

/* Ends the script: a limit that the host counts is reached. Does not return. */
void sandbox_end(lua_State *L, enum script_end why);

/* Called by whoever caught an error: raises again when the script is killed, or is now,
 * because memory had run out. */
void sandbox_caught(lua_State *L, int status);
/* The same without raising: the error may not be given to the script. */
bool sandbox_must_die(sandbox *s, int status);

/* The host keeps bytes for the script, and gives them up. Taking may raise. */
void sandbox_claim(lua_State *L, size_t bytes);
void sandbox_disclaim(lua_State *L, size_t bytes);

#endif /* SCRIPT_SANDBOX_H */
