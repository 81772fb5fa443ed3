/*
 * tests/unit/chat/parser_test.c - what the reply parser makes of single replies.
 *
 * Notation of events: chat_testing.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat_testing.h"

/* A reply of hermes with tools, in two splits. */
static void check(const char *reply, const char *expected)
{
    pawl_chat *chat = test_open("hermes");
    char *events = test_whole(chat, test_tools, reply);
    assert_string_equal(events, expected);
    free(events);

    struct test_run run;
    test_begin(&run, chat, test_tools);
    for (size_t i = 0; reply[i]; i++)
        test_feed(&run, reply + i, 1, PAWL_SEGMENT_LITERAL);
    events = test_end(&run);
    assert_string_equal(events, expected);
    free(events);
    chat_api.close(chat);
}

static void test_plain_text(void **state)
{
    (void)state;
    check("", "");
    check("Hello", "T(Hello)");
    check(" \n", "T( \n)");
    check("\n Hello \n", "T(\n Hello \n)");
    check("a < b <tool", "T(a < b <tool)");
    check("<<tool_call", "T(<<tool_call)");
    check("see <think>", "T(see <think>)");
    check("</tool_call></think>", "T(</tool_call></think>)");
}

static void test_calls(void **state)
{
    (void)state;
    check("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {}]}}\n</tool_call>",
          "B0(f)D0({\"a\": [1, {}]})E0()");
    check("Hi.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\nDone.\n",
          "T(Hi.)O(\n)B0(f)D0({})E0()T(\nDone.\n)");
    check("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
          "<tool_call>{\"name\":\"g\",\"arguments\":{}}</tool_call>\n",
          "B0(f)D0({})E0()O(\n)B1(g)D1({})E1()O(\n)");
    check("<tool_call>[{\"name\":\"f\",\"arguments\":{}}, {\"name\":\"g\"}]</tool_call>",
          "B0(f)D0({})E0()B1(g)D1({})E1()");
    check("<tool_call>[]</tool_call>", "");
    check("<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"</tool_call>}\\\"\"}}</tool_call>.",
          "B0(f)D0({\"s\":\"</tool_call>}\\\"\"})E0()T(.)");
    check("<tool_call>{\"name\":\"gr\\u00fc\\u00df \\ud83d\\ude80\"}</tool_call>",
          "B0(grüß 🚀)D0({})E0()");
}

static void test_tolerance(void **state)
{
    (void)state;
    check("<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>",
          "B0(f)D0({\"a\": 1})E0()");
    check("<tool_call>{\"id\": -1.5e3, \"x\": [{\"name\": 2}], \"name\": \"f\", "
          "\"parameters\": {\"a\": 1}}</tool_call>",
          "B0(f)D0({\"a\": 1})E0()");
    check("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": \\\"\\u00e9\\\"}\"}"
          "</tool_call>",
          "B0(f)D0({\"a\": \"é\"})E0()");
    check("<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>", "B0(f)D0({})E0()");
    check("<tool_call>{\"name\": \"f\", \"arguments\": \"\"}</tool_call>", "B0(f)D0({})E0()");
    check("<tool_call>{\"name\": \"f\", \"arguments\": {}, \"arguments\": {\"b\": 1}, \"name\": "
          "\"g\"}</tool_call>",
          "B0(f)D0({})E0()");
    /* The last brace is missing, or there is one too many: the call is whole. */
    check("<tool_call>{\"name\":\"f\",\"arguments\":{}\n</tool_call>!", "B0(f)D0({})E0()T(!)");
    check("<tool_call>{\"name\":\"f\",\"arguments\":{}}}</tool_call>!", "B0(f)D0({})E0()O(})T(!)");
    /* No end marker. */
    check("<tool_call>{\"name\":\"f\",\"arguments\":{}}\n", "B0(f)D0({})E0()");
    check("<tool_call>{\"name\":\"f\"}\n<tool_call>{\"name\":\"g\"}\n",
          "B0(f)D0({})E0()B1(g)D1({})E1()");
}

