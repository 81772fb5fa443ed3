/*
 * script/pattern.h - Lua's patterns, matched with a count of steps.
 *
 * The same language as Lua's own string library has (manual, 6.4.1). Matching can take
 * exponential time, so every step is charged to the script's budget. The subject and
 * the pattern are borrowed; matching allocates nothing and may raise.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_PATTERN_H
#define SCRIPT_PATTERN_H

#include "script/sandbox.h"

#define PATTERN_MAX_CAPTURES 32

/* size: bytes of the capture, or one of */
enum { PATTERN_OPEN = -1, PATTERN_POSITION = -2 };

typedef struct pattern {
    lua_State *L;
    const char *subject;
    const char *subject_end;
    const char *begin; /* of the pattern */
    const char *end;
    int depth;      /* of recursion                              */
    unsigned steps; /* not yet charged                           */
    int n_captures;
    struct {
        const char *at;
        ptrdiff_t size;
    } captures[PATTERN_MAX_CAPTURES];
} pattern;

void pattern_init(pattern *p, lua_State *L, const char *subject, size_t subject_size,
                  const char *text, size_t size);

/* Whether the pattern matches from exactly here; the end of the match or NULL. */
const char *pattern_match(pattern *p, const char *at);

/* Pushes capture i (the whole match, from `at` to `end`, where there are none). */
void pattern_push_capture(pattern *p, int i, const char *at, const char *end);
/* Pushes all captures, or the whole match where there are none. Their number. */
int pattern_push_captures(pattern *p, const char *at, const char *end);

#endif /* SCRIPT_PATTERN_H */
