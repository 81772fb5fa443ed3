/*
 * events_test.c - run's events in the Responses dialect: order, numbers, agreement.
 *
 * What is sent is gathered as JSON and checked against each other the way a client's
 * own check would: numbers count from 0, deltas join to the done text, the items of
 * output_item.done are the output of the closing response. A response read back from
 * its record must equal the one that closed the stream.
 *
 * The events of all tests also go to api-events.jsonl in the build folder, so that a
 * checker outside can hold them against schemas/responses-events.schema.json.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

#include <stdio.h>

#include "api/responses_events.h"
#include "api/responses_object.h"

/* What was sent, as an array of events. */
typedef struct sent {
    cJSON *events;
    FILE *log;
} sent;

static void collect(void *arg, const char *name, const char *json, size_t size)
{
    sent *to = arg;
    cJSON *event = NULL;
    assert_int_equal(strlen(json), size);
    assert_int_equal(json_parse(json, size, &event, NULL), PAWL_OK);
    assert_string_equal(json_get_text(event, "type"), name);
    cJSON_AddItemToArray(to->events, event);
    if (to->log)
        fprintf(to->log, "%s\n", json);
}

static int open_sent(void **state)
{
    sent *to = calloc(1, sizeof *to);
    to->events = cJSON_CreateArray();
    to->log = fopen(PAWL_BUILD_DIR "/api-events.jsonl", "a");
    *state = to;
    return 0;
}

static int close_sent(void **state)
{
    sent *to = *state;
    cJSON_Delete(to->events);
    if (to->log)
        fclose(to->log);
    free(to);
    return 0;
}

static run_event *item_event(enum run_event_type type, uint32_t index, enum run_item_kind kind,
                             const char *text)
{
    static const char *const ids[] = {"msg_1", "rs_1", "fc_1"};
    run_event *event = run_event_new(type);
    event->output_index = index;
    event->kind = kind;
    event->complete = true;
    snprintf(event->item_id, sizeof event->item_id, "%s", ids[kind]);
    if (kind == RUN_ITEM_CALL) {
        snprintf(event->call_id, sizeof event->call_id, "call_1");
        event->name = strdup("get_time");
    }
    event->text = text ? strdup(text) : NULL;
    return event;
}

static void give(responses_stream *stream, run_event *event, sent *to)
{
    responses_stream_event(stream, event, to ? collect : NULL, to);
    run_event_free(event);
}

static void give_item(responses_stream *stream, uint32_t index, enum run_item_kind kind,
                      const char *first, const char *second, bool complete, sent *to)
{
    char whole[200];
    snprintf(whole, sizeof whole, "%s%s", first, second);
    give(stream, item_event(RUN_ITEM_BEGIN, index, kind, NULL), to);
    give(stream, item_event(RUN_DELTA, index, kind, first), to);
    give(stream, item_event(RUN_DELTA, index, kind, second), to);
    run_event *end = item_event(RUN_ITEM_END, index, kind, whole);
    end->complete = complete;
    give(stream, end, to);
}

/* The END of a turn with a record as run makes it. */
static run_event *end_event(const run_request *request, const char *status, const char *output,
                            const char *result)
{
    run_event *event = run_event_new(RUN_END);
    run_record *record = fake_record(request->id, NULL, status, "[]", output);
    free(record->request);
    record->request = json_print(request->echo);
    free(record->result);
    record->result = strdup(result);
    record->created_ms = request->created_ms;
    event->record = record;
    event->stop_reason = "stop";
    event->usage = (run_usage){20, 8, 5, 2};
    return event;
}

#define USAGE                                                                                      \
    "\"usage\":{\"input_tokens\":20,\"input_tokens_details\":{\"cached_tokens\":8},"               \
    "\"output_tokens\":5,\"output_tokens_details\":{\"reasoning_tokens\":2},\"total_tokens\":25}"
#define RESULT "{" USAGE ",\"error\":null,\"incomplete_details\":null}"

static const cJSON *event_at(const sent *to, int i)
{
    return cJSON_GetArrayItem(to->events, i);
}

/* Types in order, and numbers by one from zero. */
static void check_types(const sent *to, const char *const *types, int n)
{
    for (int i = 0; i < n; i++) {
        const cJSON *event = event_at(to, i);
        if (!event)
            fail_msg("only %d events, then %s is wanted", i, types[i]);
        assert_string_equal(json_get_text(event, "type"), types[i]);
        assert_true(json_get_number(event, "sequence_number", -1) == i);
    }
    assert_int_equal(cJSON_GetArraySize(to->events), n);
}

