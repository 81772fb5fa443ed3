/*
 * base/jsonc.c - JSON as people write it in files. See jsonc.h.
 *
 * One pass of recursive descent, as deep as JSONC_MAX_DEPTH.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/jsonc.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *at;
    const char *end;
    unsigned line;
    unsigned depth;
    unsigned members;   /* so far, of all arrays and objects */
    pawl_status status; /* the first failure */
    unsigned failed_at; /* its line          */
    pawl_error *error;
} reader;

static bool read_value(reader *r, jsonc *into);

/* Remembers the first failure; always false. */
static bool fail(reader *r, unsigned line, pawl_status status, const char *what)
{
    if (!r->status) {
        r->status = pawl_fail(r->error, status, "%s", what);
        r->failed_at = line;
    }
    return false;
}

static bool fail_here(reader *r, const char *what)
{
    return fail(r, r->line, PAWL_E_FORMAT, what);
}

static bool no_memory(reader *r)
{
    return fail(r, r->line, PAWL_E_MEMORY, "no memory for this file");
}

void jsonc_free(jsonc *value)
{
    while (value) {
        jsonc *next = value->next;
        jsonc_free(value->first);
        free(value->name);
        free(value->text);
        free(value);
        value = next;
    }
}

/* ----------------------------------------------------------------------- space ---- */

static bool comes(const reader *r, const char *text)
{
    size_t size = strlen(text);
    return (size_t)(r->end - r->at) >= size && memcmp(r->at, text, size) == 0;
}

static void advance(reader *r)
{
    if (*r->at++ == '\n')
        r->line++;
}

static bool skip_block(reader *r)
{
    unsigned begin = r->line;
    r->at += 2;
    while (r->at < r->end && !comes(r, "*/"))
        advance(r);
    if (r->at == r->end)
        return fail(r, begin, PAWL_E_FORMAT, "the comment that begins here has no end, */");
    r->at += 2;
    return true;
}

/* Blanks and comments. */
static bool skip(reader *r)
{
    for (;;) {
        while (r->at < r->end && strchr(" \t\r\n", *r->at) && *r->at)
            advance(r);
        if (comes(r, "/*")) {
            if (!skip_block(r))
                return false;
        } else if (comes(r, "//")) {
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        } else {
            return true;
        }
    }
}

/* --------------------------------------------------------------------- scalars ---- */

static bool read_hex(reader *r, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        char c = r->at < r->end ? *r->at++ : '\0';
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return fail_here(r, "\\u is followed by four hexadecimal digits");
        *code = *code * 16 + (unsigned)digit;
    }
    return true;
}

static void add_code(buf *out, unsigned code)
{
    char bytes[4];
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3F));
    bytes[0] = (char)(first[n] | code);
    buf_add(out, bytes, n);
}

/* After "\u". */
static bool read_code(reader *r, buf *out)
{
    unsigned code, low;
    if (!read_hex(r, &code))
        return false;
    if (code >= 0xD800 && code < 0xDC00 && comes(r, "\\u")) {
        r->at += 2;
        if (!read_hex(r, &low))
            return false;
        if (low >= 0xDC00 && low < 0xE000) {
            add_code(out, 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
            return true;
        }
    }
    if (code == 0 || (code >= 0xD800 && code < 0xE000))
        return fail_here(r, "a NUL or half a surrogate pair in a string");
    add_code(out, code);
    return true;
}

static bool read_escape(reader *r, buf *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : '\0';
    const char *known = c ? strchr(from, c) : NULL;
    if (known)
        return buf_add(out, &to[known - from], 1) || true;
    if (c == 'u')
        return read_code(r, out);
    return fail_here(r, "a backslash in a string is written twice: \\\\");
}

/* At a quote. *text is to be free()d. */
static bool read_string(reader *r, char **text)
{
    buf out;
    bool fine = true;
    buf_init(&out, JSONC_MAX_BYTES);
    buf_add_text(&out, "");
    r->at++;
    while (fine && r->at < r->end && *r->at != '"') {
        unsigned char c = (unsigned char)*r->at++;
        if (c == '\\')
            fine = read_escape(r, &out);
        else if (c < 0x20)
            fine = fail_here(r, "a string that does not end on its line; close it with \"");
        else
            buf_add(&out, r->at - 1, 1);
    }
    if (fine && r->at == r->end)
        fine = fail_here(r, "a string without an end; close it with \"");
    r->at += fine;
    *text = fine ? buf_take(&out) : NULL;
    buf_clear(&out);
    return *text || !fine ? fine : no_memory(r);
}

static size_t digits(const reader *r, const char *at)
{
    const char *begin = at;
    while (at < r->end && *at >= '0' && *at <= '9')
        at++;
    return (size_t)(at - begin);
}

static bool read_number(reader *r, jsonc *into)
{
    const char *at = r->at + (*r->at == '-');
    size_t whole = digits(r, at), more = 1;
    bool fine = whole == 1 || (whole > 1 && *at != '0');
    at += whole;
    if (at < r->end && *at == '.') {
        more = digits(r, at + 1);
        at += 1 + more;
        fine = fine && more;
    }
    if (at < r->end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < r->end && (*at == '+' || *at == '-');
        more = digits(r, at);
        at += more;
        fine = fine && more;
    }
    if (!fine || at - r->at > 64)
        return fail_here(r, "this is no number as JSON has them, like 8, -1.5 or 2e3");
    into->kind = JSONC_NUMBER;
    into->text = strndup(r->at, (size_t)(at - r->at));
    r->at = at;
    return into->text || no_memory(r);
}

static bool read_word(reader *r, jsonc *into)
{
    static const struct {
        const char *word;
        enum jsonc_kind kind;
        bool truth;
    } words[] = {{"true", JSONC_BOOL, true}, {"false", JSONC_BOOL, false}, {"null", JSONC_NULL, 0}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!comes(r, words[i].word))
            continue;
        r->at += strlen(words[i].word);
        into->kind = words[i].kind;
        into->truth = words[i].truth;
        return true;
    }
    return fail_here(r, "a value is expected: \"text\", a number, true, false, null, [ or {");
}

