/*
 * chat/json.c - reads and prints JSON as text. See json.h.
 *
 * The walkers below need no bounds checks of their own beyond `size`: they are
 * given only texts that json_parse() has accepted. Runs on any thread, owns
 * nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/json.h"

#include "chat/json_scan.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t skip_space(struct json_view value, size_t at)
{
    while (at < value.size && is_space(value.data[at]))
        at++;
    return at;
}

/* Length of the UTF-8 character at s, of which `left` bytes exist; 0: none. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    size_t length = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (length == 0 || length > left || s[0] > 0xF4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

pawl_status json_parse(pawl_bytes text, const char *what, struct json_view *value,
                       pawl_error *error)
{
    struct json_scan scan;
    const unsigned char *s = (const unsigned char *)text.data;
    json_scan_init(&scan);
    for (size_t i = 0; i < text.size;) {
        size_t length = utf8_length(s + i, (size_t)text.size - i);
        if (length == 0)
            return pawl_fail(error, PAWL_E_ARGUMENT, "%s is not UTF-8 at byte %zu", what, i);
        for (size_t end = i + length; i < end; i++)
            if (json_scan_byte(&scan, s[i]) & JSON_BAD)
                return pawl_fail(error, PAWL_E_ARGUMENT, "%s is not JSON at byte %zu", what, i);
    }
    if (!json_scan_complete(&scan))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s ends inside a JSON value", what);
    struct json_view whole = {text.data, (size_t)text.size};
    size_t begin = skip_space(whole, 0);
    while (is_space(whole.data[whole.size - 1]))
        whole.size--;
    *value = (struct json_view){whole.data + begin, whole.size - begin};
    return PAWL_OK;
}

char json_kind(struct json_view value)
{
    if (value.size == 0)
        return '\0';
    char c = value.data[0];
    return c == '-' || (c >= '0' && c <= '9') ? '0' : c;
}

/* One past the string whose opening quote is at `at`. */
static size_t skip_string(struct json_view value, size_t at)
{
    for (at++; at < value.size && value.data[at] != '"'; at++)
        if (value.data[at] == '\\')
            at++;
    return at < value.size ? at + 1 : value.size;
}

/* One past the value that begins at `at`. */
static size_t skip_value(struct json_view value, size_t at)
{
    size_t depth = 0;
    if (at < value.size && !strchr("{[\"", value.data[at])) { /* number or literal */
        while (at < value.size && !is_space(value.data[at]) && !strchr(",]}", value.data[at]))
            at++;
        return at;
    }
    while (at < value.size) {
        char c = value.data[at];
        if (c == '"')
            at = skip_string(value, at);
        else
            at++;
        if (c == '{' || c == '[')
            depth++;
        else if (c == '}' || c == ']')
            depth--;
        if (depth == 0)
            break;
    }
    return at;
}

bool json_next(struct json_view array, size_t *at, struct json_view *element)
{
    if (json_kind(array) != '[')
        return false;
    size_t begin = skip_space(array, *at ? *at : 1);
    if (begin < array.size && array.data[begin] == ',')
        begin = skip_space(array, begin + 1);
    if (begin >= array.size || array.data[begin] == ']')
        return false;
    *at = skip_value(array, begin);
    *element = (struct json_view){array.data + begin, *at - begin};
    return true;
}

struct json_view json_member(struct json_view object, const char *key)
{
    struct json_view found = {NULL, 0};
    size_t key_size = strlen(key);
    if (json_kind(object) != '{')
        return found;
    size_t at = skip_space(object, 1);
    while (at < object.size && object.data[at] == '"') {
        size_t name = at + 1;
        at = skip_string(object, at);
        size_t name_size = at - 1 - name;
        at = skip_space(object, at);
        at = skip_space(object, at + 1); /* the colon */
        size_t end = skip_value(object, at);
        if (name_size == key_size && memcmp(object.data + name, key, key_size) == 0)
            found = (struct json_view){object.data + at, end - at};
        at = skip_space(object, end);
        if (at < object.size && object.data[at] == ',')
            at = skip_space(object, at + 1);
    }
    return found;
}

