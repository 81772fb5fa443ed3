/*
 * json_test.c - what is refused and where, what is mended, and quoting.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static cJSON *parse(const char *text)
{
    cJSON *value = NULL;
    pawl_error error;
    if (json_parse(text, strlen(text), &value, &error) != PAWL_OK)
        fail_msg("%s: %s", text, error.message);
    return value;
}

static void refused_bytes(const char *text, size_t size, const char *says)
{
    cJSON *value = NULL;
    pawl_error error = {.message = ""};
    if (json_parse(text, size, &value, &error) != PAWL_E_FORMAT || value)
        fail_msg("accepted: %.40s", text);
    if (!strstr(error.message, says))
        fail_msg("%.40s: '%s' does not say '%s'", text, error.message, says);
}

static void refused(const char *text, const char *says)
{
    refused_bytes(text, strlen(text), says);
}

static void accepts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "null",
        "true",
        " \r\n\t false\n",
        "-1.5e3",
        "\"\"",
        "[]",
        "{}",
        "[1,[2,{\"a\":[]}]]",
        "\"\\u00e4 \\ud83d\\ude00 \\\" \\\\ \\/ \\b\\f\\n\\r\\t\"",
        "\"\x7f\"",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cJSON_Delete(parse(texts[i]));
    cJSON *value = parse("\"\\ud83d\\ude00\"");
    assert_string_equal(value->valuestring, "\xF0\x9F\x98\x80");
    cJSON_Delete(value);
    value = NULL; /* the text need not end with a NUL */
    assert_int_equal(json_parse("12345", 3, &value, NULL), PAWL_OK);
    assert_true(value->valuedouble == 123);
    cJSON_Delete(value);
}

static void refuses_with_the_place(void **state)
{
    (void)state;
    refused("", "empty");
    refused("  ", "byte");
    refused("{", "byte");
    refused("[1,]", "byte");
    refused("{\"a\":1,}", "byte");
    refused("{'a':1}", "byte");
    refused("[1 2]", "byte 3");
    refused("nul", "byte");
    refused("NaN", "byte");
    refused("\"abc", "byte");
    refused("\"\\", "byte");
    refused("\"\\u12\"", "byte");
    refused("\"\\u12\" \"", "byte");
    refused("\"\\q\"", "byte");
    refused("\"a\nb\"", "byte 2: a control character");
    refused("\"a\tb\"", "control character");
    refused("1 2", "more text at byte 2");
    refused("{} x", "more text at byte 3");
    refused("{}{}", "more text at byte 2");
    refused_bytes("{}\0", 3, "NUL byte");
    refused_bytes("\"a\0b\"", 5, "byte 2: a NUL byte");
    refused_bytes("\0", 1, "NUL byte");
    refused("\"a\\u0000b\"", "byte 2: a NUL character");
    refused("\"\x80\"", "broken UTF-8 at byte 1");
    refused("\"ab\xED\xA0\x80\"", "broken UTF-8 at byte 3");
    refused("\"\xE2\x82\"", "broken UTF-8 at byte 1");
    refused("[\"\xF0\x9F\x98", "broken UTF-8 at byte 2");
}

/* n brackets around a number. */
static char *nested(size_t n, char open, char close)
{
    const char *inner = open == '{' ? "\"k\":" : "";
    buf text;
    buf_init(&text, 1 << 20);
    for (size_t i = 0; i < n; i++) {
        buf_add(&text, &open, 1);
        buf_add_text(&text, inner);
    }
    buf_add_text(&text, "1");
    for (size_t i = 0; i < n; i++)
        buf_add(&text, &close, 1);
    return buf_take(&text);
}

static void depth_is_bounded(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        char *text = nested(64, kind ? '{' : '[', kind ? '}' : ']');
        cJSON_Delete(parse(text));
        free(text);
        text = nested(65, kind ? '{' : '[', kind ? '}' : ']');
        refused(text, "deeper than 64");
        free(text);
        text = nested(100000, kind ? '{' : '[', kind ? '}' : ']');
        refused(text, "deeper than 64");
        free(text);
    }
    /* neither brackets in strings nor one after another are depth */
    char *text = nested(64, '[', ']');
    buf both;
    buf_init(&both, 1 << 20);
    buf_printf(&both, "{\"[[[[{{{{\\\"[[\":%s,\"b\":%s}", text + 1, text + 1);
    free(text);
    text = nested(60, '[', ']');
    buf_reset(&both);
    buf_printf(&both, "{\"[[[[{{{{\\\"[[[[\":%s,\"b\":%s}", text, text);
    cJSON_Delete(parse(buf_text(&both)));
    buf_clear(&both);
    free(text);
}

