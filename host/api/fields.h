/*
 * api/fields.h - members of a JSON object, read by type and range or refused.
 *
 * Each reader takes the object, the path of the object for the error's param ("" is
 * the top), and the member's name. A member that is absent or null is no fault: the
 * out-param keeps what it had. False: *error says which member and what would be
 * right. Pure; [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_FIELDS_H
#define API_FIELDS_H

#include "api/error.h"

/* The largest integer that a JSON number carries exactly. */
#define FIELD_MAX_INTEGER 9007199254740991

/* max: bytes. The text is borrowed from the tree. */
bool field_text(const cJSON *object, const char *prefix, const char *name, size_t max,
                const char **out, api_error *error);
bool field_bool(const cJSON *object, const char *prefix, const char *name, bool *out,
                api_error *error);
bool field_number(const cJSON *object, const char *prefix, const char *name, double min, double max,
                  double *out, api_error *error);
bool field_integer(const cJSON *object, const char *prefix, const char *name, int64_t min,
                   int64_t max, int64_t *out, api_error *error);
/* At most max members. */
bool field_array(const cJSON *object, const char *prefix, const char *name, int max,
                 const cJSON **out, api_error *error);
bool field_object(const cJSON *object, const char *prefix, const char *name, const cJSON **out,
                  api_error *error);
/* One of the words, separated by ' '. */
bool field_word(const cJSON *object, const char *prefix, const char *name, const char *words,
                const char **out, api_error *error);

/* Gives an object or (name NULL) an array a member; the item is taken in every case.
 * False: no memory, also when item is NULL because there was none for it. */
bool field_add(cJSON *object, const char *name, cJSON *item);

/* Refusals, always false. */
bool field_missing(const char *prefix, const char *name, api_error *error);
bool field_wrong_type(const char *path, const cJSON *value, const char *wanted, api_error *error);

/* Whether the word is among those in words, which are separated by ' '. */
bool field_word_is_one(const char *word, const char *words);
/* How many characters a UTF-8 text has. */
size_t field_characters(const char *text);

#endif /* API_FIELDS_H */
