/*
 * items_test.c - input items come out whole, whatever the client left out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

static run_request *accept(const char *items, const char *parent)
{
    buf text;
    buf_init(&text, 65536);
    buf_add_text(&text, "{\"model\":\"tiny\"");
    if (parent)
        buf_printf(&text, ",\"previous_response_id\":\"%s\"", parent);
    buf_printf(&text, ",\"input\":%s}", items);
    run_request *request = fake_accept(text.data);
    buf_clear(&text);
    return request;
}

/* Accepts the input and compares the items; ids that were made here read "prefix_*". */
static void check(const char *input, const char *parent, const char *wanted)
{
    static const char *const prefixes[] = {"msg_", "fc_", "fco_", "rs_"};
    run_request *request = accept(input, parent);
    cJSON *want = fake_json(wanted);
    cJSON *each;
    cJSON_ArrayForEach(each, request->items)
    {
        const char *id = json_get_text(each, "id");
        assert_non_null(id);
        for (size_t i = 0; i < 4; i++) {
            size_t n = strlen(prefixes[i]);
            char replacement[8];
            if (strncmp(id, prefixes[i], n) != 0 || strlen(id) != n + 32)
                continue;
            snprintf(replacement, sizeof replacement, "%s*", prefixes[i]);
            cJSON_SetValuestring(cJSON_GetObjectItem(each, "id"), replacement);
            break;
        }
    }
    char *got_text = json_print(request->items);
    char *want_text = json_print(want);
    assert_string_equal(got_text, want_text);
    free(got_text);
    free(want_text);
    cJSON_Delete(want);
    run_request_free(request);
}

#define USER(id, text)                                                                             \
    "{\"type\":\"message\",\"id\":\"" id "\",\"status\":\"completed\",\"role\":\"user\","          \
    "\"content\":[{\"type\":\"input_text\",\"text\":\"" text "\"}]}"
#define ASSISTANT(id, text)                                                                        \
    "{\"type\":\"message\",\"id\":\"" id "\",\"status\":\"completed\",\"role\":\"assistant\","     \
    "\"content\":[{\"type\":\"output_text\",\"text\":\"" text                                      \
    "\",\"annotations\":[],\"logprobs\":[]}]}"
#define CALL(id)                                                                                   \
    "{\"type\":\"function_call\",\"id\":\"" id "\",\"status\":\"completed\",\"call_id\":\"c\","    \
    "\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}"

static void test_messages(void **state)
{
    (void)state;
    check("\"hi\"", NULL, "[" USER("msg_*", "hi") "]");
    check("\"\"", NULL, "[" USER("msg_*", "") "]");
    check("[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"yo\"}]",
          NULL, "[" USER("msg_*", "hi") "," ASSISTANT("msg_*", "yo") "]");
    check("[{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"content\":"
          "[{\"type\":\"input_text\",\"text\":\"yo\"}]}]",
          NULL, "[" ASSISTANT("msg_1", "yo") "]");
    check("[{\"role\":\"user\",\"content\":[{\"type\":\"output_text\",\"text\":\"hi\","
          "\"annotations\":[]}]}]",
          NULL, "[" USER("msg_*", "hi") "]");
    check(
        "[{\"role\":\"developer\",\"content\":[],\"status\":\"incomplete\",\"id\":null}]", NULL,
        "[{\"type\":\"message\",\"id\":\"msg_*\",\"status\":\"incomplete\",\"role\":\"developer\","
        "\"content\":[]}]");
    check("[{\"role\":\"assistant\",\"phase\":\"commentary\",\"content\":[{\"type\":\"refusal\","
          "\"refusal\":\"no\"}]}]",
          NULL,
          "[{\"type\":\"message\",\"id\":\"msg_*\",\"status\":\"completed\",\"role\":\"assistant\","
          "\"phase\":\"commentary\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"}]}]");
}

static void test_calls(void **state)
{
    (void)state;
    check("[{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\","
          "\"arguments\":\"{\\\"a\\\":1}\"},"
          "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"3\"}]",
          NULL,
          "[" CALL("fc_*") ",{\"type\":\"function_call_output\",\"id\":\"fco_*\","
                           "\"status\":\"completed\",\"call_id\":\"c\",\"output\":\"3\"}]");
    check("[{\"type\":\"function_call_output\",\"call_id\":\"call_known\",\"output\":"
          "[{\"type\":\"input_text\",\"text\":\"noon\"}]}]",
          "resp_child",
          "[{\"type\":\"function_call_output\",\"id\":\"fco_*\",\"status\":\"completed\","
          "\"call_id\":\"call_known\",\"output\":[{\"type\":\"input_text\",\"text\":\"noon\"}]}]");
}

