/*
 * script/state.h - one run on the inside: its sandbox, its tasks, what it may reach.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_STATE_H
#define SCRIPT_STATE_H

#include "script/jobs.h"
#include "script/script.h"
#include "script/task.h"

/* What a pipeline declared, while it loads. */
typedef struct declaration {
    bool made;
    char name[PIPELINE_MAX_NAME + 1];
    char *description; /* or NULL               */
    char *params;      /* JSON Schema, or NULL  */
    script_limits limits;
} declaration;

struct script {
    sandbox box; /* first: sandbox_of() finds the script, too */
    script_config config;
    task_list tasks;
    jobs jobs; /* that run for it */
    declaration declared;
    const char *const *roots; /* while a pipeline is made: where modules are; else NULL */
    size_t n_roots;
    bool loading;    /* the file runs, the pipeline's function does not yet  */
    char *input;     /* JSON, until the main task has begun                  */
    uint64_t tokens; /* used                                                 */
    uint64_t calls;
    uint64_t tool_calls;
    script_result result;
    bool ended;
};

static inline script *script_of(lua_State *L)
{
    return (script *)sandbox_of(L);
}

/* What a script can call is made of functions in C and of lua/pawl.lua, which gets those
 * of the table `core` that scripts do not see. Each pushes nothing and adds to tables at
 * the given indices. */
void lib_open(lua_State *L);                        /* require, h, ctx (lib.c)      */
void context_open(lua_State *L, int core, int ctx); /* context.c */
void step_open(lua_State *L, int core);             /* step.c                          */
void text_open(lua_State *L, int core, int ctx);    /* text.c                          */
void task_open(lua_State *L, int core);             /* task_lib.c                      */
void dialog_open(lua_State *L, int core);           /* session.c                       */
void docs_lib_open(lua_State *L, int core);         /* docs_lib.c                      */
void tools_lib_open(lua_State *L, int core);        /* tools_lib.c                     */

/* Pushes the loaded pipeline's function. (lib.c) */
void lib_push_run(lua_State *L);
/* Whether the value at index is the one that the pipeline's declaration returned. */
bool lib_is_pipeline(lua_State *L, int index);
/* Pushes the function that a text is; false: what is wrong with it. */
bool lib_load(lua_State *L, const char *title, const char *text);
/* As luaL_error(), at the script's line, not at that of lua/pawl.lua. (lib.c) */
int lib_error(lua_State *L, const char *format, ...);
/* Pushes ctx. (lib.c) */
void lib_push_ctx(lua_State *L);
/* Raises unless the first argument is ctx: ctx.name(…) is a slip of ctx:name(…). */
void lib_check_ctx(lua_State *L, const char *name);

/* A line for the run's log: text, and behind it more, which may be NULL. (context.c) */
void context_log(script *s, const char *level, const char *text, const char *more);

/* script_open() with folders for modules: a pipeline is being made. (script.c) */
bool script_load(const script_config *config, const char *const *roots, size_t n_roots,
                 script **out, script_result *result);

/* Whether the run keeps what its steps gave. */
static inline bool script_is_kept(const script *s)
{
    return journal_is_kept(s->config.journal);
}

/* A text that may go into a message: UTF-8 without NUL. what: its name in the error. */
const char *options_check_text(lua_State *L, int index, const char *what);
/* Raises for a member of the table at index that is not known. what: what it is. */
void options_refuse_unknown(lua_State *L, int index, const char *const *known, const char *what);
/* The model of this name, or the first one where it is NULL. Raises. (text.c) */
run_model *text_find_model(lua_State *L, const char *name);

#endif /* SCRIPT_STATE_H */
