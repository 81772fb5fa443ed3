/*
 * script/html.c - the text of an HTML page. See html.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/html.h"

#include "script/html_names.h"

#include <string.h>
#include <strings.h>

#define MAX_TAG_NAME 16

typedef struct reader {
    const char *at, *end;
    buf *out;
    int newlines;  /* that stand before the next word; they are written with it */
    bool space;    /* so does a space                                           */
    bool begun;    /* a word was written                                        */
    int preformed; /* how many <pre> are open                                   */
} reader;

/* ------------------------------------------------------------- writing */

static void before_word(reader *r)
{
    if (r->begun && r->newlines > 0)
        buf_add(r->out, "\n\n", r->newlines > 1 ? 2 : 1);
    else if (r->begun && r->space)
        buf_add(r->out, " ", 1);
    r->newlines = 0;
    r->space = false;
    r->begun = true;
}

static void add_bytes(reader *r, const char *bytes, size_t size)
{
    before_word(r);
    buf_add(r->out, bytes, size);
}

static void end_line(reader *r, int newlines)
{
    if (newlines > r->newlines)
        r->newlines = newlines;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* One character of text that is no reference. */
static void add_plain(reader *r, char c)
{
    if (!is_space(c))
        add_bytes(r, &c, 1);
    else if (!r->preformed)
        r->space = true;
    else if (c == '\n')
        end_line(r, r->newlines + 1 > 2 ? 2 : r->newlines + 1);
    else
        r->space = true;
}

/* ------------------------------------------------------------- references */

static void add_code_point(reader *r, uint32_t c)
{
    char bytes[4];
    size_t n = 1;
    if (c >= 0x80 && c < 0xA0) /* what Windows-1252 means by it, as browsers do */
        c = html_windows_1252[c - 0x80];
    if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        c = 0xFFFD;
    if (c == 0xA0 || (c < 0x80 && is_space((char)c))) {
        r->space = true;
        return;
    }
    if (c < ' ' || c == 0x7F || c == 0xAD) /* 0xAD: where a word may be broken */
        return;
    if (c < 0x80) {
        bytes[0] = (char)c;
    } else if (c < 0x800) {
        bytes[0] = (char)(0xC0 | c >> 6);
        n = 2;
    } else if (c < 0x10000) {
        bytes[0] = (char)(0xE0 | c >> 12);
        n = 3;
    } else {
        bytes[0] = (char)(0xF0 | c >> 18);
        n = 4;
    }
    for (size_t i = 1; i < n; i++)
        bytes[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3F));
    add_bytes(r, bytes, n);
}

static int digit_of(char c, int base)
{
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    return digit < base ? digit : -1;
}

/* &#N; or &#xN;, with or without the ';'. False: it is none. */
static bool read_number(reader *r)
{
    const char *at = r->at + 2;
    int base = 10;
    uint32_t value = 0;
    if (at < r->end && (*at == 'x' || *at == 'X')) {
        base = 16;
        at++;
    }
    const char *first = at;
    for (int digit; at < r->end && (digit = digit_of(*at, base)) >= 0; at++)
        if (value <= 0x10FFFF)
            value = value * (uint32_t)base + (uint32_t)digit;
    if (at == first)
        return false;
    r->at = at + (at < r->end && *at == ';');
    add_code_point(r, value);
    return true;
}