bool json_is(struct json_view value, const char *string)
{
    size_t size = strlen(string);
    return json_kind(value) == '"' && value.size == size + 2 &&
           memcmp(value.data + 1, string, size) == 0;
}

static unsigned hex4(const char *s)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned c = (unsigned char)s[i];
        value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
}

static void add_utf8(struct text *to, unsigned code)
{
    if (code < 0x80) {
        text_add_byte(to, (char)code);
    } else if (code < 0x800) {
        text_add_byte(to, (char)(0xC0 | code >> 6));
        text_add_byte(to, (char)(0x80 | (code & 0x3F)));
    } else if (code < 0x10000) {
        text_add_byte(to, (char)(0xE0 | code >> 12));
        text_add_byte(to, (char)(0x80 | (code >> 6 & 0x3F)));
        text_add_byte(to, (char)(0x80 | (code & 0x3F)));
    } else {
        text_add_byte(to, (char)(0xF0 | code >> 18));
        text_add_byte(to, (char)(0x80 | (code >> 12 & 0x3F)));
        text_add_byte(to, (char)(0x80 | (code >> 6 & 0x3F)));
        text_add_byte(to, (char)(0x80 | (code & 0x3F)));
    }
}

/* Decodes the \uXXXX at s, which ends before `end`; returns the bytes it used.
 * Half a surrogate pair has no UTF-8 and becomes U+FFFD. */
static size_t decode_unicode(const char *s, const char *end, struct text *to)
{
    unsigned code = hex4(s + 2);
    size_t used = 6;
    if (code >= 0xD800 && code < 0xDC00 && end - s >= 12 && s[6] == '\\' && s[7] == 'u') {
        unsigned low = hex4(s + 8);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            used = 12;
        }
    }
    add_utf8(to, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
    return used;
}

void json_decode(struct json_view string, struct text *to)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    if (json_kind(string) != '"')
        return;
    const char *s = string.data + 1, *end = string.data + string.size - 1;
    while (s < end) {
        const char *stop = memchr(s, '\\', (size_t)(end - s));
        text_add(to, s, (size_t)((stop ? stop : end) - s));
        if (!stop)
            break;
        if (stop[1] == 'u') {
            s = stop + decode_unicode(stop, end, to);
        } else {
            text_add_byte(to, meant[strchr(escapes, stop[1]) - escapes]);
            s = stop + 2;
        }
    }
}

void json_escape(struct text *to, const char *data, size_t size)
{
    static const char codes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    size_t begin = 0;
    if (size == 0)
        return;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        text_add(to, data + begin, i - begin);
        begin = i + 1;
        const char *code = c ? strchr(codes, c) : NULL;
        text_add_byte(to, '\\');
        if (code) {
            text_add_byte(to, letters[code - codes]);
        } else {
            text_add_string(to, "u00");
            text_add_byte(to, (char)('0' + (c >> 4)));
            text_add_byte(to, "0123456789abcdef"[c & 15]);
        }
    }
    text_add(to, data + begin, size - begin);
}

static void dump_string(struct json_view string, struct text *to)
{
    struct text plain;
    text_init(&plain, string.size);
    json_decode(string, &plain);
    text_add_byte(to, '"');
    json_escape(to, plain.data, plain.size);
    text_add_byte(to, '"');
    if (plain.status != PAWL_OK)
        to->status = plain.status;
    text_clear(&plain);
}

void json_dump(struct json_view value, struct text *to)
{
    for (size_t at = 0; at < value.size;) {
        char c = value.data[at];
        if (c == '"') {
            size_t end = skip_string(value, at);
            dump_string((struct json_view){value.data + at, end - at}, to);
            at = end;
            continue;
        }
        if (!is_space(c))
            text_add_byte(to, c);
        if (c == ',' || c == ':')
            text_add_byte(to, ' ');
        at++;
    }
}
