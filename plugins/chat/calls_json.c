/*
 * chat/calls_json.c - converter for calls written as JSON.
 *
 *     {"name": "f", "arguments": {...}}      one call, or
 *     [{...}, {...}]                         any number of them
 *
 * The arguments go out as they come, byte for byte as the model wrote them: the
 * scanner knows at each byte whether the whole is still JSON and where the
 * object ends, so nothing has to be completed, compared or taken back. Accepted
 * beside the form above: "parameters" for "arguments", arguments before the
 * name (held until it is known), arguments as a string that holds a JSON object
 * (unwrapped), null or absent arguments (an empty object), other keys (skipped).
 *
 * Holds no state but the members of struct calls. Runs on the thread of the
 * parser's owner.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/calls.h"
#include "chat/dialect.h"
#include "chat/json.h"

#include <string.h>

enum call_key { KEY_OTHER, KEY_NAME, KEY_ARGUMENTS };

static void json_begin(struct calls *calls)
{
    json_scan_init(&calls->scan);
}

static void enter(struct calls *calls)
{
    calls_enter(calls);
    calls->key = KEY_OTHER;
    calls->form = 0;
    calls->named = calls->live = calls->complete = false;
}

static bool is_key(const struct calls *calls, size_t end, const char *key)
{
    size_t size = strlen(key);
    return end - calls->mark == size && memcmp(calls->raw.data + calls->mark, key, size) == 0;
}

/* A key of a call, which ends before raw[end]. Of equal ones the first counts. */
static void take_key(struct calls *calls, size_t end)
{
    calls->key = KEY_OTHER;
    if (is_key(calls, end, "name") && !calls->named)
        calls->key = KEY_NAME;
    else if ((is_key(calls, end, "arguments") || is_key(calls, end, "parameters")) && !calls->form)
        calls->key = KEY_ARGUMENTS;
}

/* A value begins with c, which will be raw[at]. False: it may not stand there. */
static bool begin_value(struct calls *calls, unsigned char c, size_t at)
{
    unsigned level = calls->scan.level;
    if (level == calls->base - 1u) { /* a call */
        if (c != '{')
            return false;
        enter(calls);
    }
    if (level != calls->base)
        return true;
    if (calls->key == KEY_NAME) {
        calls->mark = at;
        return c == '"';
    }
    if (calls->key == KEY_ARGUMENTS) {
        calls->form = c;
        calls->begin = at;
        calls->live = c == '{' && calls->named;
        return c == '{' || c == '"' || c == 'n';
    }
    return true;
}

/* Arguments that came as a string: an object inside it, or nothing. */
static bool unwrap(struct calls *calls)
{
    struct text inside;
    struct json_view value;
    bool good = true;
    struct json_view string = {calls->raw.data + calls->begin, calls->end - calls->begin};
    text_init(&inside, string.size);
    json_decode(string, &inside);
    if (inside.size == 0) {
        calls_delta(calls, "{}", 2);
    } else {
        pawl_bytes bytes = {inside.data, inside.size};
        good = json_parse(bytes, "arguments", &value, NULL) == PAWL_OK && json_kind(value) == '{';
        if (good)
            calls_delta(calls, value.data, value.size);
    }
    if (inside.status != PAWL_OK)
        calls->raw.status = inside.status;
    text_clear(&inside);
    return good;
}

/* Name and arguments are both there. */
static bool finish_arguments(struct calls *calls)
{
    if (calls->form == '"') {
        if (!unwrap(calls))
            return false;
    } else if (calls->form != '{') {
        calls_delta(calls, "{}", 2);
    } else if (!calls->live) {
        calls_delta(calls, calls->raw.data + calls->begin, calls->end - calls->begin);
    }
    calls_end(calls);
    return true;
}

static bool take_name(struct calls *calls)
{
    struct text name;
    struct json_view string = {calls->raw.data + calls->mark, calls->raw.size - calls->mark};
    text_init(&name, CALLS_NAME_MAX);
    json_decode(string, &name);
    bool good = name.size > 0 && name.status == PAWL_OK;
    if (good) {
        calls->named = true;
        calls_begin(calls, name.data, name.size);
    }
    if (name.status == PAWL_E_MEMORY)
        calls->raw.status = name.status;
    text_clear(&name);
    return good && (!calls->complete || finish_arguments(calls));
}

/* A value has ended with the last byte of raw. False: it makes the call bad. */
static bool end_value(struct calls *calls)
{
    unsigned level = calls->scan.level;
    if (level == calls->base - 1u) { /* the call */
        if (!calls->named)
            return false;
        if (!calls->ended && !finish_arguments(calls))
            return false;
        calls_leave(calls);
    }
    if (level != calls->base)
        return true;
    if (calls->key == KEY_NAME)
        return take_name(calls);
    if (calls->key == KEY_ARGUMENTS) {
        calls->complete = true;
        calls->end = calls->raw.size;
        return !calls->named || finish_arguments(calls);
    }
    return true;
}

static enum convert json_byte(struct calls *calls, unsigned char c)
{
    struct json_scan *scan = &calls->scan;
    if (calls->raw.size == calls->raw.limit)
        return CONVERT_BAD;
    if (!calls->started && c != '{' && c != '[') {
        if (!strchr(" \t\r\n", c) || c == '\0')
            return CONVERT_PROSE;
        text_add_byte(&calls->raw, (char)c);
        return CONVERT_MORE;
    }
    if (!calls->started)
        calls->base = c == '[' ? 2 : 1;
    calls->started = true;

    size_t at = calls->raw.size;
    unsigned events = json_scan_byte(scan, c);
    if (events & JSON_BAD)
        return CONVERT_BAD;
    if (events & JSON_VALUE_BEGIN && !(calls->base == 2 && scan->level == 0) &&
        !begin_value(calls, c, at))
        return CONVERT_BAD;
    text_add_byte(&calls->raw, (char)c);
    if (calls->raw.status != PAWL_OK)
        return CONVERT_MORE; /* the parser is about to fail */
    if (events & JSON_KEY_BEGIN && scan->level == calls->base)
        calls->mark = at + 1;
    if (calls->live && !calls->complete)
        calls_delta(calls, (const char *)&c, 1);
    if (events & JSON_KEY_END && scan->level == calls->base)
        take_key(calls, at);
    if (events & JSON_VALUE_END) {
        if (scan->level == 0 && calls->base == 2)
            return CONVERT_DONE;
        if (!end_value(calls)) {
            calls->raw.size = at; /* give the byte back */
            return CONVERT_BAD;
        }
        if (scan->level == 0)
            return CONVERT_DONE;
    }
    return CONVERT_MORE;
}

const struct converter convert_json = {json_begin, json_byte};