/* The whole of an event but its number. */
static void check_event(const sent *to, int i, const char *wanted)
{
    cJSON *event = cJSON_Duplicate(event_at(to, i), true);
    cJSON_DeleteItemFromObject(event, "sequence_number");
    char *got = json_print(event);
    assert_string_equal(got, wanted);
    free(got);
    cJSON_Delete(event);
}

/* The closing response equals what GET makes of the record. */
static void check_read_back(const sent *to, run_record *record)
{
    buf text;
    buf_init(&text, 1 << 20);
    assert_true(responses_record_add(&text, record));
    int last = cJSON_GetArraySize(to->events) - 1;
    cJSON *stored = fake_json(text.data);
    char *got = json_print(stored);
    char *streamed = json_print(json_get(event_at(to, last), "response"));
    assert_string_equal(got, streamed);
    free(got);
    free(streamed);
    cJSON_Delete(stored);
    buf_clear(&text);
}

static void test_message(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\",\"temperature\":0.5}");
    responses_stream *stream = responses_stream_open(request, NULL);
    give(stream, run_event_new(RUN_CREATED), to);
    give(stream, run_event_new(RUN_IN_PROGRESS), to);
    give_item(stream, 0, RUN_ITEM_MESSAGE, "Hé", "llo \"x\"\n", true, to);
    run_event *end =
        end_event(request, "completed",
                  "[{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"completed\",\"role\":"
                  "\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":"
                  "\"Héllo \\\"x\\\"\\n\",\"annotations\":[],\"logprobs\":[]}]}]",
                  RESULT);
    run_record *record = run_record_retain(end->record);
    give(stream, end, to);
    static const char *const types[] = {"response.created",           "response.in_progress",
                                        "response.output_item.added", "response.content_part.added",
                                        "response.output_text.delta", "response.output_text.delta",
                                        "response.output_text.done",  "response.content_part.done",
                                        "response.output_item.done",  "response.completed"};
    check_types(to, types, 10);
    check_event(to, 2,
                "{\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":"
                "\"msg_1\",\"type\":\"message\",\"status\":\"in_progress\",\"role\":\"assistant\","
                "\"content\":[]}}");
    check_event(
        to, 3,
        "{\"type\":\"response.content_part.added\",\"item_id\":\"msg_1\",\"output_index\":0,"
        "\"content_index\":0,\"part\":{\"type\":\"output_text\",\"text\":\"\","
        "\"annotations\":[],\"logprobs\":[]}}");
    check_event(to, 4,
                "{\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,"
                "\"content_index\":0,\"delta\":\"Hé\",\"logprobs\":[]}");
    check_event(to, 6,
                "{\"type\":\"response.output_text.done\",\"item_id\":\"msg_1\",\"output_index\":0,"
                "\"content_index\":0,\"text\":\"Héllo \\\"x\\\"\\n\",\"logprobs\":[]}");
    check_event(to, 7,
                "{\"type\":\"response.content_part.done\",\"item_id\":\"msg_1\",\"output_index\":0,"
                "\"content_index\":0,\"part\":{\"type\":\"output_text\",\"text\":"
                "\"Héllo \\\"x\\\"\\n\",\"annotations\":[],\"logprobs\":[]}}");
    check_event(to, 8,
                "{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":"
                "\"msg_1\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\","
                "\"content\":[{\"type\":\"output_text\",\"text\":\"Héllo \\\"x\\\"\\n\","
                "\"annotations\":[],\"logprobs\":[]}]}}");
    check_read_back(to, record);
    run_record_release(record);
    responses_stream_close(stream);
    run_request_free(request);
}

