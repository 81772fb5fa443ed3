/*
 * chat/json.h - reads and prints JSON as text, without turning it into numbers.
 *
 * A request's tools and arguments go into the prompt with every digit that
 * their author wrote, so there is no tree of doubles here: a json_view is the
 * piece of source text that holds one value. json_parse() checks the whole
 * text once; all other functions rely on that and only walk.
 *
 * Views borrow the text they were cut from. All functions are [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_JSON_H
#define CHAT_JSON_H

#include "chat/text.h"

#include <stdbool.h>

struct json_view {
    const char *data; /* first byte of the value, no white space before it */
    size_t size;      /* to its last byte; 0: there is no such value        */
};

/* One whole JSON text in UTF-8. PAWL_E_ARGUMENT names the byte that is wrong;
 * `what` begins the message. */
pawl_status json_parse(pawl_bytes text, const char *what, struct json_view *value,
                       pawl_error *error);

/* '{' '[' '"' 't' 'f' 'n', '0' for any number, '\0' for no value. */
char json_kind(struct json_view value);

/* The value of a key (written without escapes) or one of size 0; of equal keys
 * the last counts. Anything but an object has no members. */
struct json_view json_member(struct json_view object, const char *key);

/* Walks an array: *at starts as 0. False at the end. */
bool json_next(struct json_view array, size_t *at, struct json_view *element);

bool json_is(struct json_view value, const char *string);   /* equals this string */
void json_decode(struct json_view string, struct text *to); /* what a string says */

/* The value as Python's json.dumps(ensure_ascii=False) prints it: ", " and
 * ": ", escapes only where they must be; numbers and the order of keys as in
 * the source. */
void json_dump(struct json_view value, struct text *to);

/* Text as the inside of a JSON string, escaped the same way. */
void json_escape(struct text *to, const char *data, size_t size);

#endif /* CHAT_JSON_H */
