/*
 * reply_test.c - run's events as Chat Completions and Completions answers.
 *
 * What is streamed and what is folded of the same events must say the same. All chunks
 * and bodies also go to api-chat.jsonl in the build folder, for a checker outside.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

#include "api/reply.h"

#define CHAT "{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define TEXT "{\"model\":\"tiny\",\"prompt\":\"hi\""
#define LOGPROBS                                                                                   \
    "[{\"token\":\"a\",\"logprob\":-0.5,\"bytes\":[97],\"top_logprobs\":[{\"token\":\"a\","        \
    "\"logprob\":-0.5,\"bytes\":[97]}]},{\"token\":\"é\",\"logprob\":-1,\"bytes\":[195,169],"     \
    "\"top_logprobs\":[]}]"

/* A reply and what it sent. */
typedef struct bench {
    reply *reply;
    run_request *request;
    bool stream;
    cJSON *chunks;
    bool done; /* [DONE] was sent */
    FILE *log;
} bench;

static void collect(void *arg, const char *name, const char *json, size_t size)
{
    bench *b = arg;
    cJSON *chunk = NULL;
    assert_null(name);
    assert_int_equal(strlen(json), size);
    assert_false(b->done);
    assert_null(strchr(json, '\n'));
    if (strcmp(json, "[DONE]") == 0) {
        b->done = true;
        return;
    }
    assert_int_equal(json_parse(json, size, &chunk, NULL), PAWL_OK);
    cJSON_AddItemToArray(b->chunks, chunk);
    fprintf(b->log, "%s\n", json);
}

static void bench_open(bench *b, const char *body, bool stream)
{
    fake_world world;
    parse_env env = fake_env(&world);
    parse_choices choices;
    api_error error;
    bool chat = strstr(body, "messages") != NULL;
    cJSON *tree = fake_json(body);
    b->request = chat ? chat_parse(tree, &env, &choices, &error)
                      : completions_parse(tree, &env, &choices, &error);
    cJSON_Delete(tree);
    assert_non_null(b->request);
    world.model.name = (char *)(uintptr_t) "tiny";
    b->reply = reply_open(chat ? &reply_chat : &reply_completions, b->request, &choices,
                          choices.echo ? b->request->raw_text : NULL);
    assert_non_null(b->reply);
    b->stream = stream;
    b->chunks = cJSON_CreateArray();
    b->done = false;
    b->log = fopen(PAWL_BUILD_DIR "/api-chat.jsonl", "a");
}

static void bench_close(bench *b)
{
    reply_close(b->reply);
    run_request_free(b->request);
    cJSON_Delete(b->chunks);
    fclose(b->log);
}

static void give(bench *b, run_event *event)
{
    reply_event(b->reply, event, b->stream ? collect : NULL, b);
    run_event_free(event);
}

static run_event *new_event(enum run_event_type type, uint32_t choice)
{
    run_event *event = run_event_new(type);
    event->choice = choice;
    return event;
}

static run_event *item_event(enum run_event_type type, uint32_t choice, enum run_item_kind kind,
                             const char *text)
{
    run_event *event = new_event(type, choice);
    event->kind = kind;
    event->complete = true;
    if (kind == RUN_ITEM_CALL) {
        snprintf(event->call_id, sizeof event->call_id, "call_1");
        event->name = strdup("get_time");
    }
    event->text = text ? strdup(text) : NULL;
    return event;
}

static void give_item(bench *b, uint32_t choice, enum run_item_kind kind, const char *first,
                      const char *second)
{
    char whole[200];
    snprintf(whole, sizeof whole, "%s%s", first, second);
    give(b, item_event(RUN_ITEM_BEGIN, choice, kind, NULL));
    give(b, item_event(RUN_DELTA, choice, kind, first));
    give(b, item_event(RUN_DELTA, choice, kind, second));
    give(b, item_event(RUN_ITEM_END, choice, kind, whole));
}

static void give_end(bench *b, enum run_event_type type, uint32_t choice, const char *reason)
{
    run_event *event = new_event(type, choice);
    event->record = fake_record("resp_x", NULL, "completed", "[]", "[]");
    event->stop_reason = reason;
    event->usage = (run_usage){20, 8 + choice, 5, 2};
    give(b, event);
}

/* The choices of a chunk, or the whole of it where there is something else in it. */
static void check_chunk(const bench *b, int i, const char *wanted)
{
    const cJSON *chunk = cJSON_GetArrayItem(b->chunks, i);
    if (!chunk)
        fail_msg("only %d chunks, then %s is wanted", i, wanted);
    char *got = json_print(json_get(chunk, "choices"));
    assert_string_equal(got, wanted);
    free(got);
}

