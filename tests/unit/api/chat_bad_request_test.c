/*
 * chat_bad_request_test.c - every refusal of the endpoints around Chat Completions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

#include "api/handlers.h"

enum endpoint { CHAT, TEXT, TOKENIZE, DETOKENIZE };

typedef struct bad_request {
    enum endpoint endpoint;
    const char *body;
    const char *code;
    const char *param;
} bad_request;

/* Short forms: an otherwise good request with one member more. */
#define WITH(member)                                                                               \
    "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]," member "}"
#define MESSAGES(list) "{\"model\":\"tiny\",\"messages\":[" list "]}"
#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define PART(members)                                                                              \
    MESSAGES(USER ",{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{" members  \
                  "}]}")
#define CALL(members) MESSAGES("{\"role\":\"assistant\",\"tool_calls\":[{" members "}]}")
#define TOOL(members) WITH("\"tools\":[{" members "}]")
#define GOOD_TOOL "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"
#define PROMPT(member) "{\"model\":\"tiny\",\"prompt\":\"hi\"," member "}"
#define TYPE "invalid_type"
#define VALUE "invalid_value"
#define MISSING "missing_required_parameter"
#define UNSUPPORTED "unsupported_value"
#define PARAMETER "unsupported_parameter"

static const bad_request bad_requests[] = {
    /* model, messages */
    {CHAT, "{}", MISSING, "model"},
    {CHAT, "{\"model\":7,\"messages\":[" USER "]}", TYPE, "model"},
    {CHAT, "{\"model\":\"nope\",\"messages\":[" USER "]}", "model_not_found", "model"},
    {CHAT, "{\"model\":\"tiny\"}", MISSING, "messages"},
    {CHAT, "{\"model\":\"tiny\",\"messages\":null}", MISSING, "messages"},
    {CHAT, "{\"model\":\"tiny\",\"messages\":\"hi\"}", TYPE, "messages"},
    {CHAT, MESSAGES(""), VALUE, "messages"},
    {CHAT, MESSAGES("\"hi\""), TYPE, "messages[0]"},
    {CHAT, MESSAGES("{}"), MISSING, "messages[0].role"},
    {CHAT, MESSAGES("{\"role\":7}"), TYPE, "messages[0].role"},
    {CHAT, MESSAGES("{\"role\":\"wizard\",\"content\":\"a\"}"), VALUE, "messages[0].role"},
    {CHAT, MESSAGES(USER ",{\"role\":\"function\",\"name\":\"f\",\"content\":\"a\"}"), UNSUPPORTED,
     "messages[1].role"},
    {CHAT, WITH("\"disconnect\":\"stay\""), VALUE, "disconnect"},
    {CHAT, WITH("\"disconnect\":\"detach\""), VALUE, "disconnect"},
    {TEXT, PROMPT("\"disconnect\":7"), TYPE, "disconnect"},
    /* content */
    {CHAT, MESSAGES("{\"role\":\"user\"}"), MISSING, "messages[0].content"},
    {CHAT, MESSAGES("{\"role\":\"system\",\"content\":null}"), MISSING, "messages[0].content"},
    {CHAT, MESSAGES("{\"role\":\"assistant\",\"content\":null}"), MISSING, "messages[0].content"},
    {CHAT, MESSAGES("{\"role\":\"user\",\"content\":7}"), TYPE, "messages[0].content"},
    {CHAT, MESSAGES("{\"role\":\"user\",\"content\":{}}"), TYPE, "messages[0].content"},
    {CHAT, MESSAGES("{\"role\":\"user\",\"content\":[\"a\"]}"), TYPE, "messages[0].content[0]"},
    {CHAT, PART("\"text\":\"a\""), MISSING, "messages[1].content[1].type"},
    {CHAT, PART("\"type\":7"), TYPE, "messages[1].content[1].type"},
    {CHAT, PART("\"type\":\"hologram\""), VALUE, "messages[1].content[1].type"},
    {CHAT, PART("\"type\":\"text\""), MISSING, "messages[1].content[1].text"},
    {CHAT, PART("\"type\":\"text\",\"text\":7"), TYPE, "messages[1].content[1].text"},
    {CHAT, PART("\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/png;base64,AA==\"}"),
     UNSUPPORTED, "messages[1].content[1].type"},
    {CHAT, PART("\"type\":\"input_audio\""), UNSUPPORTED, "messages[1].content[1].type"},
    {CHAT, PART("\"type\":\"file\""), UNSUPPORTED, "messages[1].content[1].type"},
    {CHAT, PART("\"type\":\"video_url\""), UNSUPPORTED, "messages[1].content[1].type"},
    /* calls, outputs, thoughts */
    {CHAT, MESSAGES("{\"role\":\"assistant\",\"tool_calls\":{}}"), TYPE, "messages[0].tool_calls"},
    {CHAT, MESSAGES("{\"role\":\"assistant\",\"tool_calls\":[7]}"), TYPE,
     "messages[0].tool_calls[0]"},
    {CHAT, MESSAGES("{\"role\":\"assistant\",\"tool_calls\":[]}"), MISSING, "messages[0].content"},
    {CHAT, CALL("\"id\":\"c\""), MISSING, "messages[0].tool_calls[0].function"},
    {CHAT, CALL("\"id\":7,\"function\":{\"name\":\"f\"}"), TYPE, "messages[0].tool_calls[0].id"},
    {CHAT, CALL("\"type\":\"custom\",\"function\":{\"name\":\"f\"}"), VALUE,
     "messages[0].tool_calls[0].type"},
    {CHAT, CALL("\"function\":\"f\""), TYPE, "messages[0].tool_calls[0].function"},
    {CHAT, CALL("\"function\":{}"), MISSING, "messages[0].tool_calls[0].function.name"},
    {CHAT, CALL("\"function\":{\"name\":\"f\",\"arguments\":7}"), TYPE,
     "messages[0].tool_calls[0].function.arguments"},
    {CHAT, MESSAGES("{\"role\":\"tool\",\"content\":\"a\"}"), MISSING, "messages[0].tool_call_id"},
    {CHAT, MESSAGES("{\"role\":\"tool\",\"content\":\"a\",\"tool_call_id\":7}"), TYPE,
     "messages[0].tool_call_id"},
    {CHAT, MESSAGES("{\"role\":\"assistant\",\"content\":\"a\",\"reasoning_content\":7}"), TYPE,
     "messages[0].reasoning_content"},
    /* what is not there */
    {CHAT, WITH("\"functions\":[]"), PARAMETER, "functions"},
    {CHAT, WITH("\"function_call\":\"auto\""), PARAMETER, "function_call"},
    {CHAT, WITH("\"modalities\":\"text\""), TYPE, "modalities"},
    {CHAT, WITH("\"modalities\":[\"text\",\"audio\"]"), UNSUPPORTED, "modalities[1]"},
    /* choices */
    {CHAT, WITH("\"n\":0"), VALUE, "n"},
    {CHAT, WITH("\"n\":9"), VALUE, "n"},
    {CHAT, WITH("\"n\":1.5"), TYPE, "n"},
    {CHAT, WITH("\"stream\":\"yes\""), TYPE, "stream"},
    {CHAT, WITH("\"stream_options\":true"), TYPE, "stream_options"},
    {CHAT, WITH("\"stream_options\":{\"include_usage\":1}"), TYPE, "stream_options.include_usage"},
    {CHAT, WITH("\"logit_bias\":[]"), TYPE, "logit_bias"},
    {CHAT, WITH("\"logit_bias\":{\"x\":1}"), VALUE, "logit_bias"},
    {CHAT, WITH("\"logit_bias\":{\"-1\":1}"), VALUE, "logit_bias"},
    {CHAT, WITH("\"logit_bias\":{\"256\":1}"), VALUE, "logit_bias"},
    {CHAT, WITH("\"logit_bias\":{\"99999999999999999999\":1}"), VALUE, "logit_bias"},
    {CHAT, WITH("\"logit_bias\":{\"5\":\"much\"}"), TYPE, "logit_bias.5"},
    {CHAT, WITH("\"logit_bias\":{\"5\":101}"), VALUE, "logit_bias.5"},
    /* sampling and limits */
    {CHAT, WITH("\"temperature\":2.1"), VALUE, "temperature"},
    {CHAT, WITH("\"top_p\":\"all\""), TYPE, "top_p"},
    {CHAT, WITH("\"seed\":0.5"), TYPE, "seed"},
    {CHAT, WITH("\"cache_salt\":\"\""), VALUE, "cache_salt"},
    {CHAT, WITH("\"presence_penalty\":3"), VALUE, "presence_penalty"},
    {CHAT, WITH("\"stop\":{}"), TYPE, "stop"},
    {CHAT, WITH("\"stop\":[\"\"]"), VALUE, "stop[0]"},
    {CHAT, WITH("\"max_tokens\":0"), VALUE, "max_tokens"},
    {CHAT, WITH("\"max_tokens\":\"5\""), TYPE, "max_tokens"},
    {CHAT, WITH("\"max_completion_tokens\":-1"), VALUE, "max_completion_tokens"},
    {CHAT, WITH("\"max_tokens\":5,\"min_tokens\":6"), VALUE, "min_tokens"},
    {CHAT, WITH("\"priority\":\"urgent\""), VALUE, "priority"},
    {CHAT, WITH("\"logprobs\":5"), TYPE, "logprobs"},
    {CHAT, WITH("\"top_logprobs\":2"), VALUE, "top_logprobs"},
    {CHAT, WITH("\"logprobs\":true,\"top_logprobs\":21"), VALUE, "top_logprobs"},
    /* thoughts, format */
    {CHAT, WITH("\"reasoning_effort\":\"huge\""), VALUE, "reasoning_effort"},
    {CHAT, WITH("\"enable_thinking\":\"no\""), TYPE, "enable_thinking"},
    {CHAT, WITH("\"thinking\":\"no\""), TYPE, "thinking"},
    {CHAT, WITH("\"thinking\":{\"type\":\"maybe\"}"), VALUE, "thinking.type"},
    {CHAT, WITH("\"chat_template_kwargs\":[]"), TYPE, "chat_template_kwargs"},
    {CHAT, WITH("\"response_format\":\"json\""), TYPE, "response_format"},
    {CHAT, WITH("\"response_format\":{}"), MISSING, "response_format.type"},
    {CHAT, WITH("\"response_format\":{\"type\":\"xml\"}"), VALUE, "response_format.type"},
    {CHAT, WITH("\"response_format\":{\"type\":\"json_object\"}"), UNSUPPORTED,
     "response_format.type"},
    {CHAT, WITH("\"response_format\":{\"type\":\"json_schema\"}"), MISSING,
     "response_format.json_schema"},
    {CHAT, WITH("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":\"{}\"}"), TYPE,
     "response_format.json_schema"},
    {CHAT,
     WITH("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":\"{}\"}}"),
     TYPE, "response_format.json_schema.schema"},
    {CHAT,
     WITH("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\","
          "\"schema\":{\"type\":\"object\"}}}"),
     UNSUPPORTED, "response_format.type"},
    {CHAT,
     WITH("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"type\":\"object\","
          "\"properties\":{\"name\":{\"type\":\"string\"}}}}"),
     UNSUPPORTED, "response_format.type"},
    /* tools */
    {CHAT, WITH("\"tools\":{}"), TYPE, "tools"},
    {CHAT, TOOL("\"function\":{\"name\":\"f\"}"), MISSING, "tools[0].type"},
    {CHAT, TOOL("\"type\":\"web_search\""), UNSUPPORTED, "tools[0].type"},
    {CHAT, TOOL("\"type\":\"function\",\"name\":\"f\""), MISSING, "tools[0].function"},
    {CHAT, TOOL("\"type\":\"function\",\"function\":[]"), TYPE, "tools[0].function"},
    {CHAT, TOOL("\"type\":\"function\",\"function\":{}"), MISSING, "tools[0].function.name"},
    {CHAT, TOOL("\"type\":\"function\",\"function\":{\"name\":\"a b\"}"), VALUE,
     "tools[0].function.name"},
    {CHAT, TOOL("\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":[]}"), TYPE,
     "tools[0].function.parameters"},
    {CHAT, WITH("\"tool_choice\":\"required\""), VALUE, "tool_choice"},
    {CHAT, WITH(GOOD_TOOL ",\"tool_choice\":\"required\""), UNSUPPORTED, "tool_choice"},
    {CHAT, WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"function\",\"name\":\"f\"}"), MISSING,
     "tool_choice.function"},
    {CHAT, WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"g\"}}"),
     VALUE, "tool_choice.function.name"},
    {CHAT, WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"),
     UNSUPPORTED, "tool_choice"},
    {CHAT, WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"allowed_tools\"}"), MISSING,
     "tool_choice.allowed_tools.tools"},
    {CHAT,
     WITH(GOOD_TOOL ",\"tool_choice\":{\"type\":\"allowed_tools\",\"allowed_tools\":{\"mode\":"
                    "\"required\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}"
                    "]}}"),
     UNSUPPORTED, "tool_choice.allowed_tools.mode"},
    /* completions */
    {TEXT, "{\"prompt\":\"hi\"}", MISSING, "model"},
    {TEXT, "{\"model\":\"tiny\"}", MISSING, "prompt"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":{}}", TYPE, "prompt"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[]}", VALUE, "prompt"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[true]}", TYPE, "prompt[0]"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[\"a\",\"b\"]}", UNSUPPORTED, "prompt"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[[1],[2]]}", UNSUPPORTED, "prompt"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[1,\"a\"]}", TYPE, "prompt[1]"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[1,256]}", VALUE, "prompt[1]"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[[-1]]}", VALUE, "prompt[0][0]"},
    {TEXT, "{\"model\":\"tiny\",\"prompt\":[1.5]}", VALUE, "prompt[0]"},
    {TEXT, PROMPT("\"suffix\":\"x\""), PARAMETER, "suffix"},
    {TEXT, PROMPT("\"suffix\":1"), TYPE, "suffix"},
    {TEXT, PROMPT("\"best_of\":3"), UNSUPPORTED, "best_of"},
    {TEXT, PROMPT("\"max_tokens\":-1"), VALUE, "max_tokens"},
    {TEXT, PROMPT("\"min_tokens\":17"), VALUE, "min_tokens"},
    {TEXT, PROMPT("\"cache_salt\":[1]"), TYPE, "cache_salt"},
    {TEXT, PROMPT("\"priority\":[\"batch\"]"), TYPE, "priority"},
    {TEXT, PROMPT("\"echo\":1"), TYPE, "echo"},
    {TEXT, PROMPT("\"logprobs\":true"), TYPE, "logprobs"},
    {TEXT, PROMPT("\"logprobs\":21"), VALUE, "logprobs"},
    {TEXT, PROMPT("\"logprobs\":1,\"echo\":true"), UNSUPPORTED, "logprobs"},
    {TEXT, PROMPT("\"n\":9"), VALUE, "n"},
    {TEXT, PROMPT("\"stop\":7"), TYPE, "stop"},
    {TEXT, PROMPT("\"parse_special\":1"), TYPE, "parse_special"},
    /* tokenize, detokenize */
    {TOKENIZE, "{}", MISSING, "prompt"},
    {TOKENIZE, "{\"model\":\"nope\",\"prompt\":\"a\"}", "model_not_found", "model"},
    {TOKENIZE, "{\"prompt\":7}", TYPE, "prompt"},
    {TOKENIZE, "{\"content\":[]}", TYPE, "content"},
    {TOKENIZE, "{\"prompt\":\"a\",\"add_special_tokens\":1}", TYPE, "add_special_tokens"},
    {TOKENIZE, "{\"prompt\":\"a\",\"return_token_strs\":1}", TYPE, "return_token_strs"},
    {TOKENIZE, "{\"content\":\"a\",\"with_pieces\":1}", TYPE, "with_pieces"},
    {TOKENIZE, "{\"messages\":[{\"role\":\"user\"}]}", MISSING, "messages[0].content"},
    {TOKENIZE, MESSAGES(USER), UNSUPPORTED, "model"}, /* it has no chat template */
    {DETOKENIZE, "{}", MISSING, "tokens"},
    {DETOKENIZE, "{\"tokens\":\"a\"}", TYPE, "tokens"},
    {DETOKENIZE, "{\"tokens\":[\"a\"]}", TYPE, "tokens[0]"},
    {DETOKENIZE, "{\"tokens\":[97,1e9]}", VALUE, "tokens[1]"},
    {DETOKENIZE, "{\"model\":7,\"tokens\":[]}", TYPE, "model"},
};

