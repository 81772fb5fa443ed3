/*
 * script/pattern.c - Lua's patterns, matched with a count of steps. See pattern.h.
 *
 * A backtracking matcher. An item of the pattern is one class with an optional suffix,
 * or one of the special forms; items that can be decided at once are walked in a loop,
 * those that may have to be undone recurse.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/pattern.h"

#include <ctype.h>
#include <string.h>

#define MAX_DEPTH 200
#define CHARGE_STEPS 256

static const char *match(pattern *p, const char *at, const char *item);

static void step(pattern *p)
{
    if (++p->steps < CHARGE_STEPS)
        return;
    p->steps = 0;
    sandbox_spend(p->L, CHARGE_STEPS);
}

void pattern_init(pattern *p, lua_State *L, const char *subject, size_t subject_size,
                  const char *text, size_t size)
{
    *p = (pattern){.L = L,
                   .subject = subject,
                   .subject_end = subject + subject_size,
                   .begin = text,
                   .end = text + size};
}

/* ------------------------------------------------------------- classes */

/* Behind the class that begins at `item`: "x", "%x" or "[…]". */
static const char *class_end(pattern *p, const char *item)
{
    char first = *item++;
    if (first == '%') {
        if (item == p->end)
            luaL_error(p->L, "malformed pattern (ends with '%%')");
        return item + 1;
    }
    if (first != '[')
        return item;
    if (item < p->end && *item == '^')
        item++;
    do { /* a ']' in the first place stands for itself */
        if (item == p->end)
            luaL_error(p->L, "malformed pattern (missing ']')");
        if (*item++ == '%') {
            if (item == p->end)
                luaL_error(p->L, "malformed pattern (missing ']')");
            item++;
        }
    } while (item == p->end || *item != ']');
    return item + 1;
}

static bool in_letter_class(unsigned char c, unsigned char letter)
{
    bool in;
    switch (tolower(letter)) {
    case 'a':
        in = isalpha(c);
        break;
    case 'c':
        in = iscntrl(c);
        break;
    case 'd':
        in = isdigit(c);
        break;
    case 'g':
        in = isgraph(c);
        break;
    case 'l':
        in = islower(c);
        break;
    case 'p':
        in = ispunct(c);
        break;
    case 's':
        in = isspace(c);
        break;
    case 'u':
        in = isupper(c);
        break;
    case 'w':
        in = isalnum(c);
        break;
    case 'x':
        in = isxdigit(c);
        break;
    default:
        return letter == c;
    }
    return isupper(letter) ? !in : in;
}

/* set is at '[', last at its ']'. */
static bool in_set(pattern *p, unsigned char c, const char *set, const char *last)
{
    bool wanted = true;
    set++;
    if (*set == '^') {
        wanted = false;
        set++;
    }
    while (set < last) {
        step(p);
        if (*set == '%') {
            if (in_letter_class(c, (unsigned char)set[1]))
                return wanted;
            set += 2;
        } else if (set + 2 < last && set[1] == '-') {
            if ((unsigned char)set[0] <= c && c <= (unsigned char)set[2])
                return wanted;
            set += 3;
        } else if ((unsigned char)*set++ == c) {
            return wanted;
        }
    }
    return !wanted;
}

/* Whether the character here is in the class from item to after. */
static bool fits(pattern *p, const char *at, const char *item, const char *after)
{
    step(p);
    if (at >= p->subject_end)
        return false;
    unsigned char c = (unsigned char)*at;
    switch (*item) {
    case '.':
        return true;
    case '%':
        return in_letter_class(c, (unsigned char)item[1]);
    case '[':
        return in_set(p, c, item, after - 1);
    default:
        return (unsigned char)*item == c;
    }
}

/* ------------------------------------------------------------- special forms */

static const char *open_capture(pattern *p, const char *at, const char *item, ptrdiff_t size)
{
    if (p->n_captures == PATTERN_MAX_CAPTURES)
        luaL_error(p->L, "too many captures");
    p->captures[p->n_captures].at = at;
    p->captures[p->n_captures].size = size;
    p->n_captures++;
    const char *end = match(p, at, item);
    if (!end)
        p->n_captures--;
    return end;
}

static const char *close_capture(pattern *p, const char *at, const char *item)
{
    int i = p->n_captures - 1;
    while (i >= 0 && p->captures[i].size != PATTERN_OPEN)
        i--;
    if (i < 0)
        luaL_error(p->L, "invalid pattern capture");
    p->captures[i].size = at - p->captures[i].at;
    const char *end = match(p, at, item);
    if (!end)
        p->captures[i].size = PATTERN_OPEN;
    return end;
}

/* %bxy: behind the balanced text that begins here, or NULL. item is at 'x'. */
static const char *match_balanced(pattern *p, const char *at, const char *item)
{
    if (p->end - item < 2)
        luaL_error(p->L, "malformed pattern (missing arguments to '%%b')");
    if (at >= p->subject_end || *at != item[0])
        return NULL;
    size_t depth = 1;
    for (at++; at < p->subject_end; at++) {
        step(p);
        if (*at == item[1]) {
            if (--depth == 0)
                return at + 1;
        } else if (*at == item[0]) {
            depth++;
        }
    }
    return NULL;
}

