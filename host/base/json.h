/*
 * base/json.h - JSON from outside in, JSON for outside out, on top of cJSON.
 *
 * What cJSON does not do: it takes broken UTF-8 as it comes, refuses lone
 * surrogate escapes that real clients send, says nothing of where an error is,
 * and holds numbers as double (ids above 2^53 must be strings). A cJSON tree
 * belongs to one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/buf.h"

#include <cjson/cJSON.h>

/* Deepest nesting that is accepted. */
#define JSON_MAX_DEPTH 64

/* Parses exactly one value. Refused with place and reason: broken UTF-8,
 * anything after the value, NUL characters (also escaped: cJSON's strings end
 * there), nesting over JSON_MAX_DEPTH. A lone surrogate escape becomes U+FFFD.
 * The caller frees *value with cJSON_Delete. */
pawl_status json_parse(const char *data, size_t size, cJSON **value, pawl_error *error);

/* The same, but an escaped NUL is accepted and becomes the two bytes C0 80, which occur in no
 * UTF-8: for callers that can hold a NUL and turn them back with json_add_with_nuls(). */
pawl_status json_parse_with_nuls(const char *data, size_t size, cJSON **value, pawl_error *error);
/* Appends a string of such a tree with its NULs. */
void json_add_with_nuls(buf *out, const char *text);

/* Unformatted text of a tree; the caller free()s it. NULL without memory. */
char *json_print(const cJSON *value);
/* Appends the unformatted text of a tree. */
bool json_add(buf *out, const cJSON *value);
/* Appends the bytes as a JSON string with its quotes; broken UTF-8 becomes U+FFFD. */
bool json_add_quoted(buf *out, pawl_bytes text);

/* Members of an object by exact name; NULL where it is absent or of another type.
 * A null value counts as absent. */
const cJSON *json_get(const cJSON *object, const char *name);
const char *json_get_text(const cJSON *object, const char *name);
/* fallback where the member is absent or no number. */
double json_get_number(const cJSON *object, const char *name, double fallback);
bool json_get_bool(const cJSON *object, const char *name, bool fallback);

/* A pawl_bytes over a NUL-terminated string. */
pawl_bytes json_text(const char *text);

#endif /* BASE_JSON_H */
