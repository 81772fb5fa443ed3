/*
 * script/schema.h - the part of JSON Schema that parameters and answers are checked by.
 *
 * Known: type, enum, const, properties, required, additionalProperties, items, minItems,
 * maxItems, minLength, maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum;
 * title, description, default, examples say something to people. Any other keyword is
 * refused by its name: one that is not obeyed would be a promise that is not kept. [any]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_SCHEMA_H
#define SCRIPT_SCHEMA_H

#include "base/json.h"

/* Whether it is a schema of that part; the message names the place and what is wrong. */
pawl_status schema_check(const cJSON *schema, pawl_error *error);

/* Whether a value is as a checked schema wants it; what: how the value is called. */
pawl_status schema_holds(const cJSON *schema, const cJSON *value, const char *what,
                         pawl_error *error);

/* The text of --param NAME=TEXT as the value that the schema of an object (NULL: any) wants
 * for this member: a text, a number, true or false, else JSON. To be cJSON_Delete()d. */
pawl_status schema_typed(const cJSON *schema, const char *name, const char *text, cJSON **value,
                         pawl_error *error);

#endif /* SCRIPT_SCHEMA_H */
