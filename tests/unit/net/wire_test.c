/*
 * wire_test.c - heads, event blocks, queries and small parsers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "net/wire.h"

static void expect(buf *out, const char *text)
{
    assert_false(out->failed);
    assert_string_equal(buf_text(out), text);
    buf_reset(out);
}

static void writes_heads(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 4096);
    wire_add_head(&out, &(wire_head){.status = 200,
                                     .content_type = "application/json",
                                     .request_id = "req_1",
                                     .size = 12});
    expect(&out, "HTTP/1.1 200 OK\r\nServer: pawl\r\nContent-Type: application/json\r\n"
                 "x-request-id: req_1\r\nContent-Length: 12\r\n\r\n");
    wire_add_head(&out, &(wire_head){.status = 503,
                                     .request_id = "req_1",
                                     .close = true,
                                     .retry_after = 3,
                                     .http_1_0 = true});
    expect(&out, "HTTP/1.1 503 Service Unavailable\r\nServer: pawl\r\nx-request-id: req_1\r\n"
                 "Content-Length: 0\r\nRetry-After: 3\r\nConnection: close\r\n\r\n");
    wire_add_head(&out, &(wire_head){.status = 200,
                                     .content_type = "text/event-stream",
                                     .request_id = "req_1",
                                     .stream = true,
                                     .chunked = true});
    expect(&out, "HTTP/1.1 200 OK\r\nServer: pawl\r\nContent-Type: text/event-stream\r\n"
                 "x-request-id: req_1\r\nTransfer-Encoding: chunked\r\nCache-Control: no-cache\r\n"
                 "X-Accel-Buffering: no\r\n\r\n");
    buf_clear(&out);
}

static void writes_events(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 4096);
    wire_add_event(&out, "response.created", "{\"a\":1}", 7, false);
    expect(&out, "event: response.created\ndata: {\"a\":1}\n\n");
    wire_add_event(&out, NULL, "[DONE]", 6, false);
    expect(&out, "data: [DONE]\n\n");
    wire_add_event(&out, "x", "{}", 2, true);
    expect(&out, "13\r\nevent: x\ndata: {}\n\n\r\n");
    wire_add_event(&out, NULL, "{}", 2, true);
    expect(&out, "a\r\ndata: {}\n\n\r\n");
    wire_add_comment(&out, true);
    expect(&out, "e\r\n: keep-alive\n\n\r\n");
    wire_add_comment(&out, false);
    expect(&out, ": keep-alive\n\n");
    buf_clear(&out);
}

static void puts_queries_together(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 4096);
    wire_add_query(&out, "limit=5", 7);
    wire_add_query(&out, "after=a&b=c d%\xc3\xa9", 16);
    wire_add_query(&out, "flag", 4);
    expect(&out, "limit=5&after=a%26b%3Dc%20d%25%C3%A9&flag");
    wire_add_query(&out, "a\0b", 3);
    expect(&out, "a%00b");
    buf_clear(&out);
}

static void reads_small_things(void **state)
{
    (void)state;
    uint64_t size = 7;
    assert_true(wire_has_token("keep-alive, Upgrade", "upgrade"));
    assert_true(wire_has_token("Upgrade", "upgrade"));
    assert_false(wire_has_token("upgrades, down-upgrade", "upgrade"));
    assert_false(wire_has_token("", "upgrade"));
    assert_true(wire_parse_size("0123", &size));
    assert_int_equal(size, 123);
    static const char *const bad[] = {
        "", "-1", "+1", "1 ", " 1", "1,1", "1e3", "0x1", "9999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(wire_parse_size(bad[i], &size));
    assert_true(wire_same_secret("secret", "secret"));
    assert_false(wire_same_secret("secre", "secret"));
    assert_false(wire_same_secret("secretsecret", "secret"));
    assert_false(wire_same_secret("", "secret"));
    assert_false(wire_same_secret("", ""));
    assert_true(wire_is_clean("/v1/models/\xc3\xa9 x"));
    assert_false(wire_is_clean("/v1\n"));
    assert_false(wire_is_clean("/\x7f"));
    assert_false(wire_is_clean("/\xff"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_heads),
        cmocka_unit_test(writes_events),
        cmocka_unit_test(puts_queries_together),
        cmocka_unit_test(reads_small_things),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
