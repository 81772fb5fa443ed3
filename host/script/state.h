/*
 * script/state.h - one run on the inside: its sandbox, its tasks, what it may reach.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_STATE_H
#define SCRIPT_STATE_H

#include "script/call.h"
#include "script/task.h"

typedef struct script {
    sandbox box; /* first: sandbox_of() finds the script, too */
    const script_config *config;
    call_hub *hub;
    task_list tasks;
    char *traceback; /* of the task that ended the script, or NULL */
} script;

static inline script *script_of(lua_State *L)
{
    return (script *)sandbox_of(L);
}

/* Puts the library pawl, and print, into the environment at the top. (bindings.c) */
void bindings_open(lua_State *L);
/* Makes the metatable of sessions; pushes pawl.session. (session.c) */
void session_push_constructor(lua_State *L);

/* What a generation is asked for, out of the script's table. Texts and the array are
 * borrowed from the Lua stack. (options.c) */
typedef struct generate_options {
    const char *text; /* of the user, or NULL */
    const char *stop[RUN_MAX_STOP];
    size_t n_stop;
    const char *tools; /* JSON array, or NULL */
    const char *effort;
    lua_Integer timeout_ms; /* 0: none */
    uint64_t max_tokens;    /* 0: any  */
    bool tools_off;
    bool batch; /* priority */
    bool seeded;
    uint64_t seed;
    int thinking;
    pawl_sampling sampling;
} generate_options;

/* Reads what is at stack index 2: nothing, a text or a table. What it needs to keep it
 * leaves on the stack. Raises what cannot be. */
void options_read(lua_State *L, generate_options *options);
/* A text that may go into a message: UTF-8 without NUL. what: its name in the error. */
const char *options_check_text(lua_State *L, int index, const char *what);

#endif /* SCRIPT_STATE_H */
