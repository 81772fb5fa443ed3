/*
 * error_test.c - error bodies and frames; what a refusal of run becomes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

static void check_text(char *got, const char *wanted)
{
    assert_non_null(got);
    assert_string_equal(got, wanted);
    free(got);
}

static void test_body(void **state)
{
    (void)state;
    check_text(api_error_body("t", "c", "p", "m"),
               "{\"error\":{\"message\":\"m\",\"type\":\"t\",\"param\":\"p\",\"code\":\"c\"}}");
    check_text(api_error_body("t", NULL, NULL, "m\n\"x\""),
               "{\"error\":{\"message\":\"m\\n\\\"x\\\"\",\"type\":\"t\",\"param\":null,"
               "\"code\":null}}");
    check_text(api_error_body("t", NULL, "", "cut \xc3"),
               "{\"error\":{\"message\":\"cut \xef\xbf\xbd\",\"type\":\"t\",\"param\":null,"
               "\"code\":null}}");
}

static void test_frame(void **state)
{
    (void)state;
    check_text(api_error_frame(429, "t", "c", NULL, "m", NULL),
               "{\"type\":\"error\",\"status\":429,\"error\":{\"message\":\"m\",\"type\":\"t\","
               "\"param\":null,\"code\":\"c\"}}");
    check_text(api_error_frame(400, "t", "c", "p", "m", "lane"),
               "{\"type\":\"error\",\"status\":400,\"error\":{\"message\":\"m\",\"type\":\"t\","
               "\"param\":\"p\",\"code\":\"c\"},\"stream_id\":\"lane\"}");
}

static const struct {
    enum run_refusal_reason reason;
    const char *param;
    int status;
    const char *type;
    const char *code;
    const char *shown_param;
    bool retry;
} refusals[] = {
    {RUN_REFUSED_INPUT, "input[1]", 400, "invalid_request_error", "invalid_value", "input[1]",
     false},
    {RUN_REFUSED_TOO_LONG, "", 400, "invalid_request_error", "context_length_exceeded", "input",
     false},
    {RUN_REFUSED_UNSUPPORTED, "model", 400, "invalid_request_error", "unsupported_value", "model",
     false},
    {RUN_REFUSED_BUSY, "", 503, "server_error", "server_is_overloaded", "", true},
    {RUN_REFUSED_KEY_BUSY, "", 429, "rate_limit_error", "rate_limit_exceeded", "", true},
    {RUN_REFUSED_STOPPING, "", 503, "server_error", "server_is_overloaded", "", true},
    {RUN_REFUSED_NOT_FOUND, "previous_response_id", 400, "invalid_request_error",
     "previous_response_not_found", "previous_response_id", false},
    {RUN_REFUSED_NOT_FOUND, "input[0].id", 404, "invalid_request_error", "not_found", "input[0].id",
     false},
    {RUN_REFUSED_INTERNAL, "input", 500, "server_error", "server_error", "", false},
};

static void test_refusals_of_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        run_refusal refusal = {.reason = refusals[i].reason, .message = "why"};
        api_error error;
        snprintf(refusal.param, sizeof refusal.param, "%s", refusals[i].param);
        api_refuse_run(&error, &refusal, "input");
        assert_int_equal(error.status, refusals[i].status);
        assert_string_equal(error.type, refusals[i].type);
        assert_string_equal(error.code, refusals[i].code);
        assert_string_equal(error.param, refusals[i].shown_param);
        assert_memory_equal(error.message, "why", 3);
        assert_int_equal(error.retry_after > 0, refusals[i].retry);
    }
}

static void test_paths(void **state)
{
    (void)state;
    char at[API_PARAM_SIZE], path[API_PARAM_SIZE], deep[API_PARAM_SIZE];
    api_path_at(at, "input", 2);
    api_path(path, at, "content");
    api_path_at(at, path, 0);
    api_path(deep, at, "type");
    assert_string_equal(deep, "input[2].content[0].type");
    api_path(path, "", "model");
    assert_string_equal(path, "model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_frame),
        cmocka_unit_test(test_refusals_of_run),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
