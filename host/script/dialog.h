/*
 * script/dialog.h - a conversation of a script's with a model.
 *
 * A session is the record of its latest turn, which keeps the turns before it, and the
 * items that wait for the next one. So a turn costs its new tokens, a fork is one more
 * reference, and going back is letting go of some. What it holds outside of Lua is charged
 * to the script's memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_DIALOG_H
#define SCRIPT_DIALOG_H

#include "script/call.h"
#include "script/state.h"

typedef struct session {
    run_model *model;   /* lives as long as the runtime; NULL: dropped    */
    run_record *record; /* of the latest turn, or NULL                    */
    cJSON *pending;     /* array of items                                 */
    call *call;         /* the turn that runs, or NULL                    */
    bool kept;          /* its turns are stored, where there is a store   */
    size_t claimed;     /* bytes charged to the script                    */
} session;

/* What a generation is asked for, out of the script's table. Texts and the array are
 * borrowed from the Lua stack. (options.c) */
typedef struct generate_options {
    const char *stop[RUN_MAX_STOP];
    size_t n_stop;
    const char *tools; /* JSON array, or NULL */
    const char *effort;
    lua_Integer timeout_ms; /* 0: none */
    uint64_t max_tokens;    /* 0: any  */
    bool tools_off;
    bool stream;
    bool batch;  /* priority "batch"                        */
    bool forget; /* cache false: its state is not kept      */
    bool seeded;
    uint64_t seed;
    int thinking;
    pawl_sampling sampling;
} generate_options;

/* Reads what is at stack index 2: nothing or a table. What it needs to keep it leaves on
 * the stack. Raises what cannot be. */
void options_read(lua_State *L, generate_options *options);

/* The session at stack index 1, which was not dropped. Raises. */
session *dialog_check(lua_State *L);
/* Raises while a turn runs. */
void dialog_must_be_idle(lua_State *L, session *s);
/* Charges the script for what the session holds now. May raise. */
void dialog_charge(lua_State *L, session *s);
/* Adds a message; call_id: the call that a tool's answers, else NULL. */
void dialog_add_message(lua_State *L, session *s, const char *role, const char *text,
                        const char *call_id);
/* Pushes a mark of the place before the items of a turn that follows `record`; n of them
 * had been added, the last one of this id. */
void dialog_push_mark(lua_State *L, run_record *record, int n, const char *last_id);
/* A request of the session's next turn, with nothing of its options. Raises. */
run_request *dialog_request(lua_State *L, const session *s);

/* Counts a turn that is about to begin; tokens that it may use. Ends the script when its
 * limits are reached. */
uint64_t dialog_count_call(lua_State *L);
/* Counts what it used. */
void dialog_count_tokens(lua_State *L, const run_usage *usage);

/* Pushes what a turn gave: a reply, or nil and an error. The number of values. (reply.c) */
int reply_push(lua_State *L, const call_outcome *outcome);
int reply_push_failure(lua_State *L, const call_outcome *outcome, bool timed_out);
int reply_push_refusal(lua_State *L, const run_refusal *refusal);

/* session:generate(options), and core.score(session, reply). (generate.c) */
int generate_binding(lua_State *L);
int generate_score(lua_State *L);
void generate_open(lua_State *L);

#endif /* SCRIPT_DIALOG_H */
