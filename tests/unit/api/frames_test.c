/*
 * frames_test.c - text frames of a socket, and the error frames that answer them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

static api_frame *parse(const char *text)
{
    api_frame *frame = api_frame_parse(NULL, text, strlen(text));
    assert_non_null(frame);
    return frame;
}

static void test_create(void **state)
{
    (void)state;
    api_frame *frame = parse("{\"type\":\"response.create\",\"model\":\"tiny\"}");
    assert_int_equal(api_frame_type(frame), API_FRAME_CREATE);
    assert_null(api_frame_lane(frame));
    assert_null(api_frame_parent(frame));
    api_frame_free(frame);
    frame = parse("{\"type\":\"response.create\",\"stream_id\":\"a_B.9-\","
                  "\"previous_response_id\":\"resp_1\",\"stream\":true}");
    assert_int_equal(api_frame_type(frame), API_FRAME_CREATE);
    assert_string_equal(api_frame_lane(frame), "a_B.9-");
    assert_string_equal(api_frame_parent(frame), "resp_1");
    api_frame_free(frame);
}

static void test_cancel(void **state)
{
    (void)state;
    api_frame *frame = parse("{\"type\":\"response.cancel\",\"response_id\":\"resp_1\"}");
    assert_int_equal(api_frame_type(frame), API_FRAME_CANCEL);
    assert_string_equal(api_frame_response_id(frame), "resp_1");
    api_frame_free(frame);
    frame = parse("{\"type\":\"response.cancel\",\"stream_id\":\"a\"}");
    assert_int_equal(api_frame_type(frame), API_FRAME_CANCEL);
    assert_null(api_frame_response_id(frame));
    assert_string_equal(api_frame_lane(frame), "a");
    api_frame_free(frame);
}

/* Every refused frame: code, param and the lane of its error frame. */
static const struct {
    const char *frame;
    const char *code;
    const char *param;
    const char *lane;
} refused[] = {
    {"", "invalid_json", NULL, NULL},
    {"{", "invalid_json", NULL, NULL},
    {"[]", "invalid_json", NULL, NULL},
    {"\"x\"", "invalid_json", NULL, NULL},
    {"{\"type\":\"\xff\"}", "invalid_json", NULL, NULL},
    {"{}", "missing_required_parameter", "type", NULL},
    {"{\"type\":null}", "missing_required_parameter", "type", NULL},
    {"{\"type\":7}", "invalid_type", "type", NULL},
    {"{\"type\":\"response.frobnicate\"}", "invalid_value", "type", NULL},
    {"{\"type\":\"response.frobnicate\",\"stream_id\":\"a\"}", "invalid_value", "type", "a"},
    {"{\"stream_id\":\"a\"}", "missing_required_parameter", "type", "a"},
    {"{\"type\":\"response.cancel\",\"response_id\":7,\"stream_id\":\"a\"}", "invalid_type",
     "response_id", "a"},
    {"{\"type\":\"response.create\",\"stream_id\":\"\"}", "invalid_value", "stream_id", NULL},
    {"{\"type\":\"response.create\",\"stream_id\":\"two words\"}", "invalid_value", "stream_id",
     NULL},
    {"{\"type\":\"response.create\",\"stream_id\":\"\xc3\xa9\"}", "invalid_value", "stream_id",
     NULL},
    {"{\"type\":\"response.create\",\"stream_id\":7}", "invalid_type", "stream_id", NULL},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        api_frame *frame = parse(refused[i].frame);
        if (api_frame_type(frame) != API_FRAME_REFUSED)
            fail_msg("accepted: %s", refused[i].frame);
        char *text = api_frame_error(frame);
        cJSON *answer = fake_json(text);
        const cJSON *error = json_get(answer, "error");
        const char *param = json_get_text(error, "param");
        const char *lane = json_get_text(answer, "stream_id");
        assert_string_equal(json_get_text(answer, "type"), "error");
        assert_true(json_get_number(answer, "status", 0) == 400);
        assert_string_equal(json_get_text(error, "type"), "invalid_request_error");
        assert_string_equal(json_get_text(error, "code"), refused[i].code);
        assert_string_equal(param ? param : "", refused[i].param ? refused[i].param : "");
        assert_true(cJSON_HasObjectItem(error, "param"));
        assert_string_equal(lane ? lane : "", refused[i].lane ? refused[i].lane : "");
        assert_true(cJSON_HasObjectItem(answer, "stream_id") == (refused[i].lane != NULL));
        assert_false(cJSON_HasObjectItem(answer, "sequence_number"));
        cJSON_Delete(answer);
        free(text);
        api_frame_free(frame);
    }
}

static void test_long_lane(void **state)
{
    (void)state;
    for (int size = 256; size <= 257; size++) {
        char text[400];
        snprintf(text, sizeof text, "{\"type\":\"response.create\",\"stream_id\":\"%0*d\"}", size,
                 0);
        api_frame *frame = parse(text);
        assert_int_equal(api_frame_type(frame), size == 256 ? API_FRAME_CREATE : API_FRAME_REFUSED);
        api_frame_free(frame);
    }
}

static void test_steer(void **state)
{
    (void)state;
    api_frame *frame = parse("{\"type\":\"response.steer\",\"previous_response_id\":\"resp_1\","
                             "\"input\":\"Stop.\"}");
    assert_int_equal(api_frame_type(frame), API_FRAME_REFUSED);
    char *text = api_frame_error(frame);
    cJSON *answer = fake_json(text);
    const cJSON *error = json_get(answer, "error");
    const cJSON *steer = json_get(answer, "steer");
    assert_string_equal(json_get_text(answer, "type"), "response.steer.failed");
    assert_true(json_get_number(answer, "sequence_number", -1) == 0);
    assert_string_equal(json_get_text(error, "code"), "steering_not_supported");
    assert_string_equal(json_get_text(error, "type"), "invalid_request_error");
    assert_non_null(json_get_text(error, "message"));
    assert_string_equal(json_get_text(steer, "previous_response_id"), "resp_1");
    assert_string_equal(json_get_text(steer, "input"), "Stop.");
    cJSON_Delete(answer);
    free(text);
    api_frame_free(frame);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),  cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_long_lane),
        cmocka_unit_test(test_steer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
