/*
 * bad_request_test.c - every refusal of a Responses request: status, code, param.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

typedef struct bad_request {
    const char *body;
    int status;
    const char *code;
    const char *param;
} bad_request;

/* Short forms: an otherwise good request with one member more. */
#define WITH(member) "{\"model\":\"tiny\",\"input\":\"hi\"," member "}"
#define ITEMS(items) "{\"model\":\"tiny\",\"input\":[" items "]}"
#define TOOL(members) WITH("\"tools\":[{" members "}]")
#define GOOD_TOOL "\"tools\":[{\"type\":\"function\",\"name\":\"f\"}]"
#define TYPE "invalid_type"
#define VALUE "invalid_value"
#define MISSING "missing_required_parameter"
#define UNSUPPORTED "unsupported_value"

static const bad_request bad_requests[] = {
    /* model */
    {"{}", 400, MISSING, "model"},
    {"{\"input\":\"hi\"}", 400, MISSING, "model"},
    {"{\"model\":null,\"input\":\"hi\"}", 400, MISSING, "model"},
    {"{\"model\":7,\"input\":\"hi\"}", 400, TYPE, "model"},
    {"{\"model\":\"no-such-model\",\"input\":\"hi\"}", 404, "model_not_found", "model"},
    {"{\"model\":\"\",\"input\":\"hi\"}", 404, "model_not_found", "model"},
    /* input */
    {"{\"model\":\"tiny\"}", 400, MISSING, "input"},
    {"{\"model\":\"tiny\",\"input\":null}", 400, MISSING, "input"},
    {"{\"model\":\"tiny\",\"input\":7}", 400, TYPE, "input"},
    {"{\"model\":\"tiny\",\"input\":{}}", 400, TYPE, "input"},
    {"{\"model\":\"tiny\",\"input\":[]}", 400, VALUE, "input"},
    {ITEMS("7"), 400, TYPE, "input[0]"},
    {ITEMS("{}"), 400, MISSING, "input[0].type"},
    {ITEMS("{\"type\":7}"), 400, TYPE, "input[0].type"},
    {ITEMS("{\"role\":\"user\",\"content\":\"a\"},{\"type\":\"compaction\"}"), 400, UNSUPPORTED,
     "input[1].type"},
    {ITEMS("{\"type\":\"custom_tool_call\"}"), 400, UNSUPPORTED, "input[0].type"},
    /* messages */
    {ITEMS("{\"type\":\"message\",\"content\":\"a\"}"), 400, MISSING, "input[0].role"},
    {ITEMS("{\"role\":\"user\"}"), 400, MISSING, "input[0].content"},
    {ITEMS("{\"role\":\"tool\",\"content\":\"a\"}"), 400, VALUE, "input[0].role"},
    {ITEMS("{\"role\":[],\"content\":\"a\"}"), 400, TYPE, "input[0].role"},
    {ITEMS("{\"role\":\"user\",\"content\":7}"), 400, TYPE, "input[0].content"},
    {ITEMS("{\"role\":\"user\",\"content\":[7]}"), 400, TYPE, "input[0].content[0]"},
    {ITEMS("{\"role\":\"user\",\"content\":[{}]}"), 400, MISSING, "input[0].content[0].type"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}"), 400, VALUE,
     "input[0].content[0].type"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\"}]}"), 400, MISSING,
     "input[0].content[0].text"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":7}]}"), 400, TYPE,
     "input[0].content[0].text"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},"
           "{\"type\":\"input_image\",\"image_url\":\"data:\"}]}"),
     400, UNSUPPORTED, "input[0].content[1].type"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"input_file\"}]}"), 400, UNSUPPORTED,
     "input[0].content[0].type"},
    {ITEMS("{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}"), 400,
     VALUE, "input[0].content[0].type"},
    {ITEMS("{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\"}]}"), 400, MISSING,
     "input[0].content[0].refusal"},
    {ITEMS("{\"role\":\"user\",\"content\":\"a\",\"id\":7}"), 400, TYPE, "input[0].id"},
    {ITEMS("{\"role\":\"user\",\"content\":\"a\",\"status\":\"done\"}"), 400, VALUE,
     "input[0].status"},
    {ITEMS("{\"role\":\"assistant\",\"content\":\"a\",\"phase\":\"x\"}"), 400, VALUE,
     "input[0].phase"},
    /* calls and their outputs */
    {ITEMS("{\"type\":\"function_call\",\"name\":\"f\",\"arguments\":\"{}\"}"), 400, MISSING,
     "input[0].call_id"},
    {ITEMS("{\"type\":\"function_call\",\"call_id\":\"c\",\"arguments\":\"{}\"}"), 400, MISSING,
     "input[0].name"},
    {ITEMS("{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\"}"), 400, MISSING,
     "input[0].arguments"},
    {ITEMS("{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":{}}"), 400,
     TYPE, "input[0].arguments"},
    {ITEMS("{\"type\":\"function_call_output\",\"output\":\"x\"}"), 400, MISSING,
     "input[0].call_id"},
    {ITEMS("{\"type\":\"function_call_output\",\"call_id\":\"call_known\"}"), 400, MISSING,
     "input[0].output"},
    {ITEMS("{\"type\":\"function_call_output\",\"call_id\":\"call_nope\",\"output\":\"x\"}"), 400,
     VALUE, "input[0].call_id"},
    {ITEMS("{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"x\"},"
           "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}"),
     400, VALUE, "input[0].call_id"},
    {"{\"model\":\"tiny\",\"previous_response_id\":\"resp_root\",\"input\":[{\"type\":"
     "\"function_call_output\",\"call_id\":\"call_nope\",\"output\":\"x\"}]}",
     400, VALUE, "input[0].call_id"},
    {"{\"model\":\"tiny\",\"previous_response_id\":\"resp_root\",\"input\":[{\"type\":"
     "\"function_call_output\",\"call_id\":\"call_known\",\"output\":7}]}",
     400, TYPE, "input[0].output"},
    {"{\"model\":\"tiny\",\"previous_response_id\":\"resp_root\",\"input\":[{\"type\":"
     "\"function_call_output\",\"call_id\":\"call_known\",\"output\":[{\"type\":\"input_image\"}]}]"
     "}",
     400, UNSUPPORTED, "input[0].output[0].type"},
    /* reasoning, references */
    {ITEMS("{\"type\":\"reasoning\",\"summary\":\"a\"}"), 400, TYPE, "input[0].summary"},
    {ITEMS("{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\"}]}"), 400, MISSING,
     "input[0].summary[0].text"},
    {ITEMS("{\"type\":\"reasoning\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]}"), 400, VALUE,
     "input[0].content[0].type"},
    {ITEMS("{\"type\":\"item_reference\"}"), 400, MISSING, "input[0].id"},
    {ITEMS("{\"type\":\"item_reference\",\"id\":\"msg_nope\"}"), 404, "item_not_found",
     "input[0].id"},
    /* links */
    {WITH("\"previous_response_id\":7"), 400, TYPE, "previous_response_id"},
    {WITH("\"previous_response_id\":\"resp_nope\""), 400, "previous_response_not_found",
     "previous_response_id"},
    {WITH("\"previous_response_id\":\"resp_failed\""), 400, "previous_response_not_found",
     "previous_response_id"},
    {WITH("\"conversation\":\"conv_nope\""), 404, "", "conversation"},
    {WITH("\"conversation\":\"conv_busy\""), 409, "conversation_locked", "conversation"},
    {WITH("\"conversation\":7"), 400, TYPE, "conversation"},
    {WITH("\"conversation\":{}"), 400, MISSING, "conversation.id"},
    {WITH("\"conversation\":{\"id\":1}"), 400, TYPE, "conversation.id"},
    {WITH("\"conversation\":\"conv_full\",\"store\":false"), 400, VALUE, "store"},
    {WITH("\"conversation\":\"conv_full\",\"previous_response_id\":\"resp_root\""), 400, VALUE,
     "conversation"},
    {"{\"model\":\"tiny\",\"conversation\":\"conv_empty\"}", 400, MISSING, "input"},
    {WITH("\"background\":true,\"store\":false"), 400, VALUE, "background"},
    {WITH("\"background\":true,\"disconnect\":\"cancel\""), 400, VALUE, "disconnect"},
    {WITH("\"disconnect\":\"stay\""), 400, VALUE, "disconnect"},
    {WITH("\"disconnect\":true"), 400, TYPE, "disconnect"},
    {WITH("\"disconnect\":\"detach\",\"store\":false"), 400, VALUE, "disconnect"},
    {WITH("\"background\":\"yes\""), 400, TYPE, "background"},
    {WITH("\"prompt\":{\"id\":\"pmpt_1\"}"), 400, "unsupported_parameter", "prompt"},
    /* texts and switches */
    {WITH("\"instructions\":7"), 400, TYPE, "instructions"},
    {WITH("\"instructions\":[]"), 400, UNSUPPORTED, "instructions"},
    {WITH("\"store\":\"yes\""), 400, TYPE, "store"},
    {WITH("\"stream\":1"), 400, TYPE, "stream"},
    {WITH("\"generate\":0"), 400, TYPE, "generate"},
    {WITH("\"truncation\":\"some\""), 400, VALUE, "truncation"},
    {WITH("\"metadata\":[]"), 400, TYPE, "metadata"},
    {WITH("\"metadata\":{\"a\":1}"), 400, TYPE, "metadata.a"},
    {WITH("\"user\":{}"), 400, TYPE, "user"},
    {WITH("\"prompt_cache_key\":1"), 400, TYPE, "prompt_cache_key"},
    {WITH("\"prompt_cache_options\":{\"prewarm\":1}"), 400, TYPE, "prompt_cache_options.prewarm"},
    /* sampling and limits */
    {WITH("\"temperature\":9"), 400, VALUE, "temperature"},
    {WITH("\"temperature\":-0.1"), 400, VALUE, "temperature"},
    {WITH("\"temperature\":\"hot\""), 400, TYPE, "temperature"},
    {WITH("\"top_p\":1.1"), 400, VALUE, "top_p"},
    {WITH("\"top_k\":-2"), 400, VALUE, "top_k"},
    {WITH("\"min_p\":2"), 400, VALUE, "min_p"},
    {WITH("\"repetition_penalty\":0"), 400, VALUE, "repetition_penalty"},
    {WITH("\"presence_penalty\":3"), 400, VALUE, "presence_penalty"},
    {WITH("\"frequency_penalty\":-3"), 400, VALUE, "frequency_penalty"},
    {WITH("\"seed\":\"x\""), 400, TYPE, "seed"},
    {WITH("\"seed\":1e300"), 400, VALUE, "seed"},
    {WITH("\"cache_salt\":7"), 400, TYPE, "cache_salt"},
    {WITH("\"cache_salt\":\"\""), 400, VALUE, "cache_salt"},
    {WITH("\"cache_salt\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefx\""),
     400, VALUE, "cache_salt"},
    {WITH("\"max_output_tokens\":0"), 400, VALUE, "max_output_tokens"},
    {WITH("\"max_output_tokens\":1.5"), 400, TYPE, "max_output_tokens"},
    {WITH("\"max_output_tokens\":\"many\""), 400, TYPE, "max_output_tokens"},
    {WITH("\"max_output_tokens\":5,\"min_tokens\":6"), 400, VALUE, "min_tokens"},
    {WITH("\"top_logprobs\":21"), 400, VALUE, "top_logprobs"},
    {WITH("\"include\":\"all\""), 400, TYPE, "include"},
    {WITH("\"include\":[1]"), 400, TYPE, "include[0]"},
    {WITH("\"stop\":7"), 400, TYPE, "stop"},
    {WITH("\"stop\":\"\""), 400, VALUE, "stop"},
    {WITH("\"stop\":[\"a\",7]"), 400, TYPE, "stop[1]"},
    {WITH("\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"0\",\"1\",\"2\",\"3\","
          "\"4\",\"5\",\"6\",\"7\"]"),
     400, VALUE, "stop"},
    {WITH("\"ignore_eos\":1"), 400, TYPE, "ignore_eos"},
    {WITH("\"priority\":\"urgent\""), 400, VALUE, "priority"},
    {WITH("\"priority\":1"), 400, TYPE, "priority"},
    /* reasoning, text */
    {WITH("\"reasoning\":\"high\""), 400, TYPE, "reasoning"},
    {WITH("\"reasoning\":{\"effort\":\"huge\"}"), 400, VALUE, "reasoning.effort"},
    {WITH("\"reasoning\":{\"summary\":\"long\"}"), 400, VALUE, "reasoning.summary"},
    {WITH("\"chat_template_kwargs\":[]"), 400, TYPE, "chat_template_kwargs"},
    {WITH("\"chat_template_kwargs\":{\"enable_thinking\":\"no\"}"), 400, TYPE,
     "chat_template_kwargs.enable_thinking"},
    {WITH("\"text\":\"json\""), 400, TYPE, "text"},
    {WITH("\"text\":{\"verbosity\":\"loud\"}"), 400, VALUE, "text.verbosity"},
    {WITH("\"text\":{\"format\":{}}"), 400, MISSING, "text.format.type"},
    {WITH("\"text\":{\"format\":{\"type\":\"xml\"}}"), 400, VALUE, "text.format.type"},
    {WITH("\"text\":{\"format\":{\"type\":\"json_object\"}}"), 400, UNSUPPORTED,
     "text.format.type"},
    {WITH("\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{}}}"), 400,
     UNSUPPORTED, "text.format.type"},
    /* tools */
    {WITH("\"tools\":{}"), 400, TYPE, "tools"},
    {WITH("\"tools\":[7]"), 400, TYPE, "tools[0]"},
    {TOOL("\"name\":\"f\""), 400, MISSING, "tools[0].type"},
    {TOOL("\"type\":\"web_search\""), 400, UNSUPPORTED, "tools[0].type"},
    {TOOL("\"type\":\"function\""), 400, MISSING, "tools[0].name"},
    {TOOL("\"type\":\"function\",\"function\":{\"name\":\"f\"}"), 400, MISSING, "tools[0].name"},
    {TOOL("\"type\":\"function\",\"name\":\"\""), 400, VALUE, "tools[0].name"},
    {TOOL("\"type\":\"function\",\"name\":\"two words\""), 400, VALUE, "tools[0].name"},
    {TOOL("\"type\":\"function\",\"name\":\"f\",\"parameters\":\"{}\""), 400, TYPE,
     "tools[0].parameters"},
    {TOOL("\"type\":\"function\",\"name\":\"f\",\"description\":1"), 400, TYPE,
     "tools[0].description"},
    {TOOL("\"type\":\"function\",\"name\":\"f\",\"strict\":1"), 400, TYPE, "tools[0].strict"},
    {TOOL("\"type\":\"function\",\"name\":\"f\"},{\"type\":\"function\",\"name\":\"f\""), 400,
     VALUE, "tools[1].name"},
    {WITH("\"parallel_tool_calls\":0"), 400, TYPE, "parallel_tool_calls"},
    {WITH("\"max_tool_calls\":0"), 400, VALUE, "max_tool_calls"},
    /* tool_choice */
    {WITH("\"tool_choice\":7"), 400, TYPE, "tool_choice"},
    {WITH("\"tool_choice\":\"maybe\""), 400, VALUE, "tool_choice"},
    {WITH("\"tool_choice\":\"required\""), 400, VALUE, "tool_choice"},
    {WITH(GOOD_TOOL ",\"tool_choice\":\"required\""), 400, UNSUPPORTED, "tool_choice"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{}"), 400, MISSING, "tool_choice.type"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"function\"}"), 400, MISSING, "tool_choice.name"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"function\",\"name\":\"g\"}"), 400, VALUE,
     "tool_choice.name"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}"), 400, UNSUPPORTED,
     "tool_choice"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"web_search\"}"), 400, UNSUPPORTED,
     "tool_choice.type"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"allowed_tools\"}"), 400, MISSING,
     "tool_choice.tools"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"some\"}"), 400, VALUE,
     "tool_choice.mode"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"auto\",\"tools\":"
                    "[{\"type\":\"function\",\"name\":\"g\"}]}"),
     400, VALUE, "tool_choice.tools[0].name"},
    {WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"allowed_tools\",\"mode\":\"required\",\"tools\":"
                    "[{\"type\":\"function\",\"name\":\"f\"}]}"),
     400, UNSUPPORTED, "tool_choice.mode"},
};