static void test_bad_calls(void **state)
{
    (void)state;
    const char *cut = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"city\": \"Ro";
    check(cut, "B0(f)D0({\"city\": \"Ro)X0(<tool_call>\n{\"name\": \"f\", \"arguments\": "
               "{\"city\": \"Ro)");
    check("<tool_call>{\"na", "X0(<tool_call>{\"na)");
    check("<tool_call>[", "X0(<tool_call>[)");
    check("a <tool_call>{oops</tool_call>b", "T(a)O( )X0(<tool_call>{oops</tool_call>)T(b)");
    check("<tool_call>{\"name\": 1}</tool_call>", "X0(<tool_call>{\"name\": 1}</tool_call>)");
    check("<tool_call>{\"name\": \"\"}</tool_call>", "X0(<tool_call>{\"name\": \"\"}</tool_call>)");
    check("<tool_call>{\"arguments\": {}}</tool_call>",
          "X0(<tool_call>{\"arguments\": {}}</tool_call>)");
    check("<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
          "B0(f)X0(<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>)");
    check("<tool_call>{\"name\": \"f\", \"arguments\": \"[1]\"}</tool_call>",
          "B0(f)X0(<tool_call>{\"name\": \"f\", \"arguments\": \"[1]\"}</tool_call>)");
    check("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}</tool_call>",
          "B0(f)D0({\"a\": 1,)X0(<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1,}}"
          "</tool_call>)");
    /* A line break in a string is no JSON; the end marker is still found. */
    check("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}</tool_call>z",
          "B0(f)D0({\"a\": \"x)X0(<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"x\ny\"}}"
          "</tool_call>)T(z)");
    /* The next call has an index of its own; one that never began takes none. */
    check("<tool_call>[{\"name\":\"f\",\"arguments\":{}}, 7]</tool_call>"
          "<tool_call>{\"name\":\"g\",\"arguments\":7}</tool_call>"
          "<tool_call>{\"name\":\"h\"}</tool_call>",
          "B0(f)D0({})E0()X1(, 7]</tool_call>)B1(g)X1(<tool_call>{\"name\":\"g\",\"arguments\":7}"
          "</tool_call>)B2(h)D2({})E2()");
    /* What was no call at all stays text. */
    check("Write `<tool_call>` first.", "T(Write `<tool_call>` first.)");
    check("<tool_call>\n f(1)</tool_call>", "T(<tool_call>\n f(1)</tool_call>)");
    check("<tool_call> ", "T(<tool_call> )");
    check("<tool_call><tool_call>{\"name\":\"f\"}</tool_call>", "T(<tool_call>)B0(f)D0({})E0()");
}

static void test_reasoning(void **state)
{
    (void)state;
    check("<think>\nhm <tool_call> a\n</think>\n\nYes.\n",
          "O(\n)R(hm <tool_call> a)O(\n\n\n)T(Yes.\n)");
    check(" <think>a</think>", "O( )R(a)");
    check("<think>\n\n</think>\n\nYes.", "O(\n\n\n\n)T(Yes.)");
    check("<think>cut off \n", "R(cut off \n)");
    check("<think>a</th", "R(a</th)");
    check("<think>a</think><tool_call>{\"name\":\"f\"}</tool_call>", "R(a)B0(f)D0({})E0()");

    pawl_chat *chat = test_open("qwen3");
    const char *request = "{\"starts_in_reasoning\": true}";
    char *events = test_whole(chat, request, "\na</think>b<tool_call>");
    assert_string_equal(events, "O(\n)R(a)T(b<tool_call>)");
    free(events);
    events = test_whole(chat, request, "<think>\na</think>\n b"); /* the marker once more */
    assert_string_equal(events, "O(\n)R(a)O(\n )T(b)");
    free(events);
    chat_api.close(chat);
}

static void test_calls_not_wanted(void **state)
{
    (void)state;
    const char *reply = " <tool_call>{\"name\":\"f\"}</tool_call> ";
    const char *const requests[] = {
        "{}",
        "{\"tools\":null}",
        "{\"tools\":[]}",
        "{\"tools\":[{\"function\":{\"name\":\"f\"}}],\"tool_choice\":\"none\"}",
    };
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        pawl_chat *chat = test_open(i % 2 ? "smollm2" : "hermes");
        char *events = test_whole(chat, requests[i], reply);
        assert_string_equal(events, "T( <tool_call>{\"name\":\"f\"}</tool_call> )");
        free(events);
        chat_api.close(chat);
    }
    pawl_chat *chat = test_open("plain");
    char *events = test_whole(chat, "{\"starts_in_reasoning\":true}", "<think>a</think>\n");
    assert_string_equal(events, "T(<think>a</think>\n)");
    free(events);
    chat_api.close(chat);
}