/* %f[set]: whether here a run of the set begins; item is at '['. */
static bool at_frontier(pattern *p, const char *at, const char *item, const char *after)
{
    unsigned char before = at == p->subject ? '\0' : (unsigned char)at[-1];
    unsigned char here = at == p->subject_end ? '\0' : (unsigned char)*at;
    return !in_set(p, before, item, after - 1) && in_set(p, here, item, after - 1);
}

/* %1 to %9: behind the same text as that capture's, or NULL. */
static const char *match_again(pattern *p, const char *at, char digit)
{
    int i = digit - '1';
    if (i < 0 || i >= p->n_captures || p->captures[i].size == PATTERN_OPEN)
        luaL_error(p->L, "invalid capture index %%%d", i + 1);
    size_t size = p->captures[i].size < 0 ? 0 : (size_t)p->captures[i].size;
    if (p->captures[i].size == PATTERN_POSITION || (size_t)(p->subject_end - at) < size)
        return NULL;
    sandbox_spend(p->L, size / 16);
    return memcmp(at, p->captures[i].at, size) == 0 ? at + size : NULL;
}

/* ------------------------------------------------------------- the matcher */

/* As many as fit, then fewer. */
static const char *match_most(pattern *p, const char *at, const char *item, const char *after)
{
    ptrdiff_t n = 0;
    while (fits(p, at + n, item, after))
        n++;
    for (; n >= 0; n--) {
        const char *end = match(p, at + n, after + 1);
        if (end)
            return end;
    }
    return NULL;
}

/* None, then more. */
static const char *match_least(pattern *p, const char *at, const char *item, const char *after)
{
    for (;; at++) {
        const char *end = match(p, at, after + 1);
        if (end)
            return end;
        if (!fits(p, at, item, after))
            return NULL;
    }
}

/* '%b', '%f' or '%1': where it ends in the subject, or NULL; *item moves behind it.
 * False: it is none of them. */
static bool match_escape(pattern *p, const char **at, const char **item)
{
    if (**item != '%' || *item + 1 == p->end)
        return false;
    char kind = (*item)[1];
    if (kind == 'b') {
        *at = match_balanced(p, *at, *item + 2);
        *item += 4;
    } else if (kind == 'f') {
        if (*item + 2 == p->end || (*item)[2] != '[')
            luaL_error(p->L, "missing '[' after '%%f' in pattern");
        const char *after = class_end(p, *item + 2);
        *at = at_frontier(p, *at, *item + 2, after) ? *at : NULL;
        *item = after;
    } else if (kind >= '0' && kind <= '9') {
        *at = match_again(p, *at, kind);
        *item += 2;
    } else {
        return false;
    }
    return true;
}

/* Items from here to the end of the pattern. */
static const char *match_items(pattern *p, const char *at, const char *item)
{
    while (item < p->end) {
        step(p);
        if (*item == '(' && item + 1 < p->end && item[1] == ')')
            return open_capture(p, at, item + 2, PATTERN_POSITION);
        if (*item == '(')
            return open_capture(p, at, item + 1, PATTERN_OPEN);
        if (*item == ')')
            return close_capture(p, at, item + 1);
        if (*item == '$' && item + 1 == p->end)
            return at == p->subject_end ? at : NULL;
        if (match_escape(p, &at, &item)) {
            if (!at)
                return NULL;
            continue;
        }
        const char *after = class_end(p, item);
        char suffix = after < p->end ? *after : '\0';
        if (suffix == '*')
            return match_most(p, at, item, after);
        if (suffix == '-')
            return match_least(p, at, item, after);
        bool one = fits(p, at, item, after);
        if (suffix == '+')
            return one ? match_most(p, at + 1, item, after) : NULL;
        if (suffix == '?') {
            const char *end = one ? match(p, at + 1, after + 1) : NULL;
            if (end)
                return end;
            item = after + 1;
            continue;
        }
        if (!one)
            return NULL;
        at++;
        item = after;
    }
    return at;
}

static const char *match(pattern *p, const char *at, const char *item)
{
    if (++p->depth > MAX_DEPTH)
        luaL_error(p->L, "pattern too complex");
    const char *end = match_items(p, at, item);
    p->depth--;
    return end;
}

const char *pattern_match(pattern *p, const char *at)
{
    p->n_captures = 0;
    p->depth = 0;
    return match(p, at, p->begin);
}

void pattern_push_capture(pattern *p, int i, const char *at, const char *end)
{
    if (i >= p->n_captures) {
        if (i != 0)
            luaL_error(p->L, "invalid capture index %%%d", i + 1);
        lua_pushlstring(p->L, at, (size_t)(end - at));
        return;
    }
    ptrdiff_t size = p->captures[i].size;
    if (size == PATTERN_OPEN)
        luaL_error(p->L, "unfinished capture");
    if (size == PATTERN_POSITION)
        lua_pushinteger(p->L, p->captures[i].at - p->subject + 1);
    else
        lua_pushlstring(p->L, p->captures[i].at, (size_t)size);
}

int pattern_push_captures(pattern *p, const char *at, const char *end)
{
    int n = p->n_captures ? p->n_captures : 1;
    luaL_checkstack(p->L, n, "too many captures");
    for (int i = 0; i < n; i++)
        pattern_push_capture(p, i, at, end);
    return n;
}