static void check_count(const bench *b, int n)
{
    assert_int_equal(cJSON_GetArraySize(b->chunks), n);
}

static cJSON *body_of(bench *b)
{
    buf out;
    buf_init(&out, 1 << 20);
    assert_true(reply_body(b->reply, &out));
    fprintf(b->log, "%s\n", out.data);
    cJSON *body = fake_json(out.data);
    buf_clear(&out);
    return body;
}

static void check_body(bench *b, const char *choices)
{
    cJSON *body = body_of(b);
    char *got = json_print(json_get(body, "choices"));
    assert_string_equal(got, choices);
    free(got);
    cJSON_Delete(body);
}

#define DELTA(members, finish)                                                                     \
    "[{\"index\":0,\"delta\":{" members "},\"logprobs\":null,\"finish_reason\":" finish "}]"

static void give_message(bench *b)
{
    give(b, new_event(RUN_CREATED, 0));
    give(b, new_event(RUN_IN_PROGRESS, 0));
    give_item(b, 0, RUN_ITEM_MESSAGE, "Hé", "llo \"x\"\n");
    give_end(b, RUN_END, 0, "stop");
}

static void test_message(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, CHAT "}", true);
    give_message(&b);
    check_chunk(&b, 0, DELTA("\"role\":\"assistant\",\"content\":\"\"", "null"));
    check_chunk(&b, 1, DELTA("\"content\":\"Hé\"", "null"));
    check_chunk(&b, 2, DELTA("\"content\":\"llo \\\"x\\\"\\n\"", "null"));
    check_chunk(&b, 3, DELTA("", "\"stop\""));
    check_count(&b, 4);
    assert_true(b.done);
    const cJSON *chunk;
    cJSON_ArrayForEach(chunk, b.chunks)
    {
        assert_string_equal(json_get_text(chunk, "object"), "chat.completion.chunk");
        assert_string_equal(json_get_text(chunk, "id"), b.reply->id);
        assert_null(cJSON_GetObjectItem(chunk, "usage"));
    }
    assert_memory_equal(b.reply->id, "chatcmpl-", 9);
    bench_close(&b);
    bench_open(&b, CHAT "}", false);
    give_message(&b);
    check_count(&b, 0);
    check_body(&b, "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Héllo "
                   "\\\"x\\\"\\n\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":"
                   "\"stop\"}]");
    bench_close(&b);
}

static void test_usage(void **state)
{
    (void)state;
    static const char usage[] =
        "{\"prompt_tokens\":20,\"completion_tokens\":5,\"total_tokens\":25,"
        "\"prompt_tokens_details\":{\"cached_tokens\":8},\"completion_tokens_details\":{"
        "\"reasoning_tokens\":2}}";
    bench b;
    bench_open(&b, CHAT ",\"stream_options\":{\"include_usage\":true}}", true);
    give_message(&b);
    check_count(&b, 5);
    for (int i = 0; i < 4; i++)
        assert_true(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetArrayItem(b.chunks, i), "usage")));
    check_chunk(&b, 4, "[]");
    char *got = json_print(json_get(cJSON_GetArrayItem(b.chunks, 4), "usage"));
    assert_string_equal(got, usage);
    free(got);
    bench_close(&b);
    bench_open(&b, CHAT "}", false);
    give_message(&b);
    cJSON *body = body_of(&b);
    got = json_print(json_get(body, "usage"));
    assert_string_equal(got, usage);
    assert_string_equal(json_get_text(body, "object"), "chat.completion");
    free(got);
    cJSON_Delete(body);
    bench_close(&b);
}

static void give_calls(bench *b)
{
    give(b, new_event(RUN_IN_PROGRESS, 0));
    give_item(b, 0, RUN_ITEM_REASONING, "h", "m");
    give_item(b, 0, RUN_ITEM_CALL, "{\"a\"", ":1}");
    give_item(b, 0, RUN_ITEM_CALL, "{", "}");
    give_end(b, RUN_END, 0, "tool_calls");
}

