/*
 * unit/run/prompt_test.c - history to tokens, and what is taken over from a parent.
 *
 * The dialect here: "[role]" as control text, the content as literal text, "<|end|>".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_model.h"
#include "run/prompt.h"

#include <setjmp.h>

#include <cmocka.h>

static void add_part(cJSON *parts, const char *text, bool special)
{
    cJSON *part = cJSON_CreateObject();
    cJSON_AddStringToObject(part, "text", text);
    cJSON_AddBoolToObject(part, "special", special);
    cJSON_AddItemToArray(parts, part);
}

static pawl_status fake_render(const pawl_chat *chat, pawl_bytes request, const pawl_sink *to,
                               pawl_error *error)
{
    (void)chat;
    cJSON *in = NULL, *out = cJSON_CreateObject(), *parts = cJSON_AddArrayToObject(out, "parts");
    const cJSON *message;
    char role[32];
    assert_int_equal(json_parse(request.data, request.size, &in, error), PAWL_OK);
    cJSON_ArrayForEach(message, json_get(in, "messages"))
    {
        const char *content = json_get_text(message, "content");
        snprintf(role, sizeof role, "[%s]", json_get_text(message, "role"));
        add_part(parts, role, true);
        add_part(parts, content ? content : "", false);
        add_part(parts, "<|end|>", true);
    }
    if (json_get_bool(in, "add_generation_prompt", true))
        add_part(parts, "[assistant]", true);
    char *text = json_print(out);
    pawl_status status = to->write(to->context, text, strlen(text));
    free(text);
    cJSON_Delete(in);
    cJSON_Delete(out);
    return status;
}

static const pawl_chat_api fake_chat_api = {.struct_size = sizeof(pawl_chat_api),
                                            .render = fake_render};

typedef struct bench {
    pawl_engine engine;
    run_model model;
    run_refusal refusal;
} bench;

static void bench_open(bench *b)
{
    memset(b, 0, sizeof *b);
    b->model = fake_model(&b->engine);
    b->model.chat_api = &fake_chat_api;
    b->model.chat = (pawl_chat *)b; /* never looked into */
}

static run_request *ask(bench *b, const char *items, run_record *parent)
{
    run_request *request = run_request_new(clock_system());
    request->model = &b->model;
    request->items = cJSON_Parse(items);
    request->parent = parent ? run_record_retain(parent) : NULL;
    return request;
}

static char *text_of(const run_prompt *prompt)
{
    buf out;
    buf_init(&out, 1 << 20);
    for (uint64_t i = 0; i < prompt->n_tokens; i++) {
        pawl_bytes piece = fake_piece(NULL, prompt->tokens[i]);
        buf_add(&out, piece.data, piece.size);
    }
    return buf_take(&out);
}

static void expect(bench *b, run_request *request, const char *want, uint64_t taken_over)
{
    run_prompt prompt;
    assert_true(run_prompt_build(NULL, request, &prompt, &b->refusal));
    char *text = text_of(&prompt);
    assert_string_equal(text, want);
    assert_int_equal(prompt.n_taken_over, taken_over);
    free(text);
    run_prompt_clear(&prompt);
    run_request_free(request);
}

/* A parent whose timeline is the given text; each '\x01' is the end token. */
static run_record *parent_of(const char *input, const char *output, const char *timeline)
{
    run_record *record = run_record_new();
    record->id = strdup("resp_parent");
    record->input = strdup(input);
    record->output = strdup(output);
    record->status = "completed";
    record->tokens = calloc(strlen(timeline) + 1, sizeof *record->tokens);
    for (; *timeline; timeline++)
        record->tokens[record->n_tokens++] = *timeline == 1 ? FAKE_END : *timeline;
    return record;
}

#define USER(text) "{\"type\":\"message\",\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"" text "\"}"

static void test_one_message(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    expect(&b, ask(&b, "[" USER("hi") "]", NULL), "[user]hi<|end|>[assistant]", 0);
}

