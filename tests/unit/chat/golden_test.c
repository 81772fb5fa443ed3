/*
 * tests/unit/chat/golden_test.c - the chat goldens: prompts byte for byte, replies
 * with the expected meaning, and the same events for every split.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat_testing.h"

#include "chat/json_scan.h"

typedef void (*on_line)(struct json_view line, const char *dialect);

static void each_line(const char *name, const char *dialect, on_line visit, int expected)
{
    char path[512];
    char *line = NULL;
    size_t room = 0;
    ssize_t got;
    int n = 0;
    snprintf(path, sizeof path, "%s/tests/golden/chat/%s", PAWL_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while ((got = getline(&line, &room, file)) > 0) {
        struct json_view value;
        pawl_bytes bytes = {line, (uint64_t)got};
        assert_int_equal(json_parse(bytes, name, &value, NULL), PAWL_OK);
        visit(value, dialect);
        n++;
    }
    free(line);
    fclose(file);
    assert_int_equal(n, expected);
}

static char *decoded(struct json_view string)
{
    struct text text = test_text();
    json_decode(string, &text);
    test_string(&text);
    return text.data;
}

static char *copied(struct json_view value)
{
    return pawl_bytes_copy((pawl_bytes){value.data, value.size});
}

/* ---------------------------------------------------------------- render -- */

static void check_render(struct json_view line, const char *dialect)
{
    struct text out = test_text(), prompt = test_text();
    struct json_view root, part;
    size_t at = 0;
    char kind = '\0';
    char *name = decoded(json_member(line, "dialect"));
    pawl_chat *chat = test_open(name);
    struct json_view context = json_member(line, "context");
    pawl_sink sink = {&out, test_write};
    pawl_error error = {.struct_size = sizeof error};
    (void)dialect;
    if (chat_api.render(chat, (pawl_bytes){context.data, context.size}, &sink, &error) != PAWL_OK)
        fail_msg("%s", error.message);
    assert_int_equal(json_parse((pawl_bytes){out.data, out.size}, "render", &root, NULL), PAWL_OK);
    struct json_view parts = json_member(root, "parts");
    while (json_next(parts, &at, &part)) {
        json_decode(json_member(part, "text"), &prompt);
        assert_int_not_equal(json_kind(json_member(part, "special")), kind); /* joined */
        kind = json_kind(json_member(part, "special"));
    }
    char *expected = decoded(json_member(line, "prompt"));
    assert_string_equal(test_string(&prompt), expected);
    free(expected);
    free(name);
    text_clear(&out);
    text_clear(&prompt);
    chat_api.close(chat);
}

static void test_render(void **state)
{
    (void)state;
    each_line("render_smollm2.jsonl", NULL, check_render, 11);
    each_line("render_hermes.jsonl", NULL, check_render, 22);
}

/* ----------------------------------------------------------------- parse -- */

struct gather {
    struct text text;
    int32_t type;
};

static void gather_event(void *arg, const pawl_chat_event *event)
{
    struct gather *gather = arg;
    if (event->type == gather->type)
        text_add(&gather->text, event->text.data, (size_t)event->text.size);
}

/* The joined text of all events of one type. */
static char *all_of(const char *dialect, const char *request, const char *reply, int32_t type)
{
    struct gather gather = {test_text(), type};
    pawl_chat *chat = test_open(dialect);
    pawl_parser *parser;
    pawl_segment piece = {pawl_text(reply), PAWL_SEGMENT_LITERAL};
    assert_int_equal(chat_api.parser_open(chat, pawl_text(request), &parser, NULL), PAWL_OK);
    assert_int_equal(chat_api.feed(parser, piece, gather_event, &gather, NULL), PAWL_OK);
    assert_int_equal(chat_api.finish(parser, gather_event, &gather, NULL), PAWL_OK);
    chat_api.parser_close(parser);
    chat_api.close(chat);
    test_string(&gather.text);
    return gather.text.data;
}

static const char *trimmed(char *text)
{
    size_t size = strlen(text);
    while (size && strchr(" \t\r\n", text[size - 1]))
        text[--size] = '\0';
    return text + strspn(text, " \t\r\n");
}

/* The calls as B0(name)D0(arguments)E0()... of the expected ones. */
static char *expected_calls(struct json_view calls)
{
    struct text text = test_text();
    struct json_view call;
    char head[16];
    size_t at = 0;
    for (int i = 0; json_next(calls, &at, &call); i++) {
        snprintf(head, sizeof head, "B%d(", i);
        text_add_string(&text, head);
        json_decode(json_member(call, "name"), &text);
        snprintf(head, sizeof head, ")D%d(", i);
        text_add_string(&text, head);
        json_dump(json_member(call, "arguments"), &text);
        snprintf(head, sizeof head, ")E%d()", i);
        text_add_string(&text, head);
    }
    test_string(&text);
    return text.data;
}

/* From the first call on: in the goldens only white space stands between calls. */
static char *only_calls(const char *events)
{
    const char *first = strstr(events, "B0(");
    return strdup(first ? first : "");
}