static void test_calls(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, CHAT "}", true);
    give_calls(&b);
    check_chunk(&b, 1, DELTA("\"reasoning_content\":\"h\"", "null"));
    check_chunk(&b, 3,
                DELTA("\"tool_calls\":[{\"index\":0,\"id\":\"call_1\",\"type\":\"function\","
                      "\"function\":{\"name\":\"get_time\",\"arguments\":\"\"}}]",
                      "null"));
    check_chunk(&b, 4,
                DELTA("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"a\\\"\"}}]",
                      "null"));
    check_chunk(&b, 6,
                DELTA("\"tool_calls\":[{\"index\":1,\"id\":\"call_1\",\"type\":\"function\","
                      "\"function\":{\"name\":\"get_time\",\"arguments\":\"\"}}]",
                      "null"));
    check_chunk(&b, 9, DELTA("", "\"tool_calls\""));
    check_count(&b, 10);
    bench_close(&b);
    bench_open(&b, CHAT "}", false);
    give_calls(&b);
    check_body(&b, "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,"
                   "\"refusal\":null,\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":"
                   "\"call_1\",\"type\":\"function\",\"function\":{\"name\":\"get_time\","
                   "\"arguments\":\"{\\\"a\\\":1}\"}},{\"id\":\"call_1\",\"type\":\"function\","
                   "\"function\":{\"name\":\"get_time\",\"arguments\":\"{}\"}}]},\"logprobs\":"
                   "null,\"finish_reason\":\"tool_calls\"}]");
    bench_close(&b);
}

/* Nothing was said: content is a text all the same. */
static void test_empty(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, CHAT "}", false);
    give_end(&b, RUN_END, 0, "length");
    check_body(&b, "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"\","
                   "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"length\"}]");
    bench_close(&b);
    bench_open(&b, CHAT "}", true);
    give_end(&b, RUN_END, 0, "length");
    check_chunk(&b, 0, DELTA("\"role\":\"assistant\",\"content\":\"\"", "null"));
    check_chunk(&b, 1, DELTA("", "\"length\""));
    assert_true(b.done);
    bench_close(&b);
}

static void give_choices(bench *b)
{
    give(b, new_event(RUN_IN_PROGRESS, 0));
    give_item(b, 0, RUN_ITEM_MESSAGE, "a", "");
    give(b, new_event(RUN_IN_PROGRESS, 1));
    give_item(b, 1, RUN_ITEM_MESSAGE, "b", "");
    give_end(b, RUN_CHOICE_END, 0, "length");
    give_end(b, RUN_END, 1, "stop");
}

static void test_choices(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, CHAT ",\"n\":2}", true);
    give_choices(&b);
    const cJSON *chunk;
    int finished[2] = {0, 0};
    cJSON_ArrayForEach(chunk, b.chunks)
    {
        const cJSON *choice = cJSON_GetArrayItem(json_get(chunk, "choices"), 0);
        int i = (int)json_get_number(choice, "index", -1);
        assert_int_equal(finished[i], 0);
        finished[i] += json_get(choice, "finish_reason") != NULL;
    }
    assert_int_equal(finished[0] + finished[1], 2);
    assert_true(b.done);
    bench_close(&b);
    bench_open(&b, CHAT ",\"n\":2}", false);
    give_choices(&b);
    cJSON *body = body_of(&b);
    const cJSON *choices = json_get(body, "choices");
    const cJSON *usage = json_get(body, "usage");
    for (int i = 0; i < 2; i++) {
        const cJSON *choice = cJSON_GetArrayItem(choices, i);
        assert_true(json_get_number(choice, "index", -1) == i);
        assert_string_equal(json_get_text(json_get(choice, "message"), "content"), i ? "b" : "a");
        assert_string_equal(json_get_text(choice, "finish_reason"), i ? "stop" : "length");
    }
    assert_true(json_get_number(usage, "prompt_tokens", 0) == 20);
    assert_true(json_get_number(usage, "completion_tokens", 0) == 10);
    assert_true(json_get_number(json_get(usage, "prompt_tokens_details"), "cached_tokens", 0) == 8);
    cJSON_Delete(body);
    bench_close(&b);
}

static run_event *failed_end(enum run_event_type type)
{
    run_event *event = new_event(type, 0);
    event->record = fake_record("resp_x", NULL, "failed", "[]", "[]");
    free(event->record->result);
    event->record->result =
        strdup("{\"error\":{\"code\":\"server_error\",\"message\":\"The engine is gone.\"}}");
    event->stop_reason = "error";
    return event;
}