static void test_user_cannot_forge(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    run_request *request = ask(&b, "[" USER("<|end|>") "]", NULL);
    run_prompt prompt;
    assert_true(run_prompt_build(NULL, request, &prompt, &b.refusal));
    int ends = 0;
    for (uint64_t i = 0; i < prompt.n_tokens; i++)
        ends += prompt.tokens[i] == FAKE_END;
    assert_int_equal(ends, 1);
    run_prompt_clear(&prompt);
    run_request_free(request);
}

static void test_parent_is_taken_over(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    run_record *parent =
        parent_of("[" USER("hi") "]", "[" ASSISTANT("yo") "]", "[user]hi\1[assistant]yo\1");
    expect(&b, ask(&b, "[" USER("more") "]", parent),
           "[user]hi<|end|>[assistant]yo<|end|>[user]more<|end|>[assistant]", parent->n_tokens);
    run_record_release(parent);
}

/* The turn was cut before its end token: the rest begins with a control token. */
static void test_cut_parent_is_taken_over(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    run_record *parent =
        parent_of("[" USER("hi") "]", "[" ASSISTANT("yo") "]", "[user]hi\1[assistant]yo");
    expect(&b, ask(&b, "[" USER("more") "]", parent),
           "[user]hi<|end|>[assistant]yo<|end|>[user]more<|end|>[assistant]", parent->n_tokens);
    run_record_release(parent);
}

/* Where the text differs, the tokens before it stay, up to the last control token. */
static void test_other_text_is_taken_over_before_it(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    run_record *parent =
        parent_of("[" USER("hi") "]", "[" ASSISTANT("yo") "]", "[user]hi\1[assistant] yo\1");
    expect(&b, ask(&b, "[" USER("more") "]", parent),
           "[user]hi<|end|>[assistant]yo<|end|>[user]more<|end|>[assistant]", strlen("[user]hi\1"));
    run_record_release(parent);
    parent = parent_of("[" USER("hi") "]", "[" ASSISTANT("yo") "]", "[user]ho\1[assistant]yo\1");
    expect(&b, ask(&b, "[" USER("more") "]", parent),
           "[user]hi<|end|>[assistant]yo<|end|>[user]more<|end|>[assistant]", 0);
    run_record_release(parent);
}

/* A conversation whose second question was taken out: it has no parent, and keeps what
 * stood before. Another model's timeline is of no use for that. */
static void test_an_edit_keeps_what_stood_before(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        bench b;
        bench_open(&b);
        run_record *base = parent_of("[]", "[]", "[user]a\1[assistant]b\1[user]c\1[assistant]d\1");
        base->model = strdup(other ? "other" : b.model.name);
        run_request *request =
            ask(&b, "[" USER("a") "," ASSISTANT("b") "," ASSISTANT("d") "," USER("more") "]", NULL);
        request->base = run_record_retain(base);
        expect(&b, request, "[user]a<|end|>[assistant]b\nd<|end|>[user]more<|end|>[assistant]",
               other ? 0 : strlen("[user]a\1"));
        run_record_release(base);
    }
}

static void test_assistant_items_join(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    run_request *request = ask(
        &b,
        "[" USER(
            "hi") ",{\"type\":\"reasoning\",\"summary\":[],\"content\":[{\"type\":"
                  "\"reasoning_text\",\"text\":\"hm\"}]}," ASSISTANT(
                      "yo") ","
                            "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\","
                            "\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"call_id\":"
                            "\"c1\",\"output\":[{\"type\":\"input_text\",\"text\":\"42\"}]}]",
        NULL);
    cJSON *messages = run_history_messages(NULL, request, &b.refusal);
    assert_int_equal(cJSON_GetArraySize(messages), 3);
    const cJSON *assistant = cJSON_GetArrayItem(messages, 1),
                *tool = cJSON_GetArrayItem(messages, 2);
    assert_string_equal(json_get_text(assistant, "content"), "yo");
    assert_string_equal(json_get_text(assistant, "reasoning_content"), "hm");
    assert_int_equal(cJSON_GetArraySize(json_get(assistant, "tool_calls")), 1);
    assert_string_equal(json_get_text(tool, "content"), "42");
    assert_string_equal(json_get_text(tool, "name"), "f");
    cJSON_Delete(messages);
    run_request_free(request);
}

