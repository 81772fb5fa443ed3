/*
 * base/jsonc.h - JSON as people write it in files: with comments, and with lines.
 *
 * A superset of JSON: comments from two slashes to the end of the line, comments
 * between slash-star and star-slash, and a comma after the last member are allowed.
 * Every value knows its line, so that who reads a file can say where something is
 * wrong. Numbers stay as they were written. Refused: a name twice in one object, NUL
 * characters, broken UTF-8, lone surrogates, anything after the value.
 *
 * A tree belongs to one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_JSONC_H
#define BASE_JSONC_H

#include "base/buf.h"

#define JSONC_MAX_BYTES (1u << 20) /* of a whole text */
#define JSONC_MAX_DEPTH 16
#define JSONC_MAX_MEMBERS 8192 /* of all arrays and objects together */

enum jsonc_kind { JSONC_NULL, JSONC_BOOL, JSONC_NUMBER, JSONC_STRING, JSONC_ARRAY, JSONC_OBJECT };

typedef struct jsonc jsonc;

struct jsonc {
    enum jsonc_kind kind;
    unsigned line; /* where it begins, from 1                           */
    bool truth;    /* of a bool                                         */
    char *name;    /* of a member of an object, else NULL               */
    char *text;    /* of a string, decoded; of a number, as it was written */
    jsonc *first;  /* of an array or object                             */
    jsonc *next;   /* beside it in the same array or object             */
};

/* On failure *line says where, and error what. */
pawl_status jsonc_parse(const char *data, size_t size, jsonc **value, unsigned *line,
                        pawl_error *error);
void jsonc_free(jsonc *value); /* NULL allowed */

const jsonc *jsonc_get(const jsonc *object, const char *name); /* NULL: absent */
const char *jsonc_kind_name(enum jsonc_kind kind);             /* "a string", … */
/* Appends the value as plain JSON in one line. */
void jsonc_add(buf *out, const jsonc *value);

#endif /* BASE_JSONC_H */
