/*
 * chat_parse_test.c - accepted Chat Completions and Completions requests: what run gets.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

#include "api/handlers.h"

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define WITH(member) "{\"model\":\"tiny\"," HELLO "," member "}"

static parse_choices choices;

static run_request *accept(const char *text, bool chat)
{
    fake_world world;
    parse_env env = fake_env(&world);
    api_error error;
    cJSON *body = fake_json(text);
    run_request *request = chat ? chat_parse(body, &env, &choices, &error)
                                : completions_parse(body, &env, &choices, &error);
    cJSON_Delete(body);
    if (!request)
        fail_msg("refused: %s (%s) for %s", error.message, error.param, text);
    return request;
}

/* The items without their random ids. */
static void check_items(const run_request *request, const char *wanted)
{
    cJSON *items = cJSON_Duplicate(request->items, true);
    cJSON *item;
    cJSON_ArrayForEach(item, items) cJSON_DeleteItemFromObject(item, "id");
    char *got = json_print(items);
    assert_string_equal(got, wanted);
    free(got);
    cJSON_Delete(items);
}

static void test_defaults(void **state)
{
    (void)state;
    run_request *request = accept("{\"model\":\"tiny\"," HELLO "}", true);
    assert_false(request->store);
    assert_true(request->generate);
    assert_false(request->logprobs);
    assert_null(request->tools);
    assert_null(request->bias_ids);
    assert_int_equal(request->max_tokens, 0);
    assert_int_equal(request->thinking, -1);
    assert_int_equal(choices.n, 1);
    assert_false(choices.stream);
    assert_false(choices.include_usage);
    check_items(request, "[{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":"
                         "\"input_text\",\"text\":\"hi\"}]}]");
    run_request_free(request);
}

/* Dify, LiteLLM and others send null and keys of their own for what they do not set. */
static void test_loose(void **state)
{
    (void)state;
    run_request *request = accept(
        WITH("\"temperature\":null,\"tools\":[],\"tool_choice\":null,\"stop\":null,\"n\":null,"
             "\"response_format\":null,\"functions\":null,\"logprobs\":null,\"logit_bias\":null,"
             "\"stream_options\":null,\"store\":true,\"metadata\":{\"a\":\"b\"},\"user\":\"u\","
             "\"service_tier\":\"auto\",\"reasoning_format\":\"none\",\"top_k\":-1,\"vendor\":[{}],"
             "\"parallel_tool_calls\":true,\"thinking\":{\"type\":\"auto\"}"),
        true);
    assert_false(request->store);
    assert_null(request->tools);
    assert_int_equal(request->thinking, -1);
    run_request_free(request);
}

static void test_history(void **state)
{
    (void)state;
    run_request *request = accept(
        "{\"model\":\"tiny\",\"messages\":["
        "{\"role\":\"developer\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
        "\"text\",\"text\":\"b\"}]},"
        "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"hm\",\"refusal\":null,"
        "\"annotations\":[],\"audio\":null,\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}},{\"id\":\"c2\","
        "\"function\":{\"name\":\"g\",\"arguments\":{\"y\":2}}}]},"
        "{\"role\":\"tool\",\"tool_call_id\":\"c9\",\"name\":\"h\",\"content\":[{\"type\":\"text\","
        "\"text\":\"42\"}]},"
        "{\"role\":\"assistant\",\"content\":\"one\"},{\"role\":\"assistant\",\"content\":\"\"}]}",
        true);
    check_items(request,
                "[{\"type\":\"message\",\"role\":\"developer\",\"content\":[{\"type\":"
                "\"input_text\",\"text\":\"a\\nb\"}]},"
                "{\"type\":\"reasoning\",\"begins_turn\":true,\"content\":[{\"type\":"
                "\"reasoning_text\",\"text\":\"hm\"}]},"
                "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":"
                "\"{\\\"x\\\": 1}\"},"
                "{\"type\":\"function_call\",\"call_id\":\"c2\",\"name\":\"g\",\"arguments\":"
                "\"{\\\"y\\\":2}\"},"
                "{\"type\":\"function_call_output\",\"call_id\":\"c9\",\"name\":\"h\",\"output\":"
                "\"42\"},"
                "{\"type\":\"message\",\"begins_turn\":true,\"role\":\"assistant\",\"content\":[{"
                "\"type\":\"output_text\",\"text\":\"one\"}]},"
                "{\"type\":\"message\",\"begins_turn\":true,\"role\":\"assistant\",\"content\":[{"
                "\"type\":\"output_text\",\"text\":\"\"}]}]");
    run_request_free(request);
}