static bool read_name(reader *r)
{
    const char *name = r->at + 1, *at = name;
    while (at < r->end && at - name < HTML_MAX_NAME && digit_of(*at, 10) < 0 &&
           ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z')))
        at++;
    while (at < r->end && at - name < HTML_MAX_NAME && digit_of(*at, 10) >= 0)
        at++;
    uint32_t c = html_named(name, (size_t)(at - name));
    if (!c || at == r->end || *at != ';')
        return false;
    r->at = at + 1;
    add_code_point(r, c);
    return true;
}

static void read_reference(reader *r)
{
    bool number = r->end - r->at > 2 && r->at[1] == '#';
    if (number ? read_number(r) : read_name(r))
        return;
    add_plain(r, *r->at++);
}

/* ------------------------------------------------------------- tags */

/* The end of a tag, behind its '>', which quotes may hide. */
static const char *tag_end(const char *at, const char *end)
{
    char quote = 0, last = 0; /* last: before it, spaces left out */
    for (; at < end; at++) {
        if (quote)
            quote = *at == quote ? 0 : quote;
        else if (*at == '>')
            return at + 1;
        else if ((*at == '"' || *at == '\'') && last == '=')
            quote = *at;
        if (!is_space(*at))
            last = *at;
    }
    return end;
}

static const char *behind(const char *at, const char *end, const char *what)
{
    const char *found = at < end ? memmem(at, (size_t)(end - at), what, strlen(what)) : NULL;
    return found ? found + strlen(what) : end;
}

/* The end of an element whose content is no markup: behind its </name>. */
static const char *element_end(const char *at, const char *end, const char *name)
{
    size_t size = strlen(name);
    while (at < end) {
        const char *found = memmem(at, (size_t)(end - at), "</", 2);
        if (!found)
            return end;
        at = found + 2;
        if ((size_t)(end - at) >= size && strncasecmp(at, name, size) == 0)
            return tag_end(at, end);
    }
    return end;
}

static void begin_item(reader *r)
{
    add_bytes(r, "-", 1);
    r->space = true;
}

static void obey_tag(reader *r, const char *name, bool closes)
{
    static const char *const left_out[] = {"script", "style", "noscript", "template",
                                           "svg",    "math",  "iframe",   "object"};
    enum html_effect effect = html_effect_of(name);
    if (effect == HTML_LINE)
        end_line(r, 1);
    else if (effect == HTML_BLOCK)
        end_line(r, 2);
    else if (effect == HTML_CELL)
        r->space = true;
    if (strcmp(name, "pre") == 0)
        r->preformed = closes ? 0 : 1;
    else if (strcmp(name, "li") == 0 && !closes)
        begin_item(r);
    for (size_t i = 0; !closes && i < sizeof left_out / sizeof left_out[0]; i++)
        if (strcmp(name, left_out[i]) == 0)
            r->at = element_end(r->at, r->end, name);
}

/* At a '<'. */
static void read_tag(reader *r)
{
    char name[MAX_TAG_NAME + 1];
    size_t n = 0;
    const char *at = r->at + 1;
    bool closes = at < r->end && *at == '/';
    at += closes;
    if (r->end - at >= 3 && memcmp(at, "!--", 3) == 0) {
        r->at = behind(at + 3, r->end, "-->");
        return;
    }
    if (r->end - at >= 8 && memcmp(at, "![CDATA[", 8) == 0) {
        r->at = behind(at + 8, r->end, "]]>");
        return;
    }
    if (at < r->end && (*at == '!' || *at == '?')) {
        r->at = tag_end(at, r->end);
        return;
    }
    for (; at < r->end && n < MAX_TAG_NAME; at++, n++) {
        char c = *at >= 'A' && *at <= 'Z' ? (char)(*at | 0x20) : *at;
        if (!((c >= 'a' && c <= 'z') || (n > 0 && c >= '0' && c <= '9')))
            break;
        name[n] = c;
    }
    name[n] = '\0';
    if (n == 0) { /* a '<' that is text */
        add_plain(r, *r->at++);
        return;
    }
    r->at = tag_end(at, r->end);
    obey_tag(r, name, closes);
}

bool html_to_text(const char *page, size_t size, buf *out)
{
    reader r = {.at = page, .end = page + size, .out = out};
    while (r.at < r.end && !out->failed) {
        if (*r.at == '<')
            read_tag(&r);
        else if (*r.at == '&')
            read_reference(&r);
        else
            add_plain(&r, *r.at++);
    }
    if (r.begun)
        buf_add(out, "\n", 1);
    return !out->failed;
}
