/*
 * base/json.c - JSON from outside in, JSON for outside out. See json.h.
 *
 * json_parse() first walks the text once: it checks UTF-8, depth and NULs, and
 * looks for escapes that cJSON refuses; only a text that has some is copied.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/json.h"

#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUL_STAND_IN "\xC0\x80" /* overlong: occurs in no UTF-8 */

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
    bool keep_nuls;      /* in: an escaped NUL is no fault                       */
    const char *instead; /* what the latest escape must be written as, or NULL   */
    bool mend;           /* some escape must be, before cJSON sees the text      */
    const char *fault;   /* reason for refusal, or NULL                          */
    size_t at;           /* its offset                                           */
} walk_result;

/* One escape at text[i] == '\\' inside a string: its length. */
static size_t walk_escape(const char *at, const char *end, walk_result *result)
{
    result->instead = NULL;
    if (end - at < 2 || at[1] != 'u')
        return 2;
    int unit = hex4(at + 2, end);
    if (unit == 0 && !result->keep_nuls)
        result->fault = "a NUL character (\\u0000), which is not accepted in strings";
    if (unit == 0) {
        result->instead = NUL_STAND_IN;
        result->mend = true;
    }
    if (unit < 0xD800 || unit > 0xDFFF)
        return 6;
    if (unit < 0xDC00 && end - at >= 8 && at[6] == '\\' && at[7] == 'u') {
        int low = hex4(at + 8, end);
        if (low >= 0xDC00 && low <= 0xDFFF)
            return 12;
    }
    result->instead = "\\uFFFD";
    result->mend = true;
    return 6;
}

static walk_result walk(const char *data, size_t size, bool keep_nuls)
{
    walk_result result = {.keep_nuls = keep_nuls};
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

/* Appends the text with its escapes mended. */
static void mend(const char *data, size_t size, buf *out)
{
    const char *end = data + size, *kept = data;
    bool in_string = false;
    for (const char *at = data; at < end;) {
        walk_result found = {.keep_nuls = true};
        size_t step = 1;
        if (*at == '"')
            in_string = !in_string;
        if (in_string && *at == '\\')
            step = walk_escape(at, end, &found);
        if (step > (size_t)(end - at))
            break;
        if (found.instead) {
            buf_add(out, kept, (size_t)(at - kept));
            buf_add_text(out, found.instead);
            kept = at + step;
        }
        at += step;
    }
    buf_add(out, kept, (size_t)(end - kept));
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

static pawl_status parse(const char *data, size_t size, bool keep_nuls, cJSON **value,
                         pawl_error *error)
{
    if (size == 0)
        return pawl_fail(error, PAWL_E_FORMAT, "invalid JSON: the text is empty");
    size_t valid = utf8_valid_prefix(data, size);
    if (valid != size)
        return pawl_fail(error, PAWL_E_FORMAT, "invalid JSON: broken UTF-8 at byte %zu", valid);
    walk_result found = walk(data, size, keep_nuls);
    if (found.fault)
        return pawl_fail(error, PAWL_E_FORMAT, "invalid JSON at byte %zu: %s", found.at,
                         found.fault);
    if (!found.mend)
        return parse_checked(data, size, value, error);
    buf mended;
    buf_init(&mended, size);
    mend(data, size, &mended);
    pawl_status status = mended.failed ? pawl_fail(error, PAWL_E_MEMORY,
                                                   "no memory for a JSON text of %zu bytes", size)
                                       : parse_checked(mended.data, mended.size, value, error);
    buf_clear(&mended);
    return status;
}

pawl_status json_parse(const char *data, size_t size, cJSON **value, pawl_error *error)
{
    return parse(data, size, false, value, error);
}

pawl_status json_parse_with_nuls(const char *data, size_t size, cJSON **value, pawl_error *error)
{
    return parse(data, size, true, value, error);
}

void json_add_with_nuls(buf *out, const char *text)
{
    const char *nul;
    while ((nul = strstr(text, NUL_STAND_IN))) {
        buf_add(out, text, (size_t)(nul - text));
        buf_add(out, "", 1);
        text = nul + strlen(NUL_STAND_IN);
    }
    buf_add_text(out, text);
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
