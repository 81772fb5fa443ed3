/*
 * script/json_decode.c - JSON text to values of a script. See json.h.
 *
 * A parser of its own, because cJSON's tree would take many times the text's size in
 * memory that the script's budget does not see. Values are made on the Lua stack.
 * Refused: what RFC 8259 refuses, nesting over SCRIPT_JSON_DEPTH, broken UTF-8. A lone
 * surrogate becomes U+FFFD. Of two members with one name the last counts. Arrays are
 * marked as such, so that [] stays [].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/json_rules.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    lua_State *L;
    const char *begin;
    const char *at;
    const char *end;
    int depth;
    const char *fault; /* or NULL */
} reader;

static bool value(reader *r);

static bool fail(reader *r, const char *what)
{
    if (!r->fault)
        r->fault = what;
    return false;
}

static char peek(const reader *r)
{
    return r->at < r->end ? *r->at : '\0';
}

static void skip_space(reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
    if (r->at - from > 1024)
        sandbox_spend(r->L, (uint64_t)(r->at - from) / 16);
}

static bool word(reader *r, const char *text)
{
    size_t size = strlen(text);
    if ((size_t)(r->end - r->at) < size || memcmp(r->at, text, size) != 0)
        return fail(r, "no JSON value");
    r->at += size;
    return true;
}

/* ------------------------------------------------------------- numbers */

static bool digits(reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at > from || fail(r, "a digit is missing");
}

static bool number(reader *r)
{
    const char *from = r->at;
    char text[MAX_NUMBER + 1];
    bool whole = true;
    if (peek(r) == '-')
        r->at++;
    if (peek(r) == '0')
        r->at++;
    else if (!digits(r))
        return false;
    if (peek(r) == '.') {
        whole = false;
        r->at++;
        if (!digits(r))
            return false;
    }
    if (peek(r) == 'e' || peek(r) == 'E') {
        whole = false;
        r->at++;
        if (peek(r) == '+' || peek(r) == '-')
            r->at++;
        if (!digits(r))
            return false;
    }
    size_t size = (size_t)(r->at - from);
    if (size > MAX_NUMBER)
        return fail(r, "a number of more than 400 characters");
    memcpy(text, from, size);
    text[size] = '\0';
    if (whole && lua_stringtonumber(r->L, text)) {
        if (lua_isinteger(r->L, -1))
            return true;
        lua_pop(r->L, 1); /* too large: a float */
    }
    double real = strtod(text, NULL);
    if (real > MAX_REAL || real < -MAX_REAL)
        return fail(r, "a number that is too large");
    lua_pushnumber(r->L, real);
    return true;
}

/* ------------------------------------------------------------- strings */

static int hex4(const reader *r, const char *at)
{
    int sum = 0;
    if (r->end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        sum = sum * 16 + digit;
    }
    return sum;
}

static void add_utf8(luaL_Buffer *out, unsigned code)
{
    char bytes[4];
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3F));
    bytes[0] = (char)(lead[n] | code);
    luaL_addlstring(out, bytes, n);
}

/* Behind "\u". */
static bool unicode_escape(reader *r, luaL_Buffer *out)
{
    int unit = hex4(r, r->at);
    if (unit < 0)
        return fail(r, "an escape \\u without four hex digits");
    r->at += 4;
    unsigned code = (unsigned)unit;
    if (code >= 0xD800 && code < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' &&
        r->at[1] == 'u') {
        int low = hex4(r, r->at + 2);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + ((unsigned)low - 0xDC00);
            r->at += 6;
        }
    }
    add_utf8(out, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    return true;
}

static bool escape(reader *r, luaL_Buffer *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = peek(r);
    const char *known = c ? strchr(from, c) : NULL;
    r->at++;
    if (c == 'u')
        return unicode_escape(r, out);
    if (!known)
        return fail(r, "an unknown escape in a string");
    luaL_addchar(out, to[known - from]);
    return true;
}

/* At the opening quote. */
static bool string(reader *r)
{
    luaL_Buffer out;
    const char *from = ++r->at, *begun = from;
    luaL_buffinit(r->L, &out);
    for (;;) {
        while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (unsigned char)*r->at >= 0x20)
            r->at++;
        size_t size = (size_t)(r->at - from);
        if (utf8_valid_prefix(from, size) != size)
            return fail(r, "broken UTF-8 in a string");
        luaL_addlstring(&out, from, size);
        if (r->at == r->end)
            return fail(r, "a string without its end");
        if (*r->at == '"')
            break;
        if (*r->at != '\\')
            return fail(r, "a control character in a string; write it as an escape");
        r->at++;
        if (!escape(r, &out))
            return false;
        from = r->at;
    }
    r->at++;
    luaL_pushresult(&out);
    sandbox_spend(r->L, (uint64_t)(r->at - begun) / 16);
    return true;
}

/* ------------------------------------------------------------- arrays, objects */

static bool array(reader *r)
{
    lua_newtable(r->L);
    json_mark_array(r->L);
    r->at++;
    skip_space(r);
    if (peek(r) == ']') {
        r->at++;
        return true;
    }
    for (lua_Integer i = 1;; i++) {
        if (!value(r))
            return false;
        lua_rawseti(r->L, -2, i);
        char c = peek(r);
        if (c != ',' && c != ']')
            return fail(r, "',' or ']' is missing in an array");
        r->at++;
        if (c == ']')
            return true;
    }
}

static bool object(reader *r)
{
    lua_newtable(r->L);
    r->at++;
    skip_space(r);
    if (peek(r) == '}') {
        r->at++;
        return true;
    }
    for (;;) {
        skip_space(r);
        if (peek(r) != '"')
            return fail(r, "the name of a member is missing in an object");
        if (!string(r))
            return false;
        skip_space(r);
        if (peek(r) != ':')
            return fail(r, "':' is missing in an object");
        r->at++;
        if (!value(r))
            return false;
        lua_rawset(r->L, -3);
        char c = peek(r);
        if (c != ',' && c != '}')
            return fail(r, "',' or '}' is missing in an object");
        r->at++;
        if (c == '}')
            return true;
    }
}

/* Pushes one value; white space around it is skipped. */
static bool one_value(reader *r)
{
    switch (peek(r)) {
    case '{':
        return object(r);
    case '[':
        return array(r);
    case '"':
        return string(r);
    case 't':
        lua_pushboolean(r->L, 1);
        return word(r, "true");
    case 'f':
        lua_pushboolean(r->L, 0);
        return word(r, "false");
    case 'n':
        json_push_null(r->L);
        return word(r, "null");
    case '-':
        return number(r);
    default:
        if (peek(r) >= '0' && peek(r) <= '9')
            return number(r);
        return fail(r, r->at == r->end ? "the text ends too soon" : "no JSON value");
    }
}

static bool value(reader *r)
{
    if (++r->depth > SCRIPT_JSON_DEPTH)
        return fail(r, "nesting deeper than 64 levels");
    luaL_checkstack(r->L, 8, "JSON");
    sandbox_spend(r->L, 2);
    skip_space(r);
    if (!one_value(r))
        return false;
    skip_space(r);
    r->depth--;
    return true;
}

bool json_push_decoded(lua_State *L, const char *text, size_t size)
{
    reader r = {.L = L, .begin = text, .at = text, .end = text + size};
    int top = lua_gettop(L);
    if (value(&r)) {
        if (r.at == r.end)
            return true;
        fail(&r, "more text after the end of the value");
    }
    lua_settop(L, top);
    lua_pushfstring(L, "invalid JSON at byte %d of %d: %s", (int)(r.at - r.begin), (int)size,
                    r.fault);
    return false;
}