static void test_sampling(void **state)
{
    (void)state;
    run_request *request = accept(
        WITH("\"temperature\":0,\"top_p\":0.5,\"top_k\":7,\"min_p\":0.25,\"seed\":5,\"stop\":"
             "\"x\",\"cache_salt\":\"pepper\",\"presence_penalty\":1,\"max_tokens\":3,\"max_"
             "completion_tokens\":4,\"n\":8,"
             "\"stream\":true,\"stream_options\":{\"include_usage\":true,\"include_obfuscation\":"
             "false},\"logit_bias\":{\"97\":-100,\"98\":null,\"255\":1.5},\"logprobs\":true,"
             "\"top_logprobs\":20,\"priority\":\"batch\""),
        true);
    const pawl_sampling *sampling = &request->sampling;
    assert_float_equal(sampling->temperature, 0, 0);
    assert_float_equal(sampling->top_p, 0.5f, 0);
    assert_int_equal(sampling->top_k, 7);
    assert_int_equal(sampling->seed, 5);
    assert_string_equal(request->cache_salt, "pepper");
    assert_int_equal(sampling->n_bias, 2);
    assert_ptr_equal(sampling->bias_ids, request->bias_ids);
    assert_ptr_equal(sampling->bias, request->bias);
    assert_int_equal(request->bias_ids[0], 97);
    assert_float_equal(request->bias[0], -100.0f, 0);
    assert_int_equal(request->bias_ids[1], 255);
    assert_float_equal(request->bias[1], 1.5f, 0);
    assert_int_equal(request->max_tokens, 4);
    assert_int_equal(request->n_stop, 1);
    assert_true(request->logprobs);
    assert_int_equal(request->top_logprobs, 20);
    assert_int_equal(request->priority, RUN_BATCH);
    assert_int_equal(choices.n, 8);
    assert_true(choices.stream && choices.include_usage);
    run_request_free(request);
}