static void test_control_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t kind;
    } pieces[] = {
        {"a <tool", PAWL_SEGMENT_LITERAL},          {"<|odd|>", PAWL_SEGMENT_CONTROL},
        {"_call>", PAWL_SEGMENT_LITERAL},           {"<tool_call>", PAWL_SEGMENT_CONTROL},
        {"{\"name\":\"f\"}", PAWL_SEGMENT_LITERAL}, {"</tool_call>", PAWL_SEGMENT_CONTROL},
        {"<|im_end|>", PAWL_SEGMENT_LITERAL},       {"<|im_end|>", PAWL_SEGMENT_CONTROL},
    };
    pawl_chat *chat = test_open("hermes");
    struct test_run run;
    test_begin(&run, chat, test_tools);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        test_feed(&run, pieces[i].text, strlen(pieces[i].text), pieces[i].kind);
    char *events = test_end(&run);
    assert_string_equal(events, "T(a <tool)O(<|odd|>)T(_call>)B0(f)D0({})E0()T(<|im_end|>)");
    free(events);
    chat_api.close(chat);
}

/* What is sure goes out at once: nothing waits for the end of the call. */
static void test_streams(void **state)
{
    (void)state;
    static const char *const steps[][2] = {
        {"Hi <to", "T(Hi"},
        {"p", "T(Hi <top"},
        {"<tool_call>{\"name\": \"f", "T(Hi <top"},
        {"\"", "T(Hi <top)B0(f"},
        {", \"arguments\": {\"a\": \"x", "T(Hi <top)B0(f)D0({\"a\": \"x"},
        {"y\"", "T(Hi <top)B0(f)D0({\"a\": \"xy\""},
        {"}", "T(Hi <top)B0(f)D0({\"a\": \"xy\"})E0("},
    };
    pawl_chat *chat = test_open("hermes");
    struct test_run run;
    test_begin(&run, chat, test_tools);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        test_feed(&run, steps[i][0], strlen(steps[i][0]), PAWL_SEGMENT_LITERAL);
        assert_string_equal(test_string(&run.events.text), steps[i][1]);
    }
    pawl_segment more = {pawl_text("x"), PAWL_SEGMENT_LITERAL};
    chat_api.finish(run.parser, test_event, &run.events, NULL);
    assert_int_equal(chat_api.feed(run.parser, more, test_event, &run.events, NULL),
                     PAWL_E_ARGUMENT);
    free(test_end(&run));
    chat_api.close(chat);
}

/* A call of more than 16 MiB is bad, and memory stays bounded. */
static void test_limits(void **state)
{
    (void)state;
    enum { STEP = 1 << 16, STEPS = 300 };
    static char fill[STEP];
    const char *begin = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"";
    memset(fill, 'x', sizeof fill);
    pawl_chat *chat = test_open("hermes");
    struct test_run run;
    test_begin(&run, chat, test_tools);
    test_feed(&run, begin, strlen(begin), PAWL_SEGMENT_LITERAL);
    for (int i = 0; i < STEPS; i++)
        test_feed(&run, fill, STEP, PAWL_SEGMENT_LITERAL);
    test_feed(&run, "</tool_call>Hi", 14, PAWL_SEGMENT_LITERAL);
    char *events = test_end(&run);
    const char *bad = strstr(events, ")X0(<tool_call>{");
    assert_non_null(bad);
    const char *dropped = strstr(bad, ")O(x");
    assert_int_equal(dropped - bad - 4, 16 * 1024 * 1024);
    assert_string_equal(events + strlen(events) - 6, ")T(Hi)");
    free(events);

    test_begin(&run, chat, test_tools); /* white space is held for a while only */
    memset(fill, '\n', sizeof fill);
    test_feed(&run, "a", 1, PAWL_SEGMENT_LITERAL);
    test_feed(&run, fill, STEP, PAWL_SEGMENT_LITERAL);
    test_string(&run.events.text);
    assert_true(run.events.text.size > STEP - 8192);
    events = test_end(&run);
    assert_int_equal(strlen(events), STEP + 4);
    free(events);
    chat_api.close(chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_text),     cmocka_unit_test(test_calls),
        cmocka_unit_test(test_tolerance),      cmocka_unit_test(test_bad_calls),
        cmocka_unit_test(test_reasoning),      cmocka_unit_test(test_calls_not_wanted),
        cmocka_unit_test(test_control_tokens), cmocka_unit_test(test_streams),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
