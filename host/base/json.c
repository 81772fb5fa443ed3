/*
 * base/json.c - JSON from outside in, JSON for outside out. See json.h.
 *
 * json_parse() first walks the text once: it checks UTF-8, depth and NULs, and
 * looks for lone surrogate escapes; only a text that has some is copied.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/json.h"

#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The four hex digits after "\u" as a number, or -1. */
static int hex4(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* What walk() found out. */
typedef struct walk_result {
    bool lone_surrogates; /* the text must be mended before cJSON sees it */
    const char *fault;    /* reason for refusal, or NULL                  */
    size_t at;            /* its offset                                   */
} walk_result;

/* One escape at text[i] == '\\' inside a string: its length. */
static size_t walk_escape(const char *at, const char *end, walk_result *result)
{
    if (end - at < 2 || at[1] != 'u')
        return 2;
    int unit = hex4(at + 2, end);
    if (unit == 0) {
        result->fault = "a NUL character (\\u0000), which is not accepted in strings";
        return 6;
    }
    if (unit < 0xD800 || unit > 0xDFFF)
        return 6;
    if (unit < 0xDC00 && end - at >= 8 && at[6] == '\\' && at[7] == 'u') {
        int low = hex4(at + 8, end);
        if (low >= 0xDC00 && low <= 0xDFFF)
            return 12;
    }
    result->lone_surrogates = true;
    return 6;
}

static walk_result walk(const char *data, size_t size)
{
    walk_result result = {false, NULL, 0};
    const char *end = data + size;
    bool in_string = false;
    unsigned depth = 0;
    for (const char *at = data; at < end;) {
        result.at = (size_t)(at - data);
        char c = *at;
        size_t step = 1;
        if (c == '\0') {
            result.fault = "a NUL byte";
        } else if (in_string) {
            if (c == '\\')
                step = walk_escape(at, end, &result);
            else if ((unsigned char)c < 0x20)
                result.fault = "a control character inside a string; write it as an escape";
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > JSON_MAX_DEPTH)
                result.fault = "nesting deeper than 64 levels";
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
        if (result.fault)
            return result;
        if (step > (size_t)(end - at))
            break;
        at += step;
    }
    return result;
}

/* A copy in which each lone surrogate escape is the escape of U+FFFD: same length. */
static char *mend_surrogates(const char *data, size_t size)
{
    char *copy = malloc(size + 1);
    if (!copy)
        return NULL;
    memcpy(copy, data, size);
    copy[size] = '\0';
    char *end = copy + size;
    bool in_string = false;
    for (char *at = copy; at < end;) {
        size_t step = 1;
        if (*at == '"')
            in_string = !in_string;
        if (in_string && *at == '\\') {
            walk_result found = {false, NULL, 0};
            step = walk_escape(at, end, &found);
            if (found.lone_surrogates)
                memcpy(at + 2, "FFFD", 4);
        }
        if (step > (size_t)(end - at))
            break;
        at += step;
    }
    return copy;
}

static pawl_status parse_checked(const char *data, size_t size, cJSON **value, pawl_error *error)
{
    const char *stop = NULL;
    cJSON *parsed = cJSON_ParseWithLengthOpts(data, size, &stop, false);
    size_t at = stop ? (size_t)(stop - data) : 0;
    if (!parsed)
        return pawl_fail(error, PAWL_E_FORMAT, "invalid JSON at byte %zu of %zu", at, size);
    while (at < size && strchr(" \t\r\n", data[at]) && data[at])
        at++;
    if (at != size) {
        cJSON_Delete(parsed);
        return pawl_fail(error, PAWL_E_FORMAT,
                         "invalid JSON: more text at byte %zu after the end of the value", at);
    }
    *value = parsed;
    return PAWL_OK;
}

pawl_status json_parse(const char *data, size_t size, cJSON **value, pawl_error *error)
{
    if (size == 0)
        return pawl_fail(error, PAWL_E_FORMAT, "invalid JSON: the text is empty");
    size_t valid = utf8_valid_prefix(data, size);
    if (valid != size)
        return pawl_fail(error, PAWL_E_FORMAT, "invalid JSON: broken UTF-8 at byte %zu", valid);
    walk_result found = walk(data, size);
    if (found.fault)
        return pawl_fail(error, PAWL_E_FORMAT, "invalid JSON at byte %zu: %s", found.at,
                         found.fault);
    if (!found.lone_surrogates)
        return parse_checked(data, size, value, error);
    char *mended = mend_surrogates(data, size);
    if (!mended)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a JSON text of %zu bytes", size);
    pawl_status status = parse_checked(mended, size, value, error);
    free(mended);
    return status;
}

char *json_print(const cJSON *value)
{
    return cJSON_PrintUnformatted(value);
}

bool json_add(buf *out, const cJSON *value)
{
    char *text = json_print(value);
    bool ok = text && buf_add_text(out, text);
    if (!text)
        out->failed = true;
    free(text);
    return ok;
}

static void add_escaped(buf *out, const char *text, size_t size)
{
    static const char hex[] = "0123456789abcdef";
    size_t plain = 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        buf_add(out, text + plain, i - plain);
        plain = i + 1;
        const char *known = c ? strchr("\"\"\\\\\bb\ff\nn\rr\tt", c) : NULL;
        char escape[7] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15], '\0'};
        if (known) { /* pairs of character and letter; equal ones stand for themselves */
            escape[1] = known[1];
            escape[2] = '\0';
        }
        buf_add_text(out, escape);
    }
    buf_add(out, text + plain, size - plain);
}

bool json_add_quoted(buf *out, pawl_bytes text)
{
    buf_add(out, "\"", 1);
    if (text.size == 0) {
        /* data may be NULL */
    } else if (utf8_valid_prefix(text.data, (size_t)text.size) == text.size) {
        add_escaped(out, text.data, (size_t)text.size);
    } else {
        buf clean;
        utf8_tail tail = {{0}, 0};
        buf_init(&clean, (size_t)text.size * 3);
        utf8_feed(&tail, text.data, (size_t)text.size, &clean);
        utf8_finish(&tail, &clean);
        add_escaped(out, buf_text(&clean), clean.size);
        out->failed = out->failed || clean.failed;
        buf_clear(&clean);
    }
    return buf_add(out, "\"", 1);
}

const cJSON *json_get(const cJSON *object, const char *name)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    return member && !cJSON_IsNull(member) ? member : NULL;
}

const char *json_get_text(const cJSON *object, const char *name)
{
    return cJSON_GetStringValue(json_get(object, name));
}

double json_get_number(const cJSON *object, const char *name, double fallback)
{
    const cJSON *member = json_get(object, name);
    return cJSON_IsNumber(member) && isfinite(member->valuedouble) ? member->valuedouble : fallback;
}

bool json_get_bool(const cJSON *object, const char *name, bool fallback)
{
    const cJSON *member = json_get(object, name);
    return cJSON_IsBool(member) ? cJSON_IsTrue(member) : fallback;
}

pawl_bytes json_text(const char *text)
{
    return (pawl_bytes){text, strlen(text)};
}
