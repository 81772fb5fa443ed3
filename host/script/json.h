/*
 * script/json.h - a script's values as JSON text, and back. See json.c for the rules.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_JSON_H
#define SCRIPT_JSON_H

#include "script/sandbox.h"

#define SCRIPT_JSON_DEPTH 64

/* Makes the metatables of arrays and of null. */
void json_open(lua_State *L);
/* Pushes the value that stands for null. */
void json_push_null(lua_State *L);
/* h.array(list): marks a table as an array, so that an empty one is []. A C function. */
int json_mark(lua_State *L);

/* Pushes the JSON text of the value at index. Raises where it has none. */
void json_push_encoded(lua_State *L, int index);

/* Pushes the value of a JSON text; false: pushes a message instead. May raise a spent
 * budget. */
bool json_push_decoded(lua_State *L, const char *text, size_t size);

#endif /* SCRIPT_JSON_H */