static bool accepted(enum endpoint endpoint, cJSON *body, api_error *error)
{
    fake_world world;
    parse_env env = fake_env(&world);
    parse_choices choices;
    buf out;
    buf_init(&out, 1 << 20);
    bool ok;
    if (endpoint == TOKENIZE || endpoint == DETOKENIZE) {
        ok = endpoint == TOKENIZE ? tokens_encode(&env, NULL, body, &out, error)
                                  : tokens_decode(&env, body, &out, error);
    } else {
        run_request *request = endpoint == CHAT ? chat_parse(body, &env, &choices, error)
                                                : completions_parse(body, &env, &choices, error);
        ok = request != NULL;
        run_request_free(request);
    }
    buf_clear(&out);
    return ok;
}

static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_requests / sizeof bad_requests[0]; i++) {
        const bad_request *bad = &bad_requests[i];
        api_error error;
        cJSON *body = fake_json(bad->body);
        if (accepted(bad->endpoint, body, &error))
            fail_msg("accepted: %s", bad->body);
        cJSON_Delete(body);
        int status = strcmp(bad->code, "model_not_found") == 0 ? 404 : 400;
        if (error.status != status || strcmp(error.code, bad->code) != 0 ||
            strcmp(error.param, bad->param) != 0 || !*error.message)
            fail_msg("%s\n  gave %d %s %s (%s)\n  wanted %d %s %s", bad->body, error.status,
                     error.code, error.param, error.message, status, bad->code, bad->param);
        assert_string_equal(error.type, "invalid_request_error");
    }
    assert_true(sizeof bad_requests / sizeof bad_requests[0] >= 60);
}