static void lone_surrogates_are_mended(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"\"\\ud800\"", "\xEF\xBF\xBD"},
        {"\"\\uDC00x\"", "\xEF\xBF\xBDx"},
        {"\"\\ud83d\"", "\xEF\xBF\xBD"},
        {"\"\\ud83d\\ud83d\\ude00\"", "\xEF\xBF\xBD\xF0\x9F\x98\x80"},
        {"\"\\ud83d\\n\"", "\xEF\xBF\xBD\n"},
        {"\"\\ude00\\ud83d\"", "\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\"\\\\ud800\"", "\\ud800"},
        {"\"\\\"\\udfff\\\"\"", "\"\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *value = parse(cases[i].in);
        assert_string_equal(value->valuestring, cases[i].out);
        cJSON_Delete(value);
    }
    cJSON *value = parse("{\"a\\udabc\":\"b\"}"); /* in names too */
    assert_string_equal(json_get_text(value, "a\xEF\xBF\xBD"), "b");
    cJSON_Delete(value);
    refused("[\"\\ud800\",]", "byte");
}

static void reads_members(void **state)
{
    (void)state;
    cJSON *value = parse("{\"t\":\"x\",\"n\":2.5,\"b\":true,\"z\":null,\"N\":1,\"huge\":1e999}");
    assert_string_equal(json_get_text(value, "t"), "x");
    assert_null(json_get_text(value, "n"));
    assert_null(json_get(value, "z"));
    assert_null(json_get(value, "T"));
    assert_null(json_get(NULL, "t"));
    assert_true(json_get_number(value, "n", 0) == 2.5);
    assert_true(json_get_number(value, "t", 7) == 7);
    assert_true(json_get_number(value, "huge", 7) == 7);
    assert_true(json_get_bool(value, "b", false));
    assert_true(json_get_bool(value, "n", true));
    assert_false(json_get_bool(value, "z", false));
    char *text = json_print(value);
    assert_non_null(strstr(text, "\"n\":2.5"));
    free(text);
    cJSON_Delete(value);
}

/* Whatever is quoted is one JSON string that means the same. */
static void quotes(void **state)
{
    (void)state;
    char all[512];
    size_t size = 0;
    for (char c = 1; c < 127; c++)
        all[size++] = c;
    memcpy(all + size, "\xC3\xA4\xE2\x80\xA8\xF0\x9F\x98\x80", 10);
    buf out;
    buf_init(&out, 10000);
    assert_true(json_add_quoted(&out, json_text(all)));
    cJSON *value = parse(buf_text(&out));
    assert_string_equal(value->valuestring, all);
    cJSON_Delete(value);

    buf_reset(&out);
    assert_true(json_add_quoted(&out, (pawl_bytes){"a\0b\x1f", 4}));
    assert_string_equal(buf_text(&out), "\"a\\u0000b\\u001f\"");
    buf_reset(&out);
    assert_true(json_add_quoted(&out, (pawl_bytes){"x\xFFy\xE2\x82", 5}));
    assert_string_equal(buf_text(&out), "\"x\xEF\xBF\xBDy\xEF\xBF\xBD\"");
    buf_reset(&out);
    assert_true(json_add_quoted(&out, (pawl_bytes){NULL, 0}));
    assert_string_equal(buf_text(&out), "\"\"");
    buf_clear(&out);
    buf_init(&out, 4);
    assert_false(json_add_quoted(&out, json_text("abc")));
    assert_true(out.failed);
    buf_clear(&out);
}

static void adds_trees(void **state)
{
    (void)state;
    buf out;
    cJSON *value = parse("{\"a\": [1, \"\xC3\xA4\", null]}");
    buf_init(&out, 100);
    assert_true(json_add(&out, value));
    assert_string_equal(buf_text(&out), "{\"a\":[1,\"\xC3\xA4\",null]}");
    buf_clear(&out);
    buf_init(&out, 5);
    assert_false(json_add(&out, value));
    assert_true(out.failed);
    buf_clear(&out);
    cJSON_Delete(value);
}

/* An escaped NUL survives where the caller can hold it, and only there. */
static void nuls_kept(void **state)
{
    (void)state;
    static const char text[] = "[\"a\\u0000b\\ud83d\\u0000\", \"\\\\u0000\"]";
    cJSON *value = NULL;
    buf out;
    buf_init(&out, 100);
    assert_int_equal(json_parse(text, strlen(text), &value, NULL), PAWL_E_FORMAT);
    assert_int_equal(json_parse_with_nuls(text, strlen(text), &value, NULL), PAWL_OK);
    json_add_with_nuls(&out, cJSON_GetArrayItem(value, 0)->valuestring);
    assert_int_equal(out.size, 7);
    assert_memory_equal(out.data, "a\0b\xEF\xBF\xBD\0", 7);
    assert_string_equal(cJSON_GetArrayItem(value, 1)->valuestring, "\\u0000");
    buf_clear(&out);
    cJSON_Delete(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nuls_kept),
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses_with_the_place),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(lone_surrogates_are_mended),
        cmocka_unit_test(reads_members),
        cmocka_unit_test(quotes),
        cmocka_unit_test(adds_trees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