/* All keys of the object, at the beginning and at the end. */
static void test_response_keys(void **state)
{
    static const char *const keys[] = {"id",
                                       "object",
                                       "created_at",
                                       "completed_at",
                                       "status",
                                       "background",
                                       "conversation",
                                       "error",
                                       "instructions",
                                       "model",
                                       "incomplete_details",
                                       "max_output_tokens",
                                       "metadata",
                                       "output",
                                       "max_tool_calls",
                                       "parallel_tool_calls",
                                       "reasoning",
                                       "store",
                                       "previous_response_id",
                                       "prompt_cache_key",
                                       "temperature",
                                       "text",
                                       "safety_identifier",
                                       "service_tier",
                                       "tool_choice",
                                       "tools",
                                       "top_logprobs",
                                       "top_p",
                                       "truncation",
                                       "usage",
                                       "user"};
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    responses_stream *stream = responses_stream_open(request, NULL);
    give(stream, run_event_new(RUN_CREATED), to);
    give(stream, end_event(request, "completed", "[]", RESULT), to);
    for (int at = 0; at < 2; at++) {
        const cJSON *response = json_get(event_at(to, at), "response");
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (!cJSON_HasObjectItem(response, keys[i]))
                fail_msg("event %d lacks %s", at, keys[i]);
    }
    const cJSON *created = json_get(event_at(to, 0), "response");
    assert_string_equal(json_get_text(created, "id"), request->id);
    assert_string_equal(json_get_text(created, "status"), "in_progress");
    assert_string_equal(json_get_text(created, "model"), "tiny");
    assert_null(json_get(created, "usage"));
    assert_null(json_get(created, "completed_at"));
    assert_int_equal(cJSON_GetArraySize(json_get(created, "output")), 0);
    const cJSON *done = json_get(event_at(to, 1), "response");
    char *usage = json_print(json_get(done, "usage"));
    assert_string_equal(usage, "{\"input_tokens\":20,\"input_tokens_details\":{\"cached_tokens\":8,"
                               "\"cache_write_tokens\":0},\"output_tokens\":5,"
                               "\"output_tokens_details\":{\"reasoning_tokens\":2},"
                               "\"total_tokens\":25}");
    free(usage);
    assert_true(json_get_number(done, "completed_at", 0) == 1700000002);
    responses_stream_close(stream);
    run_request_free(request);
}

static void test_reasoning_then_call(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    responses_stream *stream = responses_stream_open(request, "lane-1");
    give(stream, run_event_new(RUN_CREATED), to);
    give(stream, run_event_new(RUN_IN_PROGRESS), to);
    give_item(stream, 0, RUN_ITEM_REASONING, "hm", "m", true, to);
    give_item(stream, 1, RUN_ITEM_CALL, "{\"a\"", ":1}", true, to);
    run_event *end = end_event(
        request, "completed",
        "[{\"id\":\"rs_1\",\"type\":\"reasoning\",\"status\":\"completed\",\"summary\":[],"
        "\"content\":[{\"type\":\"reasoning_text\",\"text\":\"hmm\"}]},"
        "{\"id\":\"fc_1\",\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":"
        "\"call_1\",\"name\":\"get_time\",\"arguments\":\"{\\\"a\\\":1}\"}]",
        RESULT);
    run_record *record = run_record_retain(end->record);
    give(stream, end, to);
    static const char *const types[] = {"response.created",
                                        "response.in_progress",
                                        "response.output_item.added",
                                        "response.content_part.added",
                                        "response.reasoning_text.delta",
                                        "response.reasoning_text.delta",
                                        "response.reasoning_text.done",
                                        "response.content_part.done",
                                        "response.output_item.done",
                                        "response.output_item.added",
                                        "response.function_call_arguments.delta",
                                        "response.function_call_arguments.delta",
                                        "response.function_call_arguments.done",
                                        "response.output_item.done",
                                        "response.completed"};
    check_types(to, types, 15);
    check_event(to, 2,
                "{\"type\":\"response.output_item.added\",\"stream_id\":\"lane-1\","
                "\"output_index\":0,\"item\":{\"id\":\"rs_1\",\"type\":\"reasoning\",\"status\":"
                "\"in_progress\",\"summary\":[],\"content\":[]}}");
    check_event(to, 9,
                "{\"type\":\"response.output_item.added\",\"stream_id\":\"lane-1\","
                "\"output_index\":1,\"item\":{\"id\":\"fc_1\",\"type\":\"function_call\","
                "\"status\":\"in_progress\",\"call_id\":\"call_1\",\"name\":\"get_time\","
                "\"arguments\":\"\"}}");
    check_event(to, 10,
                "{\"type\":\"response.function_call_arguments.delta\",\"stream_id\":\"lane-1\","
                "\"item_id\":\"fc_1\",\"output_index\":1,\"delta\":\"{\\\"a\\\"\"}");
    check_event(to, 12,
                "{\"type\":\"response.function_call_arguments.done\",\"stream_id\":\"lane-1\","
                "\"item_id\":\"fc_1\",\"output_index\":1,\"name\":\"get_time\","
                "\"arguments\":\"{\\\"a\\\":1}\"}");
    const cJSON *event;
    cJSON_ArrayForEach(event, to->events)
    {
        assert_string_equal(json_get_text(event, "stream_id"), "lane-1");
    }
    check_read_back(to, record);
    run_record_release(record);
    responses_stream_close(stream);
    run_request_free(request);
}

