/*
 * route_test.c - which endpoint a method and a path mean; queries and pages.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "fake_env.h"

#include "api/handlers.h"

static const struct {
    const char *method;
    const char *path;
    enum route_name route;
    const char *id;
    int status; /* of a refusal */
    const char *code;
} cases[] = {
    {"POST", "/v1/responses", ROUTE_RESPONSES_CREATE, "", 0, NULL},
    {"POST", "/responses", ROUTE_RESPONSES_CREATE, "", 0, NULL},
    {"POST", "/v1/responses/", ROUTE_RESPONSES_CREATE, "", 0, NULL},
    {"POST", "/v1/responses/input_tokens", ROUTE_INPUT_TOKENS, "", 0, NULL},
    {"GET", "/v1/responses/resp_1", ROUTE_RESPONSE_GET, "resp_1", 0, NULL},
    {"DELETE", "/responses/resp_1", ROUTE_RESPONSE_DELETE, "resp_1", 0, NULL},
    {"POST", "/v1/responses/resp_1/cancel", ROUTE_RESPONSE_CANCEL, "resp_1", 0, NULL},
    {"GET", "/v1/responses/resp_1/input_items", ROUTE_INPUT_ITEMS, "resp_1", 0, NULL},
    {"POST", "/v1/conversations", ROUTE_CONVERSATIONS_CREATE, "", 0, NULL},
    {"GET", "/v1/conversations", ROUTE_CONVERSATIONS_LIST, "", 0, NULL},
    {"GET", "/v1/conversations/conv_1", ROUTE_CONVERSATION_GET, "conv_1", 0, NULL},
    {"POST", "/conversations/conv_1", ROUTE_CONVERSATION_UPDATE, "conv_1", 0, NULL},
    {"DELETE", "/v1/conversations/conv_1/", ROUTE_CONVERSATION_DELETE, "conv_1", 0, NULL},
    {"GET", "/v1/conversations/conv_1/items", ROUTE_ITEMS_LIST, "conv_1", 0, NULL},
    {"POST", "/v1/conversations/conv_1/items", ROUTE_ITEMS_CREATE, "conv_1", 0, NULL},
    {"GET", "/v1/conversations/conv_1/items/msg_1", ROUTE_ITEM_GET, "conv_1", 0, NULL},
    {"DELETE", "/v1/conversations/conv_1/items/msg_1", ROUTE_ITEM_DELETE, "conv_1", 0, NULL},
    {"PUT", "/v1/conversations/conv_1/items/msg_1", ROUTE_NONE, "", 405, "method_not_allowed"},
    {"GET", "/v1/conversations//items", ROUTE_NONE, "", 404, "unknown_url"},
    {"GET", "/v1/conversations/a/items/b/c", ROUTE_NONE, "", 404, "unknown_url"},
    {"POST", "/v1/chat/completions", ROUTE_CHAT, "", 0, NULL},
    {"POST", "/chat/completions", ROUTE_CHAT, "", 0, NULL},
    {"POST", "/v1/completions", ROUTE_COMPLETIONS, "", 0, NULL},
    {"POST", "/completions/", ROUTE_COMPLETIONS, "", 0, NULL},
    {"POST", "/tokenize", ROUTE_TOKENIZE, "", 0, NULL},
    {"POST", "/v1/detokenize", ROUTE_DETOKENIZE, "", 0, NULL},
    {"GET", "/v1/chat/completions", ROUTE_NONE, "", 405, "method_not_allowed"},
    {"POST", "/v1/chat", ROUTE_NONE, "", 404, "unknown_url"},
    {"GET", "/v1/models", ROUTE_MODELS, "", 0, NULL},
    {"GET", "/models", ROUTE_MODELS, "", 0, NULL},
    {"GET", "/v1/models/org/name", ROUTE_MODEL, "org/name", 0, NULL},
    {"GET", "/health", ROUTE_READY, "", 0, NULL},
    {"GET", "/metrics", ROUTE_METRICS, "", 0, NULL},
    {"GET", "/livez", ROUTE_HEALTH, "", 0, NULL},
    {"GET", "/readyz", ROUTE_READY, "", 0, NULL},
    {"GET", "/version", ROUTE_VERSION, "", 0, NULL},
    {"GET", "/v1/responses", ROUTE_NONE, "", 426, "upgrade_required"},
    {"PUT", "/v1/responses", ROUTE_NONE, "", 405, "method_not_allowed"},
    {"PATCH", "/v1/responses/resp_1", ROUTE_NONE, "", 405, "method_not_allowed"},
    {"GET", "/v1/responses/resp_1/cancel", ROUTE_NONE, "", 405, "method_not_allowed"},
    {"POST", "/v1/models", ROUTE_NONE, "", 405, "method_not_allowed"},
    {"POST", "/health", ROUTE_NONE, "", 405, "method_not_allowed"},
    {"GET", "/", ROUTE_NONE, "", 404, "unknown_url"},
    {"GET", "", ROUTE_NONE, "", 404, "unknown_url"},
    {"GET", "/v1", ROUTE_NONE, "", 404, "unknown_url"},
    {"GET", "/v1/nothing", ROUTE_NONE, "", 404, "unknown_url"},
    {"POST", "/v1/responsesx", ROUTE_NONE, "", 404, "unknown_url"},
    {"GET", "/v1/responses/a/b/c", ROUTE_NONE, "", 404, "unknown_url"},
    {"GET", "/v1/v1/models", ROUTE_NONE, "", 404, "unknown_url"},
};