static void test_tools(void **state)
{
    (void)state;
    static const char tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\","
        "\"parameters\":{\"type\":\"object\"}}}]";
    run_request *request =
        accept(WITH("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                    "\"description\":\"d\",\"parameters\":{\"type\":\"object\"},\"strict\":true}},"
                    "{\"type\":\"function\",\"function\":{\"name\":\"g\"}}],\"tool_choice\":{"
                    "\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":[{"
                    "\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}},"
                    "\"parallel_tool_calls\":false"),
               true);
    char *got = json_print(request->tools);
    assert_string_equal(got, tools);
    assert_true(request->one_call);
    assert_false(request->tools_off);
    free(got);
    run_request_free(request);
    request = accept(WITH("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
                          "\"tool_choice\":\"none\""),
                     true);
    assert_true(request->tools_off);
    run_request_free(request);
}

static void test_thoughts(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        int thinking;
        const char *effort;
    } wishes[] = {
        {WITH("\"enable_thinking\":false"), 0, NULL},
        {WITH("\"thinking\":true"), 1, NULL},
        {WITH("\"thinking\":{\"type\":\"disabled\"}"), 0, NULL},
        {WITH("\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":9}"), 1, NULL},
        {WITH("\"chat_template_kwargs\":{\"enable_thinking\":false,\"thinking\":false}"), 0, NULL},
        {WITH("\"reasoning_effort\":\"none\""), 0, NULL},
        {WITH("\"reasoning_effort\":\"low\""), 1, "low"},
        {WITH("\"reasoning_effort\":null,\"response_format\":{\"type\":\"text\"}"), -1, NULL},
    };
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) {
        run_request *request = accept(wishes[i].body, true);
        assert_int_equal(request->thinking, wishes[i].thinking);
        if (wishes[i].effort)
            assert_string_equal(request->reasoning_effort, wishes[i].effort);
        else
            assert_null(request->reasoning_effort);
        run_request_free(request);
    }
}

static void test_prompts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"model\":\"tiny\",\"prompt\":\"ab\"}",
        "{\"model\":\"tiny\",\"prompt\":[\"ab\"],\"suffix\":\"\",\"best_of\":1}"};
    static const char *const ids[] = {"{\"model\":\"tiny\",\"prompt\":[97,98]}",
                                      "{\"model\":\"tiny\",\"prompt\":[[97,98]]}"};
    for (int i = 0; i < 2; i++) {
        run_request *request = accept(texts[i], false);
        assert_string_equal(request->raw_text, "ab");
        assert_false(request->raw_control);
        assert_int_equal(request->max_tokens, 16);
        assert_false(request->store);
        run_request_free(request);
        request = accept(ids[i], false);
        assert_null(request->raw_text);
        assert_int_equal(request->n_raw_tokens, 2);
        assert_int_equal(request->raw_tokens[1], 98);
        run_request_free(request);
    }
    run_request *request =
        accept("{\"model\":\"tiny\",\"prompt\":\"a\",\"logprobs\":0,\"max_tokens\":0,\"n\":2,"
               "\"parse_special\":true}",
               false);
    assert_true(request->logprobs && request->raw_control);
    assert_int_equal(request->top_logprobs, 0);
    assert_false(request->generate);
    assert_int_equal(choices.n, 2);
    run_request_free(request);
}

static void check_tokens(const char *text, bool encode, const char *wanted)
{
    fake_world world;
    parse_env env = fake_env(&world);
    api_error error;
    buf out;
    cJSON *body = fake_json(text);
    buf_init(&out, 1 << 20);
    bool ok = encode ? tokens_encode(&env, NULL, body, &out, &error)
                     : tokens_decode(&env, body, &out, &error);
    if (!ok)
        fail_msg("refused: %s for %s", error.message, text);
    assert_string_equal(buf_text(&out), wanted);
    buf_clear(&out);
    cJSON_Delete(body);
}

static void test_tokens(void **state)
{
    (void)state;
    check_tokens("{\"model\":\"tiny\",\"prompt\":\"ab\",\"return_token_strs\":true}", true,
                 "{\"count\":2,\"max_model_len\":100,\"tokens\":[97,98],\"token_strs\":[\"a\","
                 "\"b\"]}");
    check_tokens("{\"prompt\":\"\"}", true,
                 "{\"count\":0,\"max_model_len\":100,\"tokens\":[],\"token_strs\":null}");
    check_tokens("{\"content\":\"ab\"}", true, "{\"tokens\":[97,98]}");
    check_tokens("{\"content\":\"ab\",\"with_pieces\":true}", true,
                 "{\"tokens\":[{\"id\":97,\"piece\":\"a\"},{\"id\":98,\"piece\":\"b\"}]}");
    check_tokens("{\"tokens\":[97,98]}", false, "{\"prompt\":\"ab\",\"content\":\"ab\"}");
    check_tokens("{\"model\":null,\"tokens\":[]}", false, "{\"prompt\":\"\",\"content\":\"\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_loose),
        cmocka_unit_test(test_history),  cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_tools),    cmocka_unit_test(test_thoughts),
        cmocka_unit_test(test_prompts),  cmocka_unit_test(test_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
