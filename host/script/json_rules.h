/*
 * script/json_rules.h - what json_encode.c and json_decode.c agree on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_JSON_RULES_H
#define SCRIPT_JSON_RULES_H

#include "script/json.h"

#include <float.h>

#define MAX_NUMBER 400 /* characters of one number */
#define MAX_REAL DBL_MAX

/* Gives the table at the top the mark of an array. */
void json_mark_array(lua_State *L);

#endif /* SCRIPT_JSON_RULES_H */
