/*
 * tests/unit/chat/json_test.c - JSON as text: what is accepted, found and printed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat_testing.h"

#include "chat/json_scan.h"

static bool parses(const char *text)
{
    struct json_view value;
    return json_parse(pawl_text(text), "x", &value, NULL) == PAWL_OK;
}

static const char *const good[] = {
    "0",
    "-0",
    "10",
    "-1.5",
    "1e9",
    "1E-9",
    "0.5e+7",
    "12345678901234567890123",
    "true",
    "false",
    "null",
    "\"\"",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00Af\"",
    "[]",
    "{}",
    " [ 1 , [ ] , { } ] ",
    "{\"a\":{\"b\":[{}]},\"c\":null}",
    "\"\x7f\"",
    "\"é\xf0\x9f\x9a\x80\"",
};
static const char *const bad[] = {
    "",
    " ",
    "01",
    "-",
    "+1",
    "1.",
    ".5",
    "1e",
    "1e+",
    "1.e2",
    "tru",
    "True",
    "nulll",
    "\"",
    "\"\n\"",
    "\"\\x\"",
    "\"\\u12g4\"",
    "[",
    "[1",
    "[1,]",
    "[,]",
    "[1 2]",
    "{",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{1:1}",
    "{\"a\" 1}",
    "]",
    "[}",
    "[1}",
    "{\"a\":1]",
    "{]",
    "1 2",
    "{}}",
    "'a'",
    "NaN",
    "\"\xff\"",
    "\"\xc0\xaf\"",
    "\"\xed\xa0\x80\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xe2\x82\"",
    "1,",
};

static void test_grammar(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!parses(good[i]))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parses(bad[i]))
            fail_msg("accepted: %s", bad[i]);
}

static void test_depth(void **state)
{
    (void)state;
    struct text text = test_text();
    for (int i = 0; i < JSON_MAX_DEPTH; i++)
        text_add_byte(&text, '[');
    for (int i = 0; i < JSON_MAX_DEPTH; i++)
        text_add_byte(&text, ']');
    assert_true(parses(test_string(&text)));
    text.size = 0;
    for (int i = 0; i <= JSON_MAX_DEPTH; i++)
        text_add_byte(&text, '[');
    for (int i = 0; i <= JSON_MAX_DEPTH; i++)
        text_add_byte(&text, ']');
    assert_false(parses(test_string(&text)));
    text_clear(&text);
}

static struct json_view parsed(const char *text)
{
    struct json_view value = {NULL, 0};
    assert_int_equal(json_parse(pawl_text(text), "x", &value, NULL), PAWL_OK);
    return value;
}

static void test_walk(void **state)
{
    (void)state;
    struct json_view root = parsed(" { \"a\" : [ 1 , \"x,]\\\"\" , { \"b\":2 } ] , \"n\":null, "
                                   "\"a2\":true,\"d\":1,\"d\":-7} ");
    struct json_view list = json_member(root, "a"), item;
    static const char *const items[] = {"1", "\"x,]\\\"\"", "{ \"b\":2 }"};
    size_t at = 0, n = 0;
    for (; json_next(list, &at, &item); n++) {
        assert_int_equal(item.size, strlen(items[n]));
        assert_memory_equal(item.data, items[n], item.size);
    }
    assert_int_equal(n, 3);
    assert_int_equal(json_kind(json_member(root, "n")), 'n');
    assert_int_equal(json_kind(json_member(root, "a2")), 't');
    assert_int_equal(json_kind(json_member(root, "b")), '\0');
    assert_int_equal(json_kind(json_member(list, "b")), '\0');
    assert_memory_equal(json_member(root, "d").data, "-7", 2); /* the last counts */
    at = 0;
    assert_false(json_next(parsed("[ ]"), &at, &item));
    assert_true(json_is(parsed("\"abc\""), "abc"));
    assert_false(json_is(parsed("\"abcd\""), "abc"));
}

static void dumps(const char *source, const char *expected)
{
    struct text text = test_text();
    json_dump(parsed(source), &text);
    assert_string_equal(test_string(&text), expected);
    text_clear(&text);
}

static void test_dump(void **state)
{
    (void)state;
    dumps("{\"b\" :1,\"a\":[1,2 , 3],\n\"c\":{}}", "{\"b\": 1, \"a\": [1, 2, 3], \"c\": {}}");
    dumps("[12345678901234567890123, 1.50, 1e400, -0]",
          "[12345678901234567890123, 1.50, 1e400, -0]");
    dumps("\"\\u00e9\\/\\ud83d\\ude80 <&>\"", "\"é/🚀 <&>\"");
    dumps("\"\\u0001\\u001f\\n\\t\\b\\f\\r\\\"\\\\\\u007f\"",
          "\"\\u0001\\u001f\\n\\t\\b\\f\\r\\\"\\\\\x7f\"");
    dumps("[\"a,b:c\", \"\\ud800x\", \"\\udc00\\ud800\"]",
          "[\"a,b:c\", \"\xef\xbf\xbdx\", \"\xef\xbf\xbd\xef\xbf\xbd\"]");
}

static void test_text_limits(void **state)
{
    (void)state;
    struct text text;
    text_init(&text, 100);
    for (int i = 0; i < 100; i++)
        text_add_byte(&text, 'x');
    assert_int_equal(text.status, PAWL_OK);
    text_add_byte(&text, 'y');
    assert_int_equal(text.status, PAWL_E_LIMIT);
    assert_int_equal(text.size, 100);
    text_clear(&text);
    assert_int_equal(text.status, PAWL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grammar),     cmocka_unit_test(test_depth),
        cmocka_unit_test(test_walk),        cmocka_unit_test(test_dump),
        cmocka_unit_test(test_text_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