static void test_table(void **state)
{
    (void)state;
    fake_world world;
    parse_env env = fake_env(&world);
    for (size_t i = 0; i < sizeof bad_requests / sizeof bad_requests[0]; i++) {
        const bad_request *bad = &bad_requests[i];
        api_error error;
        cJSON *body = fake_json(bad->body);
        run_request *request = responses_parse(body, &env, &error);
        cJSON_Delete(body);
        if (request)
            fail_msg("accepted: %s", bad->body);
        if (error.status != bad->status || strcmp(error.code ? error.code : "", bad->code) != 0 ||
            strcmp(error.param, bad->param) != 0 || !*error.message)
            fail_msg("%s\n  gave %d %s %s (%s)\n  wanted %d %s %s", bad->body, error.status,
                     error.code ? error.code : "", error.param, error.message, bad->status,
                     bad->code, bad->param);
        assert_string_equal(error.type, "invalid_request_error");
    }
    assert_true(sizeof bad_requests / sizeof bad_requests[0] >= 60);
}

/* Limits that a table of texts would be too long for. */
static void refused_at(const char *text, const char *param)
{
    fake_world world;
    parse_env env = fake_env(&world);
    api_error error;
    cJSON *body = fake_json(text);
    assert_null(responses_parse(body, &env, &error));
    cJSON_Delete(body);
    assert_int_equal(error.status, 400);
    assert_string_equal(error.code, "invalid_value");
    assert_string_equal(error.param, param);
}

