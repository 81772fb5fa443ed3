/*
 * parse_test.c - accepted Responses requests: what run gets and what is echoed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

#define WITH(member) "{\"model\":\"tiny\",\"input\":\"hi\"," member "}"

static void assert_json(const cJSON *value, const char *wanted)
{
    cJSON *tree = fake_json(wanted);
    char *got = json_print(value);
    char *want = json_print(tree);
    assert_string_equal(got, want);
    free(got);
    free(want);
    cJSON_Delete(tree);
}

static void test_defaults(void **state)
{
    (void)state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    assert_true(request->store);
    assert_true(request->generate);
    assert_false(request->truncate);
    assert_false(request->logprobs);
    assert_false(request->tools_off);
    assert_false(request->one_call);
    assert_null(request->tools);
    assert_null(request->parent);
    assert_null(request->instructions);
    assert_int_equal(request->max_tokens, 0);
    assert_int_equal(request->thinking, -1);
    assert_float_equal(request->sampling.temperature, 1.0f, 0);
    assert_float_equal(request->sampling.top_p, 1.0f, 0);
    assert_json(request->echo,
                "{\"model\":\"tiny\",\"metadata\":{},\"prompt_cache_key\":null,"
                "\"safety_identifier\":null,\"user\":null,\"service_tier\":\"default\","
                "\"store\":true,\"truncation\":\"disabled\",\"temperature\":1,\"top_p\":1,"
                "\"top_logprobs\":0,\"reasoning\":{\"effort\":null,\"summary\":null},"
                "\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"},\"tools\":[],"
                "\"tool_choice\":\"auto\",\"parallel_tool_calls\":true}");
    run_request_free(request);
}

static void test_null_is_absent(void **state)
{
    (void)state;
    run_request *request = fake_accept(
        WITH("\"temperature\":null,\"tools\":null,\"tool_choice\":null,\"text\":null,\"stop\":null,"
             "\"metadata\":null,\"reasoning\":null,\"conversation\":null,\"prompt\":null,"
             "\"background\":null,\"previous_response_id\":null,\"include\":null,\"store\":null"));
    assert_true(request->store);
    run_request_free(request);
}

static void test_unknown_keys_are_ignored(void **state)
{
    (void)state;
    run_request_free(fake_accept(WITH("\"frobnicate\":[1,2],\"include\":[\"something.new\"],"
                                      "\"context_management\":[],\"moderation\":{},"
                                      "\"stream_options\":{\"include_obfuscation\":false},"
                                      "\"service_tier\":\"flex\",\"background\":false,"
                                      "\"stream_id\":\"lane\",\"disconnect\":\"detach\"")));
}

static void test_sampling(void **state)
{
    (void)state;
    run_request *request = fake_accept(
        WITH("\"temperature\":0.7,\"top_p\":0.9,\"top_k\":40,\"min_p\":0.05,"
             "\"repetition_penalty\":1.1,\"presence_penalty\":0.5,\"frequency_penalty\":-0.5,"
             "\"seed\":-7,\"cache_salt\":\"pepper\",\"stop\":[\"a\",\"bc\"],\"min_tokens\":3,"
             "\"ignore_eos\":true,"
             "\"max_output_tokens\":16,\"max_tool_calls\":2,\"truncation\":\"auto\""));
    assert_float_equal(request->sampling.temperature, 0.7f, 0);
    assert_float_equal(request->sampling.top_p, 0.9f, 0);
    assert_int_equal(request->sampling.top_k, 40);
    assert_float_equal(request->sampling.min_p, 0.05f, 0);
    assert_float_equal(request->sampling.repetition_penalty, 1.1f, 0);
    assert_float_equal(request->sampling.presence_penalty, 0.5f, 0);
    assert_float_equal(request->sampling.frequency_penalty, -0.5f, 0);
    assert_true(request->sampling.seed == (uint64_t)-7);
    assert_string_equal(request->cache_salt, "pepper");
    assert_int_equal(request->n_stop, 2);
    assert_string_equal(request->stop[1], "bc");
    assert_int_equal(request->min_tokens, 3);
    assert_true(request->ignore_eos);
    assert_int_equal(request->max_tokens, 16);
    assert_true(request->truncate);
    assert_json(json_get(request->echo, "temperature"), "0.7");
    assert_json(json_get(request->echo, "max_output_tokens"), "16");
    assert_json(json_get(request->echo, "max_tool_calls"), "2");
    assert_int_equal(request->priority, RUN_INTERACTIVE);
    run_request_free(request);
    request = fake_accept(WITH("\"priority\":\"batch\""));
    assert_int_equal(request->priority, RUN_BATCH);
    run_request_free(request);
    request = fake_accept(WITH("\"top_k\":-1,\"stop\":\"x\",\"temperature\":0"));
    assert_int_equal(request->sampling.top_k, 0);
    assert_string_equal(request->cache_salt, "");
    assert_float_equal(request->sampling.temperature, 0.0f, 0);
    assert_int_equal(request->n_stop, 1);
    run_request_free(request);
}

static void test_logprobs(void **state)
{
    (void)state;
    run_request *request =
        fake_accept(WITH("\"include\":[\"message.output_text.logprobs\"],\"top_logprobs\":5"));
    assert_true(request->logprobs);
    assert_int_equal(request->top_logprobs, 5);
    run_request_free(request);
    request = fake_accept(WITH("\"top_logprobs\":5"));
    assert_false(request->logprobs);
    assert_int_equal(request->top_logprobs, 0);
    assert_json(json_get(request->echo, "top_logprobs"), "5");
    run_request_free(request);
}

static void test_reasoning(void **state)
{
    (void)state;
    run_request *request =
        fake_accept(WITH("\"reasoning\":{\"effort\":\"high\",\"generate_summary\":\"auto\"}"));
    assert_string_equal(request->reasoning_effort, "high");
    assert_int_equal(request->thinking, 1);
    assert_json(json_get(request->echo, "reasoning"), "{\"effort\":\"high\",\"summary\":\"auto\"}");
    run_request_free(request);
    request = fake_accept(WITH("\"reasoning\":{\"effort\":\"none\"}"));
    assert_null(request->reasoning_effort);
    assert_int_equal(request->thinking, 0);
    run_request_free(request);
    request = fake_accept(WITH("\"chat_template_kwargs\":{\"enable_thinking\":false,\"x\":1}"));
    assert_int_equal(request->thinking, 0);
    run_request_free(request);
    request = fake_accept(WITH("\"chat_template_kwargs\":{\"thinking\":true}"));
    assert_int_equal(request->thinking, 1);
    run_request_free(request);
}

#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"name\":\"a\",\"description\":\"d\",\"parameters\":"       \
    "{\"type\":\"object\"},\"strict\":true},{\"type\":\"function\",\"name\":\"b\"}]"

static void test_tools(void **state)
{
    (void)state;
    run_request *request = fake_accept(WITH(TOOLS ",\"parallel_tool_calls\":false"));
    assert_json(request->tools,
                "[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"description\":\"d\","
                "\"parameters\":{\"type\":\"object\"}}},"
                "{\"type\":\"function\",\"function\":{\"name\":\"b\"}}]");
    assert_json(json_get(request->echo, "tools"),
                "[{\"type\":\"function\",\"name\":\"a\",\"description\":\"d\",\"parameters\":"
                "{\"type\":\"object\"},\"strict\":true},{\"type\":\"function\",\"name\":\"b\","
                "\"description\":null,\"parameters\":null,\"strict\":false}]");
    assert_true(request->one_call);
    run_request_free(request);
}

static void test_tool_choice(void **state)
{
    (void)state;
    run_request *request = fake_accept(WITH(TOOLS ",\"tool_choice\":\"none\""));
    assert_true(request->tools_off);
    assert_json(json_get(request->echo, "tool_choice"), "\"none\"");
    run_request_free(request);
    request =
        fake_accept(WITH(TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\","
                               "\"tools\":[{\"type\":\"function\",\"name\":\"b\"}]}"));
    assert_false(request->tools_off);
    assert_json(request->tools, "[{\"type\":\"function\",\"function\":{\"name\":\"b\"}}]");
    assert_int_equal(cJSON_GetArraySize(json_get(request->echo, "tools")), 2);
    assert_json(json_get(request->echo, "tool_choice"),
                "{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"type\":\"function\","
                "\"name\":\"b\"}]}");
    run_request_free(request);
}

static void test_parent_from_store(void **state)
{
    (void)state;
    run_request *request =
        fake_accept("{\"model\":\"tiny\",\"previous_response_id\":\"resp_root\"}");
    assert_string_equal(request->parent->id, "resp_root");
    assert_int_equal(cJSON_GetArraySize(request->items), 0);
    assert_json(json_get(request->echo, "previous_response_id"), "\"resp_root\"");
    run_request_free(request);
}

/* The record of the connection's memory wins and is given back afterwards. */
static void test_parent_from_memory(void **state)
{
    (void)state;
    fake_world world;
    api_error error;
    parse_env env = fake_env(&world);
    env.parent = fake_record("resp_memory", NULL, "incomplete", "[]", "[]");
    cJSON *body =
        fake_json("{\"model\":\"tiny\",\"input\":\"a\",\"previous_response_id\":\"resp_memory\"}");
    run_request *request = responses_parse(body, &env, &error);
    assert_non_null(request);
    assert_ptr_equal(request->parent, env.parent);
    assert_int_equal(env.parent->references, 2);
    run_request_free(request);
    assert_int_equal(env.parent->references, 1);
    cJSON_Delete(body);
    body = fake_json("{\"model\":\"tiny\",\"input\":\"a\"}"); /* no link: a new chain */
    request = responses_parse(body, &env, &error);
    assert_non_null(request);
    assert_null(request->parent);
    run_request_free(request);
    cJSON_Delete(body);
    run_record_release(env.parent);
}