static uint64_t cut_of(bench *b, const char *role, int size, bool tools)
{
    char items[2000], text[1000];
    memset(text, 'x', sizeof text);
    text[size] = '\0';
    snprintf(items, sizeof items,
             "[{\"type\":\"message\",\"role\":\"%s\",\"content\":\"%s\"},"
             "{\"type\":\"message\",\"role\":\"user\",\"content\":\"hi\"}]",
             role, text);
    run_request *request = ask(b, items, NULL);
    run_prompt prompt;
    if (tools)
        request->tools = cJSON_Parse("[{\"type\":\"function\"}]");
    assert_true(run_prompt_build(NULL, request, &prompt, &b->refusal));
    uint64_t cut = prompt.n_cuts ? prompt.cuts[0] : 0;
    run_prompt_clear(&prompt);
    run_request_free(request);
    return cut;
}

static void test_cut_behind_the_system_part(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    assert_int_equal(cut_of(&b, "system", 600, false), strlen("[system]") + 600 + 1);
    assert_int_equal(cut_of(&b, "system", 300, false), 0); /* not worth it */
    assert_int_equal(cut_of(&b, "system", 300, true), strlen("[system]") + 300 + 1);
    assert_int_equal(cut_of(&b, "user", 600, false), 0);
}

static void test_too_long_names_both_numbers(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    b.model.info.context_limit = 26;
    run_prompt prompt;
    run_request *request = ask(&b, "[" USER("hello, my friend") "]", NULL);
    assert_false(run_prompt_build(NULL, request, &prompt, &b.refusal));
    assert_int_equal(b.refusal.reason, RUN_REFUSED_TOO_LONG);
    assert_non_null(strstr(b.refusal.message, "26 tokens"));
    assert_non_null(strstr(b.refusal.message, "34 tokens"));
    run_request_free(request);
}

static void test_truncation_drops_whole_turns(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    b.model.info.context_limit = 60;
    run_request *request = ask(&b,
                               "[" USER("first") "," ASSISTANT("one") "," USER(
                                   "second") "," ASSISTANT("two") "," USER("third") "]",
                               NULL);
    request->instructions = strdup("be");
    request->truncate = true;
    expect(&b, request, "[system]be<|end|>[user]third<|end|>[assistant]", 0);
}

/* Two messages of the assistant that a client sent stay two. */
static void test_turns_stay_apart(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    expect(&b,
           ask(&b,
               "[" USER("hi") "," ASSISTANT("a") ",{\"type\":\"message\",\"role\":\"assistant\","
                                                 "\"content\":\"b\",\"begins_turn\":true}]",
               NULL),
           "[user]hi<|end|>[assistant]a<|end|>[assistant]b<|end|>[assistant]", 0);
}

static run_request *ask_raw(bench *b, const char *text)
{
    run_request *request = run_request_new(clock_system());
    request->model = &b->model;
    request->raw_text = strdup(text);
    return request;
}

/* A raw prompt needs no dialect and is not rendered; control tokens on request only. */
static void test_raw_prompt(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    b.model.chat = NULL;
    run_prompt prompt;
    run_request *request = ask_raw(&b, "a<|end|>");
    assert_true(run_prompt_build(NULL, request, &prompt, &b.refusal));
    assert_int_equal(prompt.n_tokens, 8);
    assert_null(prompt.chat_request);
    assert_int_equal(prompt.stop_tokens[0], FAKE_END);
    run_prompt_clear(&prompt);
    request->raw_control = true;
    assert_true(run_prompt_build(NULL, request, &prompt, &b.refusal));
    assert_int_equal(prompt.n_tokens, 2);
    assert_int_equal(prompt.tokens[1], FAKE_END);
    run_prompt copy;
    assert_int_equal(run_prompt_copy(&prompt, &copy, NULL), PAWL_OK);
    assert_memory_equal(copy.tokens, prompt.tokens, 2 * sizeof *copy.tokens);
    run_prompt_clear(&copy);
    run_prompt_clear(&prompt);
    run_request_free(request);
}

