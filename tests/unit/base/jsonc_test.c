/*
 * jsonc_test.c - comments, commas and lines; what is refused, and where.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/jsonc.h"

static void plain_of(const char *text, const char *plain)
{
    jsonc *value = NULL;
    unsigned line = 0;
    pawl_error error = {.struct_size = sizeof error};
    buf out;
    buf_init(&out, 1 << 16);
    if (jsonc_parse(text, strlen(text), &value, &line, &error))
        fail_msg("%s: line %u: %s", text, line, error.message);
    jsonc_add(&out, value);
    assert_string_equal(buf_text(&out), plain);
    buf_clear(&out);
    jsonc_free(value);
}

static void accepts_what_people_write(void **state)
{
    (void)state;
    plain_of("1", "1");
    plain_of(" // first\n/**/ { /* a */ \"a\" /* : */ : [1, 2.50 , -3e+2, ], // \n } // end",
             "{\"a\":[1,2.50,-3e+2]}");
    plain_of("{\"a\": {\"b\": 1,},}\n/* * / ** */", "{\"a\":{\"b\":1}}");
}

static void plain_json(void **state)
{
    (void)state;
    plain_of("null", "null");
    plain_of("[]", "[]");
    plain_of("{ }", "{}");
    plain_of("[true,false,null,0,-0.5,1E5]", "[true,false,null,0,-0.5,1E5]");
    plain_of("{\"a\":{\"b\":[{}]},\"\":\"\"}", "{\"a\":{\"b\":[{}]},\"\":\"\"}");
    plain_of("\"// no /* comment */\"", "\"// no /* comment */\"");
    plain_of("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\"",
             "\"\\\"\\\\/\\b\\f\\n\\r\\t\xC3\xA9\xF0\x9F\x98\x80\"");
}

static const struct refused {
    const char *text;
    unsigned line;
    const char *reason; /* occurs in the message */
} refused[] = {
    {"", 1, "a value is expected"},
    {"\n\n ,", 3, "a value is expected"},
    {"{\"a\" 1}", 1, "a : is expected"},
    {"{\"a\": 1 \"b\": 2}", 1, "a comma is missing"},
    {"{\n\"a\": 1,\n\"a\": 2}", 3, "in the object already"},
    {"{a: 1}", 1, "a name in quotes"},
    {"[1 2]", 1, "a comma is missing"},
    {"[,]", 1, "a value is expected"},
    {"[1,,]", 1, "a value is expected"},
    {"\n[\n1", 2, "not closed"},
    {"{\"a\":", 1, "a value is expected"},
    {"[1}", 1, "a comma is missing"},
    {"1 2", 1, "nothing may follow"},
    {"\n/* x\n", 2, "no end, */"},
    {"/", 1, "a value is expected"},
    {"\"a\nb\"", 1, "does not end on its line"},
    {"\"a", 1, "without an end"},
    {"\"\\x\"", 1, "a backslash"},
    {"\"\\", 1, "a backslash"},
    {"\"\\u12\"", 1, "four hexadecimal"},
    {"\"\\u0000\"", 1, "NUL"},
    {"\"\\ud800\"", 1, "surrogate"},
    {"\"\\udc00\"", 1, "surrogate"},
    {"\"\\ud800\\u0041\"", 1, "surrogate"},
    {"01", 1, "no number"},
    {"-", 1, "no number"},
    {"1.", 1, "no number"},
    {".5", 1, "a value is expected"},
    {"1e", 1, "no number"},
    {"+1", 1, "a value is expected"},
    {"True", 1, "a value is expected"},
    {"\n\"\xC3\"", 2, "not UTF-8"},
    {"[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]", 1, "nested too deeply"},
};

static void refuses_with_the_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        jsonc *value = NULL;
        unsigned line = 0;
        pawl_error error = {.struct_size = sizeof error};
        const struct refused *r = &refused[i];
        if (jsonc_parse(r->text, strlen(r->text), &value, &line, &error) == PAWL_OK)
            fail_msg("%s was accepted", r->text);
        assert_null(value);
        if (line != r->line || !strstr(error.message, r->reason))
            fail_msg("%s: line %u: %s", r->text, line, error.message);
    }
}

static void values_know_their_lines(void **state)
{
    (void)state;
    static const char text[] = "{\n\"a\": 1, /*\n*/ \"b\":\n[\n2]}";
    jsonc *value = NULL;
    unsigned line;
    assert_int_equal(jsonc_parse(text, sizeof text - 1, &value, &line, NULL), PAWL_OK);
    assert_int_equal(jsonc_get(value, "a")->line, 2);
    assert_int_equal(jsonc_get(value, "b")->line, 4);
    assert_int_equal(jsonc_get(value, "b")->first->line, 5);
    assert_null(jsonc_get(value, "c"));
    assert_null(jsonc_get(jsonc_get(value, "a"), "c"));
    jsonc_free(value);
}

static void has_its_limits(void **state)
{
    (void)state;
    jsonc *value = NULL;
    unsigned line;
    buf text;
    pawl_error error = {.struct_size = sizeof error};
    buf_init(&text, 2 * JSONC_MAX_BYTES);
    buf_add_text(&text, "[");
    for (int i = 0; i <= JSONC_MAX_MEMBERS; i++)
        buf_add_text(&text, "1,");
    buf_add_text(&text, "]");
    assert_int_equal(jsonc_parse(text.data, text.size, &value, &line, &error), PAWL_E_LIMIT);
    while (text.size <= JSONC_MAX_BYTES)
        buf_add_text(&text, "                                                                ");
    assert_int_equal(jsonc_parse(text.data, text.size, &value, &line, &error), PAWL_E_LIMIT);
    buf_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_people_write),
        cmocka_unit_test(plain_json),
        cmocka_unit_test(refuses_with_the_line),
        cmocka_unit_test(values_know_their_lines),
        cmocka_unit_test(has_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