static void test_warm_up(void **state)
{
    (void)state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"generate\":false,"
                                       "\"instructions\":\"Be brief.\"}");
    assert_false(request->generate);
    assert_string_equal(request->instructions, "Be brief.");
    assert_json(json_get(request->echo, "instructions"), "\"Be brief.\"");
    run_request_free(request);
    request = fake_accept("{\"model\":\"tiny\",\"prompt_cache_options\":{\"prewarm\":true}}");
    assert_false(request->generate);
    run_request_free(request);
}

static void test_echoed_texts(void **state)
{
    (void)state;
    run_request *request =
        fake_accept(WITH("\"store\":false,\"metadata\":{\"k\":\"v\"},\"user\":\"u\","
                         "\"prompt_cache_key\":\"p\",\"safety_identifier\":\"s\""));
    assert_false(request->store);
    assert_json(json_get(request->echo, "store"), "false");
    assert_json(json_get(request->echo, "metadata"), "{\"k\":\"v\"}");
    assert_json(json_get(request->echo, "user"), "\"u\"");
    assert_json(json_get(request->echo, "prompt_cache_key"), "\"p\"");
    assert_json(json_get(request->echo, "safety_identifier"), "\"s\"");
    run_request_free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_null_is_absent),
        cmocka_unit_test(test_unknown_keys_are_ignored),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_tools),
        cmocka_unit_test(test_tool_choice),
        cmocka_unit_test(test_parent_from_store),
        cmocka_unit_test(test_parent_from_memory),
        cmocka_unit_test(test_warm_up),
        cmocka_unit_test(test_echoed_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