static void check_meaning(struct json_view line, const char *dialect, const char *request,
                          const char *reply, const char *events)
{
    struct json_view expected = json_member(line, "expected");
    char *content = all_of(dialect, request, reply, PAWL_CHAT_TEXT);
    char *want = decoded(json_member(expected, "content"));
    assert_string_equal(trimmed(content), trimmed(want));
    free(content);
    free(want);

    char *reasoning = all_of(dialect, request, reply, PAWL_CHAT_REASONING);
    want = decoded(json_member(expected, "reasoning"));
    assert_string_equal(reasoning, want); /* exact: the dialect trims it */
    free(reasoning);
    free(want);

    char *calls = only_calls(events);
    struct text without = test_text();
    for (const char *s = calls; *s;) { /* white space between calls is dropped */
        if (strncmp(s, "O(\n)", 4) == 0)
            s += 4;
        else
            text_add_byte(&without, *s++);
    }
    want = expected_calls(json_member(expected, "tool_calls"));
    assert_string_equal(test_string(&without), want);
    assert_null(strstr(events, "X0("));
    free(calls);
    free(want);
    text_clear(&without);
}

/* The arguments of each call are the beginning of a JSON text, at every event. */
static void scan_event(void *arg, const pawl_chat_event *event)
{
    struct json_scan *scan = arg;
    if (event->type == PAWL_CHAT_CALL_BEGIN)
        json_scan_init(scan);
    for (uint64_t i = 0; event->type == PAWL_CHAT_CALL_DELTA && i < event->text.size; i++)
        assert_false(json_scan_byte(scan, (unsigned char)event->text.data[i]) & JSON_BAD);
    if (event->type == PAWL_CHAT_CALL_END)
        assert_true(json_scan_complete(scan));
}

static void check_arguments(const pawl_chat *chat, const char *request, const char *reply)
{
    struct json_scan scan;
    pawl_parser *parser;
    pawl_segment piece = {pawl_text(reply), PAWL_SEGMENT_LITERAL};
    assert_int_equal(chat_api.parser_open(chat, pawl_text(request), &parser, NULL), PAWL_OK);
    assert_int_equal(chat_api.feed(parser, piece, scan_event, &scan, NULL), PAWL_OK);
    assert_int_equal(chat_api.finish(parser, scan_event, &scan, NULL), PAWL_OK);
    chat_api.parser_close(parser);
}

/* What holds even where the reply is damaged. */
static void check_invariants(const char *dialect, const char *request, const char *reply,
                             const char *events)
{
    char *content = all_of(dialect, request, reply, PAWL_CHAT_TEXT);
    assert_null(strstr(content, "tool_call>"));
    free(content);
    /* Everything but the markup comes out somewhere. */
    const char *city = strstr(reply, "\"city\"");
    if (city && strstr(reply, "arguments\": {"))
        assert_non_null(strstr(events, "{\"city\""));
}

static void check_splits(const pawl_chat *chat, const char *request, const char *reply,
                         const char *events)
{
    size_t size = strlen(reply);
    unsigned random = 1;
    for (size_t cut = 0; cut < size + 40; cut++) {
        struct test_run run;
        test_begin(&run, chat, request);
        for (size_t at = 0; at < size;) {
            size_t piece = size - at;
            random = random * 1103515245u + 12345u;
            if (cut == 0)
                piece = 1;
            else if (cut < size)
                piece = at == 0 ? cut : piece;
            else
                piece = 1 + (random >> 16) % 9;
            piece = piece < size - at ? piece : size - at;
            test_feed(&run, reply + at, piece, PAWL_SEGMENT_LITERAL);
            at += piece;
        }
        char *got = test_end(&run);
        assert_string_equal(got, events);
        free(got);
    }
}

static void check_chunkings(struct json_view chunkings, const pawl_chat *chat, const char *request,
                            const char *events)
{
    const char *const names[] = {"rand1", "rand2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct json_view list = json_member(chunkings, names[i]), chunk;
        struct test_run run;
        size_t at = 0;
        assert_int_equal(json_kind(list), '[');
        test_begin(&run, chat, request);
        while (json_next(list, &at, &chunk)) {
            char *text = decoded(chunk);
            test_feed(&run, text, strlen(text), PAWL_SEGMENT_LITERAL);
            free(text);
        }
        char *got = test_end(&run);
        assert_string_equal(got, events);
        free(got);
    }
}

static void check_parse(struct json_view line, const char *dialect)
{
    struct text request_text = test_text();
    char *tools = copied(json_member(line, "tools"));
    char *reply = decoded(json_member(line, "output"));
    text_add_string(&request_text, "{\"tools\":");
    text_add_string(&request_text, tools);
    text_add_string(&request_text, ",\"starts_in_reasoning\":");
    text_add_string(&request_text, json_kind(json_member(line, "starts_in_reasoning")) == 't'
                                       ? "true}"
                                       : "false}");
    const char *request = test_string(&request_text);
    pawl_chat *chat = test_open(dialect);
    char *events = test_whole(chat, request, reply);
    if (json_is(json_member(line, "tier"), "wellformed"))
        check_meaning(line, dialect, request, reply, events);
    else
        check_invariants(dialect, request, reply, events);
    check_arguments(chat, request, reply);
    check_splits(chat, request, reply, events);
    check_chunkings(json_member(line, "chunkings"), chat, request, events);
    chat_api.close(chat);
    free(events);
    free(tools);
    free(reply);
    text_clear(&request_text);
}

static void test_parse_smollm2(void **state)
{
    (void)state;
    each_line("parse_smollm2.jsonl", "smollm2", check_parse, 21);
    each_line("parse_smollm2.jsonl", "smollm2-tools", check_parse, 21);
}

static void test_parse_hermes(void **state)
{
    (void)state;
    each_line("parse_hermes.jsonl", "hermes", check_parse, 30);
    each_line("parse_hermes.jsonl", "qwen3", check_parse, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render),
        cmocka_unit_test(test_parse_smollm2),
        cmocka_unit_test(test_parse_hermes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