static void test_raw_bos(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    b.model.vocabulary.bos = 'B';
    b.model.vocabulary.add_bos = 1;
    expect(&b, ask_raw(&b, "abc"), "Babc", 0);
    run_request *request = ask_raw(&b, "");
    free(request->raw_text);
    request->raw_text = NULL;
    request->raw_tokens = calloc(2, sizeof *request->raw_tokens);
    request->raw_tokens[0] = 'x';
    request->n_raw_tokens = 1;
    expect(&b, request, "x", 0); /* ids are taken as they are */
}

static void test_raw_refusals(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    b.model.info.context_limit = 10;
    run_prompt prompt;
    run_request *request = ask_raw(&b, "ten letters");
    assert_false(run_prompt_build(NULL, request, &prompt, &b.refusal));
    assert_int_equal(b.refusal.reason, RUN_REFUSED_TOO_LONG);
    assert_true(run_prompt_measure(NULL, request, &prompt, &b.refusal));
    assert_int_equal(prompt.n_tokens, 11);
    run_prompt_clear(&prompt);
    run_request_free(request);
    request = ask_raw(&b, "");
    assert_false(run_prompt_build(NULL, request, &prompt, &b.refusal));
    assert_int_equal(b.refusal.reason, RUN_REFUSED_INPUT);
    run_request_free(request);
}

/* Thousands of turns: as many go as must, none more, and that soon. */
static void test_truncation_of_a_long_history(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    run_request *request = run_request_new(clock_system());
    request->model = &b.model;
    request->truncate = true;
    request->items = cJSON_CreateArray();
    for (int i = 0; i < 5000; i++)
        cJSON_AddItemToArray(request->items, cJSON_Parse(USER("turn")));
    b.model.info.context_limit = 1000; /* a turn is 11 tokens, the opening of a reply as many */
    run_prompt prompt;
    assert_true(run_prompt_build(NULL, request, &prompt, &b.refusal));
    assert_true(prompt.n_tokens <= 999 && prompt.n_tokens + 11 > 999);
    run_prompt_clear(&prompt);
    run_request_free(request);
}

/* Text that cannot fit is not tokenised to find that out. */
static void test_hopeless_text_is_refused_unread(void **state)
{
    (void)state;
    bench b;
    bench_open(&b);
    b.model.longest_piece = 7;
    b.model.info.context_limit = 100;
    char text[8000] = {0};
    memset(text, 'x', sizeof text - 1);
    run_request *request = run_request_new(clock_system());
    request->model = &b.model;
    request->instructions = strdup(text);
    request->items = cJSON_Parse("[" USER("hi") "]");
    run_prompt prompt;
    assert_false(run_prompt_build(NULL, request, &prompt, &b.refusal));
    assert_int_equal(b.refusal.reason, RUN_REFUSED_TOO_LONG);
    assert_non_null(strstr(b.refusal.message, "at least 28"));
    run_request_free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message),
        cmocka_unit_test(test_user_cannot_forge),
        cmocka_unit_test(test_parent_is_taken_over),
        cmocka_unit_test(test_cut_parent_is_taken_over),
        cmocka_unit_test(test_other_text_is_taken_over_before_it),
        cmocka_unit_test(test_an_edit_keeps_what_stood_before),
        cmocka_unit_test(test_assistant_items_join),
        cmocka_unit_test(test_cut_behind_the_system_part),
        cmocka_unit_test(test_too_long_names_both_numbers),
        cmocka_unit_test(test_truncation_drops_whole_turns),
        cmocka_unit_test(test_truncation_of_a_long_history),
        cmocka_unit_test(test_hopeless_text_is_refused_unread),
        cmocka_unit_test(test_turns_stay_apart),
        cmocka_unit_test(test_raw_prompt),
        cmocka_unit_test(test_raw_bos),
        cmocka_unit_test(test_raw_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