/* Dify sends a request again without thoughts or with other limits when it reads one of
 * these in an error, so no other error may say them. */
static void test_words_for_dify(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_requests / sizeof bad_requests[0]; i++) {
        const bad_request *bad = &bad_requests[i];
        api_error error;
        cJSON *body = fake_json(bad->body);
        accepted(bad->endpoint, body, &error);
        cJSON_Delete(body);
        assert_null(strstr(error.message, "budget_tokens"));
        assert_null(strstr(error.message, "integer_below_min_value"));
        if (!strstr(error.param, "thinking"))
            assert_null(strstr(error.message, "thinking"));
    }
}

static void test_too_many(void **state)
{
    (void)state;
    buf text;
    api_error error;
    buf_init(&text, 1 << 24);
    buf_add_text(&text, "{\"model\":\"tiny\",\"messages\":[" USER);
    for (int i = 0; i < PARSE_MAX_ITEMS; i++)
        buf_add_text(&text, "," USER);
    buf_add_text(&text, "]}");
    cJSON *body = fake_json(text.data);
    assert_false(accepted(CHAT, body, &error));
    assert_string_equal(error.param, "messages");
    cJSON_Delete(body);
    buf_reset(&text);
    buf_add_text(&text, "{\"model\":\"tiny\",\"messages\":[" USER "],\"logit_bias\":{\"0\":1");
    for (int i = 0; i < PARSE_MAX_BIASES; i++)
        buf_add_text(&text, ",\"1\":1");
    buf_add_text(&text, "}}");
    body = fake_json(text.data);
    assert_false(accepted(CHAT, body, &error));
    assert_string_equal(error.param, "logit_bias");
    cJSON_Delete(body);
    buf_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_words_for_dify),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