static void test_routes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        route_ids ids = {.id = ""};
        api_error error = {0};
        enum route_name route = route_find(cases[i].method, cases[i].path, &ids, &error);
        if (route != cases[i].route)
            fail_msg("%s %s gave route %d", cases[i].method, cases[i].path, (int)route);
        if (route != ROUTE_NONE) {
            assert_string_equal(ids.id, cases[i].id);
            continue;
        }
        if (error.status != cases[i].status)
            fail_msg("%s %s gave %d", cases[i].method, cases[i].path, error.status);
        assert_string_equal(error.code, cases[i].code);
        assert_string_equal(error.type, "invalid_request_error");
    }
}

static void test_allowed_methods_are_said(void **state)
{
    (void)state;
    route_ids ids;
    api_error error;
    route_find("PATCH", "/v1/responses/resp_1", &ids, &error);
    assert_non_null(strstr(error.message, "GET, DELETE"));
}

static void test_long_ids_are_unknown(void **state)
{
    (void)state;
    char path[2000] = "/v1/responses/";
    route_ids ids;
    api_error error;
    memset(path + strlen(path), 'a', 1000);
    assert_int_equal(route_find("GET", path, &ids, &error), ROUTE_NONE);
    assert_int_equal(error.status, 404);
}

static void test_both_ids_are_found(void **state)
{
    (void)state;
    route_ids ids;
    api_error error;
    assert_int_equal(route_find("GET", "/v1/conversations/conv_1/items/msg_2/", &ids, &error),
                     ROUTE_ITEM_GET);
    assert_string_equal(ids.id, "conv_1");
    assert_string_equal(ids.item, "msg_2");
}

static void test_query(void **state)
{
    (void)state;
    char value[8];
    assert_string_equal(route_query("limit=5&order=asc", "order", value, sizeof value), "asc");
    assert_string_equal(route_query("a=%41%2fb+c", "a", value, sizeof value), "A/b c");
    assert_string_equal(route_query("a=%zz%4", "a", value, sizeof value), "%zz%4");
    assert_string_equal(route_query("a=", "a", value, sizeof value), "");
    assert_string_equal(route_query("a=123456789", "a", value, sizeof value), "1234567");
    assert_null(route_query("ab=1&b", "a", value, sizeof value));
    assert_null(route_query("", "a", value, sizeof value));
    assert_null(route_query(NULL, "a", value, sizeof value));
}

/* The page of items 1 to 5 for a query, or the param that is refused. */
static void check_page(const char *query, const char *ids, bool has_more)
{
    cJSON *items = fake_json("[{\"id\":\"1\"},{\"id\":\"2\"},{\"id\":\"3\"},{\"id\":\"4\"},"
                             "{\"id\":\"5\"}]");
    buf out;
    api_error error;
    buf_init(&out, 65536);
    assert_true(responses_page_add(&out, items, query, &error));
    cJSON *page = fake_json(out.data);
    char got[16] = "";
    const cJSON *each;
    cJSON_ArrayForEach(each, json_get(page, "data"))
    {
        strcat(got, json_get_text(each, "id"));
    }
    assert_string_equal(got, ids);
    assert_string_equal(json_get_text(page, "object"), "list");
    assert_int_equal(json_get_bool(page, "has_more", false), has_more);
    if (*ids) {
        const char last[2] = {ids[strlen(ids) - 1], '\0'};
        assert_memory_equal(json_get_text(page, "first_id"), ids, 1);
        assert_string_equal(json_get_text(page, "last_id"), last);
    } else {
        assert_true(cJSON_HasObjectItem(page, "first_id"));
        assert_null(json_get(page, "first_id"));
    }
    cJSON_Delete(page);
    cJSON_Delete(items);
    buf_clear(&out);
}

static void test_pages(void **state)
{
    (void)state;
    check_page("", "54321", false);
    check_page("order=asc", "12345", false);
    check_page("order=desc&limit=2", "54", true);
    check_page("order=asc&limit=2", "12", true);
    check_page("order=asc&limit=2&after=2", "34", true);
    check_page("order=asc&limit=2&after=3", "45", false);
    check_page("limit=2&after=3", "21", false);
    check_page("limit=1&after=3", "2", true);
    check_page("after=1", "", false);
    check_page("order=asc&after=5", "", false);
}

static void test_bad_pages(void **state)
{
    static const char *const bad[][2] = {
        {"limit=0", "limit"},  {"limit=101", "limit"}, {"limit=x", "limit"},   {"limit=", "limit"},
        {"limit=5x", "limit"}, {"order=up", "order"},  {"after=nope", "after"}};
    (void)state;
    cJSON *items = fake_json("[{\"id\":\"1\"}]");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        buf out;
        api_error error;
        buf_init(&out, 65536);
        assert_false(responses_page_add(&out, items, bad[i][0], &error));
        assert_string_equal(error.param, bad[i][1]);
        buf_clear(&out);
    }
    cJSON_Delete(items);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_allowed_methods_are_said),
        cmocka_unit_test(test_long_ids_are_unknown),
        cmocka_unit_test(test_both_ids_are_found),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_bad_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
