/*
 * script/env.h - what a script can name: its global table, built from nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_ENV_H
#define SCRIPT_ENV_H

#include "script/sandbox.h"

/* Pushes the new environment and makes it the state's globals. Raises without memory. */
void env_open(lua_State *L);

/* Each pushes one library as a table; by env_open(). */
void env_push_string(lua_State *L); /* string_lib.c */
void env_push_table(lua_State *L);  /* table_lib.c  */

/* Takes a function of a standard library off the table at index `from` and puts it,
 * wrapped so that it looks at the budgets first, into the table at the top. */
void env_guard(lua_State *L, int from, const char *name);

/* Pushes the value at an index as text for people: no addresses, __tostring obeyed. */
const char *env_text(lua_State *L, int index, size_t *size);

/* What a function of ours returns where something failed that a script should expect:
 * nil and {code, message, retryable}. The result is 2. */
int env_failure(lua_State *L, const char *code, bool retryable, const char *format, ...);

#endif /* SCRIPT_ENV_H */