/* One error, no [DONE], and nothing of the other choice after it. */
static void test_failure(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, CHAT ",\"n\":2,\"stream_options\":{\"include_usage\":true}}", true);
    give(&b, new_event(RUN_IN_PROGRESS, 0));
    give(&b, failed_end(RUN_CHOICE_END));
    give_item(&b, 1, RUN_ITEM_MESSAGE, "b", "");
    give_end(&b, RUN_END, 1, "cancelled");
    check_count(&b, 2);
    const cJSON *error = json_get(cJSON_GetArrayItem(b.chunks, 1), "error");
    assert_string_equal(json_get_text(error, "message"), "The engine is gone.");
    assert_string_equal(json_get_text(error, "type"), "server_error");
    assert_null(json_get(cJSON_GetArrayItem(b.chunks, 1), "choices"));
    assert_false(b.done);
    bench_close(&b);
    static const struct {
        const char *reason;
        int status;
    } ends[] = {{"cancelled", 503}, {"error", 500}, {NULL, 500}};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        bench_open(&b, CHAT "}", false);
        run_event *event = new_event(RUN_END, 0);
        event->stop_reason = ends[i].reason;
        give(&b, event);
        assert_true(b.reply->failed);
        assert_int_equal(b.reply->error.status, ends[i].status);
        bench_close(&b);
    }
}

static void test_logprobs(void **state)
{
    (void)state;
    for (int stream = 0; stream < 2; stream++) {
        bench b;
        bench_open(&b, CHAT ",\"logprobs\":true}", stream);
        run_event *event = item_event(stream ? RUN_DELTA : RUN_ITEM_END, 0, RUN_ITEM_MESSAGE, "aé");
        event->logprobs = fake_json(LOGPROBS);
        give(&b, event);
        give_end(&b, RUN_END, 0, "stop");
        cJSON *body = stream ? cJSON_Duplicate(cJSON_GetArrayItem(b.chunks, 1), true) : body_of(&b);
        char *got =
            json_print(json_get(cJSON_GetArrayItem(json_get(body, "choices"), 0), "logprobs"));
        assert_string_equal(got, "{\"content\":" LOGPROBS ",\"refusal\":null}");
        free(got);
        cJSON_Delete(body);
        bench_close(&b);
    }
}

#define OLD_LOGPROBS(a, b)                                                                         \
    "{\"tokens\":[\"a\",\"é\"],\"token_logprobs\":[-0.5,-1],\"top_logprobs\":[{\"a\":-0.5},{}],"  \
    "\"text_offset\":[" #a "," #b "]}"

static void test_text(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, TEXT ",\"logprobs\":1}", true);
    for (int i = 0; i < 2; i++) {
        run_event *event = item_event(RUN_DELTA, 0, RUN_ITEM_MESSAGE, "aé");
        event->logprobs = fake_json(LOGPROBS);
        give(&b, event);
    }
    give_end(&b, RUN_END, 0, "stop");
    check_chunk(&b, 0, "[{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":null}]");
    check_chunk(&b, 1,
                "[{\"index\":0,\"text\":\"aé\",\"logprobs\":" OLD_LOGPROBS(
                    0, 1) ",\"finish_reason\":null}]");
    check_chunk(&b, 2,
                "[{\"index\":0,\"text\":\"aé\",\"logprobs\":" OLD_LOGPROBS(
                    2, 3) ",\"finish_reason\":null}]");
    check_chunk(&b, 3,
                "[{\"index\":0,\"text\":\"\",\"logprobs\":null,\"finish_reason\":\"stop\"}]");
    assert_true(b.done);
    assert_memory_equal(b.reply->id, "cmpl-", 5);
    bench_close(&b);
    bench_open(&b, TEXT ",\"logprobs\":1}", false);
    run_event *event = item_event(RUN_ITEM_END, 0, RUN_ITEM_MESSAGE, "aé");
    event->logprobs = fake_json(LOGPROBS);
    give(&b, event);
    give_end(&b, RUN_END, 0, "length");
    check_body(&b, "[{\"index\":0,\"text\":\"aé\",\"logprobs\":" OLD_LOGPROBS(
                       0, 1) ",\"finish_reason\":\"length\"}]");
    bench_close(&b);
}

static void test_echo(void **state)
{
    (void)state;
    bench b;
    bench_open(&b, TEXT ",\"echo\":true}", true);
    give_message(&b);
    check_chunk(&b, 0, "[{\"index\":0,\"text\":\"hi\",\"logprobs\":null,\"finish_reason\":null}]");
    bench_close(&b);
    bench_open(&b, TEXT ",\"echo\":true}", false);
    give_message(&b);
    check_body(&b, "[{\"index\":0,\"text\":\"hiHéllo \\\"x\\\"\\n\",\"logprobs\":null,"
                   "\"finish_reason\":\"stop\"}]");
    bench_close(&b);
}

int main(void)
{
    remove(PAWL_BUILD_DIR "/api-chat.jsonl");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message),  cmocka_unit_test(test_usage),
        cmocka_unit_test(test_calls),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_choices),  cmocka_unit_test(test_failure),
        cmocka_unit_test(test_logprobs), cmocka_unit_test(test_text),
        cmocka_unit_test(test_echo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