/* ----------------------------------------------------------------- collections ---- */

static bool read_name(reader *r, const jsonc *object, jsonc *member)
{
    if (*r->at != '"')
        return fail_here(r, "a name in quotes is expected, or }");
    if (!read_string(r, &member->name))
        return false;
    for (const jsonc *m = object->first; m; m = m->next)
        if (m != member && strcmp(m->name, member->name) == 0)
            return fail_here(r, "this name is in the object already");
    if (!skip(r))
        return false;
    if (r->at == r->end || *r->at != ':')
        return fail_here(r, "a : is expected after a name");
    r->at++;
    return skip(r);
}

/* After the opening bracket. */
static bool read_members(reader *r, jsonc *into, char close)
{
    jsonc **last = &into->first;
    unsigned begin = r->line;
    bool open = true; /* a member may follow */
    for (;;) {
        if (!skip(r))
            return false;
        if (r->at == r->end)
            return fail(r, begin, PAWL_E_FORMAT, "the [ or { that begins here is not closed");
        if (*r->at == close) {
            r->at++;
            return true;
        }
        if (!open)
            return fail_here(r, "a comma is missing before this, or a closing bracket");
        if (++r->members > JSONC_MAX_MEMBERS)
            return fail(r, r->line, PAWL_E_LIMIT, "there are too many values");
        jsonc *member = calloc(1, sizeof *member);
        if (!member)
            return no_memory(r);
        if (close == ']' || read_name(r, into, member))
            read_value(r, member);
        *last = member;
        last = &member->next;
        if (r->status || !skip(r))
            return false;
        open = r->at < r->end && *r->at == ',';
        r->at += open;
    }
}

static bool read_value(reader *r, jsonc *into)
{
    char c = r->at < r->end ? *r->at : '\0';
    into->line = r->line;
    if (c == '"') {
        into->kind = JSONC_STRING;
        return read_string(r, &into->text);
    }
    if (c == '-' || (c >= '0' && c <= '9'))
        return read_number(r, into);
    if (c != '[' && c != '{')
        return read_word(r, into);
    if (r->depth == JSONC_MAX_DEPTH)
        return fail_here(r, "this is nested too deeply");
    r->at++;
    r->depth++;
    into->kind = c == '[' ? JSONC_ARRAY : JSONC_OBJECT;
    bool fine = read_members(r, into, c == '[' ? ']' : '}');
    r->depth--;
    return fine;
}

pawl_status jsonc_parse(const char *data, size_t size, jsonc **value, unsigned *line,
                        pawl_error *error)
{
    reader r = {.at = data, .end = data + size, .line = 1, .error = error};
    *line = 1;
    if (size > JSONC_MAX_BYTES)
        return pawl_fail(error, PAWL_E_LIMIT, "it is larger than %u bytes", JSONC_MAX_BYTES);
    size_t valid = utf8_valid_prefix(data, size);
    if (valid < size) {
        for (size_t i = 0; i < valid; i++)
            *line += data[i] == '\n';
        return pawl_fail(error, PAWL_E_FORMAT, "this line is not UTF-8");
    }
    jsonc *root = calloc(1, sizeof *root);
    if (!root)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for this file");
    if (skip(&r) && read_value(&r, root) && skip(&r) && r.at < r.end)
        fail_here(&r, "nothing may follow the value");
    if (r.status) {
        jsonc_free(root);
        *line = r.failed_at;
        return r.status;
    }
    *value = root;
    return PAWL_OK;
}

/* ------------------------------------------------------------------- the tree ---- */

const jsonc *jsonc_get(const jsonc *object, const char *name)
{
    const jsonc *m = object && object->kind == JSONC_OBJECT ? object->first : NULL;
    while (m && strcmp(m->name, name) != 0)
        m = m->next;
    return m;
}

const char *jsonc_kind_name(enum jsonc_kind kind)
{
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "a list",        "an object"};
    return names[kind];
}

void jsonc_add(buf *out, const jsonc *value)
{
    bool object = value->kind == JSONC_OBJECT;
    switch (value->kind) {
    case JSONC_NULL:
        buf_add_text(out, "null");
        break;
    case JSONC_BOOL:
        buf_add_text(out, value->truth ? "true" : "false");
        break;
    case JSONC_NUMBER:
        buf_add_text(out, value->text);
        break;
    case JSONC_STRING:
        json_add_quoted(out, json_text(value->text));
        break;
    case JSONC_ARRAY:
    case JSONC_OBJECT:
        buf_add_text(out, object ? "{" : "[");
        for (const jsonc *m = value->first; m; m = m->next) {
            if (object) {
                json_add_quoted(out, json_text(m->name));
                buf_add_text(out, ":");
            }
            jsonc_add(out, m);
            buf_add_text(out, m->next ? "," : "");
        }
        buf_add_text(out, object ? "}" : "]");
        break;
    }
}