static void test_reasoning(void **state)
{
    (void)state;
    check("[{\"type\":\"reasoning\"}]", NULL,
          "[{\"type\":\"reasoning\",\"id\":\"rs_*\",\"status\":\"completed\",\"summary\":[],"
          "\"content\":[]}]");
    check("[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{\"type\":\"summary_text\","
          "\"text\":\"s\"}],\"content\":[{\"type\":\"reasoning_text\",\"text\":\"t\"}],"
          "\"encrypted_content\":\"AAAA\",\"status\":null}]",
          NULL,
          "[{\"type\":\"reasoning\",\"id\":\"rs_1\",\"status\":\"completed\",\"summary\":"
          "[{\"type\":\"summary_text\",\"text\":\"s\"}],\"content\":[{\"type\":\"reasoning_text\","
          "\"text\":\"t\"}]}]");
    check("[{\"type\":\"reasoning\",\"content\":null}]", NULL,
          "[{\"type\":\"reasoning\",\"id\":\"rs_*\",\"status\":\"completed\",\"summary\":[],"
          "\"content\":[]}]");
}

static void test_references(void **state)
{
    (void)state;
    check("[{\"role\":\"user\",\"content\":\"hi\",\"id\":\"msg_1\"},{\"type\":\"item_reference\","
          "\"id\":\"msg_1\"}]",
          NULL, "[" USER("msg_1", "hi") "," USER("msg_1", "hi") "]");
    /* in the parent's parent, without a type, and then its output fits */
    check("[{\"id\":\"fc_root\"},{\"type\":\"function_call_output\",\"call_id\":\"call_known\","
          "\"output\":\"x\"}]",
          "resp_child",
          "[{\"type\":\"function_call\",\"id\":\"fc_root\",\"call_id\":\"call_known\",\"name\":"
          "\"get_time\",\"arguments\":\"{}\"},{\"type\":\"function_call_output\",\"id\":\"fco_*\","
          "\"status\":\"completed\",\"call_id\":\"call_known\",\"output\":\"x\"}]");
}

static void test_ids_differ(void **state)
{
    (void)state;
    run_request *request = accept("[{\"role\":\"user\",\"content\":\"a\"},"
                                  "{\"role\":\"user\",\"content\":\"a\"}]",
                                  NULL);
    const char *first = json_get_text(cJSON_GetArrayItem(request->items, 0), "id");
    const char *second = json_get_text(cJSON_GetArrayItem(request->items, 1), "id");
    assert_string_not_equal(first, second);
    run_request_free(request);
}

/* What nobody has answered yet comes before the input; ids of the input are made anew. */
static void test_a_conversation_comes_first(void **state)
{
    (void)state;
    run_request *request =
        fake_accept("{\"model\":\"tiny\",\"conversation\":{\"id\":\"conv_full\"},\"input\":[" USER(
            "mine", "a") "," USER("mine",
                                  "b") ",{\"id\":\"mine\"},{\"type\":\"function_call_output\","
                                       "\"call_id\":\"call_known\",\"output\":\"x\"}]}");
    assert_string_equal(request->conversation->id, "conv_full");
    assert_string_equal(request->parent->id, "resp_root");
    assert_string_equal(json_get_text(json_get(request->echo, "conversation"), "id"), "conv_full");
    assert_null(json_get(request->echo, "previous_response_id"));
    assert_int_equal(cJSON_GetArraySize(request->items), 5);
    assert_string_equal(json_get_text(cJSON_GetArrayItem(request->items, 0), "id"), "msg_tail");
    for (int i = 1; i < 5; i++) {
        const char *id = json_get_text(cJSON_GetArrayItem(request->items, i), "id");
        assert_int_equal(strncmp(id, i < 4 ? "msg_" : "fco_", 4), 0);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(id, json_get_text(cJSON_GetArrayItem(request->items, k), "id"));
    }
    run_request_free(request);
}

/* Nothing need be said where the conversation has something to answer. */
static void test_a_conversation_needs_no_input(void **state)
{
    (void)state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"conversation\":\"conv_full\"}");
    assert_int_equal(cJSON_GetArraySize(request->items), 1);
    run_request_free(request);
    request = fake_accept("{\"model\":\"tiny\",\"conversation\":\"conv_empty\",\"input\":\"hi\"}");
    assert_null(request->parent);
    assert_int_equal(cJSON_GetArraySize(request->items), 1);
    run_request_free(request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_ids_differ),
        cmocka_unit_test(test_a_conversation_comes_first),
        cmocka_unit_test(test_a_conversation_needs_no_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
