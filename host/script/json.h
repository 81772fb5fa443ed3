/*
 * script/json.h - a script's values as JSON text, and back. See json.c for the rules.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_JSON_H
#define SCRIPT_JSON_H

#include "script/sandbox.h"

#define SCRIPT_JSON_DEPTH 64

/* Pushes the library json: encode, decode, array, null. Its metatables are made here. */
void json_push_library(lua_State *L);

/* Pushes the JSON text of the value at index. Raises where it has none. */
void json_push_encoded(lua_State *L, int index);

/* Pushes the value of a JSON text; false: pushes a message instead. May raise a spent
 * budget. */
bool json_push_decoded(lua_State *L, const char *text, size_t size);

#endif /* SCRIPT_JSON_H */