/* Cut by a limit: the item says so, the response says why. */
static void test_incomplete(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    responses_stream *stream = responses_stream_open(request, NULL);
    give(stream, run_event_new(RUN_CREATED), to);
    give(stream, run_event_new(RUN_IN_PROGRESS), to);
    give_item(stream, 0, RUN_ITEM_CALL, "{\"a", "\":", false, to);
    give(stream, end_event(request, "incomplete", "[]", "{" USAGE "}"), to);
    int last = cJSON_GetArraySize(to->events) - 1;
    const cJSON *end = event_at(to, last);
    const cJSON *response = json_get(end, "response");
    assert_string_equal(json_get_text(end, "type"), "response.incomplete");
    assert_string_equal(json_get_text(response, "status"), "incomplete");
    assert_string_equal(json_get_text(json_get(response, "incomplete_details"), "reason"),
                        "max_output_tokens");
    assert_null(json_get(response, "completed_at"));
    const cJSON *item = cJSON_GetArrayItem(json_get(response, "output"), 0);
    assert_string_equal(json_get_text(item, "status"), "incomplete");
    responses_stream_close(stream);
    run_request_free(request);
}

static void test_cancelled(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    responses_stream *stream = responses_stream_open(request, NULL);
    give(stream, run_event_new(RUN_CREATED), to);
    give(stream, end_event(request, "cancelled", "[]", RESULT), to);
    const cJSON *response = json_get(event_at(to, 1), "response");
    assert_string_equal(json_get_text(event_at(to, 1), "type"), "response.incomplete");
    assert_string_equal(json_get_text(response, "status"), "cancelled");
    assert_null(json_get(response, "incomplete_details"));
    assert_non_null(json_get(response, "usage"));
    responses_stream_close(stream);
    run_request_free(request);
}

#define FAILED                                                                                     \
    "{" USAGE ",\"error\":{\"code\":\"server_error\",\"message\":\"The engine is gone.\"}}"

static void test_failed(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    responses_stream *stream = responses_stream_open(request, NULL);
    give(stream, run_event_new(RUN_CREATED), to);
    give(stream, run_event_new(RUN_IN_PROGRESS), to);
    give(stream, end_event(request, "failed", "[]", FAILED), to);
    const cJSON *response = json_get(event_at(to, 2), "response");
    assert_string_equal(json_get_text(event_at(to, 2), "type"), "response.failed");
    char *error = json_print(json_get(response, "error"));
    assert_string_equal(error, "{\"code\":\"server_error\",\"message\":\"The engine is gone.\"}");
    free(error);
    responses_stream_close(stream);
    run_request_free(request);
}

/* Without memory for a record END still ends the stream. */
static void test_no_record(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    responses_stream *stream = responses_stream_open(request, NULL);
    give(stream, run_event_new(RUN_END), to);
    assert_string_equal(json_get_text(event_at(to, 0), "type"), "response.failed");
    responses_stream_close(stream);
    run_request_free(request);
}

static void test_warm_up(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"generate\":false}");
    responses_stream *stream = responses_stream_open(request, NULL);
    give(stream, run_event_new(RUN_CREATED), to);
    give(stream, run_event_new(RUN_IN_PROGRESS), to);
    give(stream, end_event(request, "completed", "[]", "{}"), to);
    static const char *const types[] = {"response.created", "response.in_progress",
                                        "response.completed"};
    check_types(to, types, 3);
    const cJSON *response = json_get(event_at(to, 2), "response");
    assert_true(json_get_number(json_get(response, "usage"), "input_tokens", 0) == 20);
    responses_stream_close(stream);
    run_request_free(request);
}