static void repeat(buf *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        buf_add_text(out, i ? "," : "");
        buf_add_text(out, text);
    }
}

static void test_too_many(void **state)
{
    (void)state;
    buf text;
    buf_init(&text, 1 << 24);
    buf_add_text(&text, "{\"model\":\"tiny\",\"input\":[");
    repeat(&text, "{\"role\":\"user\",\"content\":\"a\"}", PARSE_MAX_ITEMS + 1);
    buf_add_text(&text, "]}");
    refused_at(text.data, "input");
    buf_reset(&text);
    buf_add_text(&text, "{\"model\":\"tiny\",\"input\":[{\"role\":\"user\",\"content\":[");
    repeat(&text, "{\"type\":\"input_text\",\"text\":\"a\"}", PARSE_MAX_PARTS + 1);
    buf_add_text(&text, "]}]}");
    refused_at(text.data, "input[0].content");
    buf_reset(&text);
    buf_add_text(&text, "{\"model\":\"tiny\",\"input\":\"a\",\"tools\":[");
    repeat(&text, "{\"type\":\"function\",\"name\":\"a\"}", PARSE_MAX_TOOLS + 1);
    buf_add_text(&text, "]}");
    refused_at(text.data, "tools");
    buf_reset(&text);
    buf_add_text(&text, "{\"model\":\"tiny\",\"input\":\"a\",\"metadata\":{");
    for (int i = 0; i < 17; i++)
        buf_printf(&text, "%s\"k%d\":\"v\"", i ? "," : "", i);
    buf_add_text(&text, "}}");
    refused_at(text.data, "metadata");
    buf_clear(&text);
}

static void test_messages_say_what_is_right(void **state)
{
    (void)state;
    fake_world world;
    parse_env env = fake_env(&world);
    api_error error;
    cJSON *body = fake_json("{\"model\":\"gpt\",\"input\":\"a\"}");
    assert_null(responses_parse(body, &env, &error));
    assert_non_null(strstr(error.message, "'gpt'"));
    assert_non_null(strstr(error.message, "'tiny'"));
    cJSON_Delete(body);
    body = fake_json("{\"model\":\"tiny\",\"input\":\"a\",\"temperature\":9}");
    assert_null(responses_parse(body, &env, &error));
    assert_non_null(strstr(error.message, "9"));
    assert_non_null(strstr(error.message, "between 0 and 2"));
    cJSON_Delete(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_messages_say_what_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