static void test_logprobs(void **state)
{
    static const char list[] = "[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":"
                               "[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97]}]}]";
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\",\"include\":"
                                       "[\"message.output_text.logprobs\"]}");
    responses_stream *stream = responses_stream_open(request, NULL);
    run_event *delta = item_event(RUN_DELTA, 0, RUN_ITEM_MESSAGE, "a");
    run_event *end = item_event(RUN_ITEM_END, 0, RUN_ITEM_MESSAGE, "a");
    delta->logprobs = fake_json(list);
    end->logprobs = fake_json(list);
    give(stream, item_event(RUN_ITEM_BEGIN, 0, RUN_ITEM_MESSAGE, NULL), to);
    give(stream, delta, to);
    give(stream, end, to);
    static const int with_list[] = {2, 3};
    for (size_t i = 0; i < 2; i++) {
        char *text = json_print(json_get(event_at(to, with_list[i]), "logprobs"));
        assert_string_equal(text, list);
        free(text);
    }
    char *part = json_print(json_get(json_get(event_at(to, 4), "part"), "logprobs"));
    assert_string_equal(part, list);
    free(part);
    responses_stream_close(stream);
    run_request_free(request);
}

/* run's own item is what is sent and what the response holds. */
static void test_item_of_run(void **state)
{
    sent *to = *state;
    run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
    responses_stream *stream = responses_stream_open(request, NULL);
    run_event *end = item_event(RUN_ITEM_END, 0, RUN_ITEM_MESSAGE, "a");
    end->item = fake_json("{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[{\"type\":"
                          "\"output_text\",\"text\":\"a\"}],\"extra\":1}");
    give(stream, end, to);
    give(stream, end_event(request, "completed", "[]", RESULT), to);
    char *item = json_print(json_get(event_at(to, 2), "item"));
    assert_string_equal(item, "{\"id\":\"msg_1\",\"type\":\"message\",\"content\":[{\"type\":"
                              "\"output_text\",\"text\":\"a\",\"annotations\":[],\"logprobs\":[]}],"
                              "\"extra\":1,\"status\":\"completed\",\"role\":\"assistant\"}");
    char *output = json_print(
        cJSON_GetArrayItem(json_get(json_get(event_at(to, 3), "response"), "output"), 0));
    assert_string_equal(output, item);
    free(item);
    free(output);
    responses_stream_close(stream);
    run_request_free(request);
}

/* A call that does not stream: the same response as a body, or an error. */
static void test_folded(void **state)
{
    sent *to = *state;
    for (int failed = 0; failed < 2; failed++) {
        run_request *request = fake_accept("{\"model\":\"tiny\",\"input\":\"hi\"}");
        responses_stream *stream = responses_stream_open(request, NULL);
        buf body;
        buf_init(&body, 1 << 20);
        give(stream, run_event_new(RUN_CREATED), NULL);
        give(stream, run_event_new(RUN_IN_PROGRESS), NULL);
        give_item(stream, 0, RUN_ITEM_MESSAGE, "a", "b", true, NULL);
        give(stream,
             end_event(request, failed ? "failed" : "completed", "[]", failed ? FAILED : RESULT),
             NULL);
        assert_int_equal(responses_stream_body(stream, &body), failed ? 500 : 200);
        cJSON *answer = fake_json(body.data);
        if (failed) {
            assert_string_equal(json_get_text(json_get(answer, "error"), "message"),
                                "The engine is gone.");
            assert_string_equal(json_get_text(json_get(answer, "error"), "type"), "server_error");
        } else {
            assert_string_equal(json_get_text(answer, "status"), "completed");
            assert_int_equal(cJSON_GetArraySize(json_get(answer, "output")), 1);
        }
        cJSON_Delete(answer);
        buf_clear(&body);
        responses_stream_close(stream);
        run_request_free(request);
    }
    assert_int_equal(cJSON_GetArraySize(to->events), 0);
}

/* A damaged record is no crash and no half object. */
static void test_damaged_record(void **state)
{
    (void)state;
    buf text;
    buf_init(&text, 1 << 20);
    run_record *record = fake_record("resp_x", NULL, "completed", "[]", "[{\"type\":");
    assert_false(responses_record_add(&text, record));
    run_record_release(record);
    buf_clear(&text);
}

int main(void)
{
    remove(PAWL_BUILD_DIR "/api-events.jsonl");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_message, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_response_keys, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_reasoning_then_call, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_incomplete, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_cancelled, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_failed, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_no_record, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_warm_up, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_logprobs, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_item_of_run, open_sent, close_sent),
        cmocka_unit_test_setup_teardown(test_folded, open_sent, close_sent),
        cmocka_unit_test(test_damaged_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
