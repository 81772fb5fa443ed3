/*
 * chunked_test.c - request bodies in chunks, cut anywhere.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "net/chunked.h"

/* Feeds the text in pieces of so many bytes; the bytes that were used go to *used. */
static enum chunked_result feed(const char *text, size_t piece, buf *out, size_t *used)
{
    chunked c;
    size_t size = strlen(text);
    enum chunked_result result = CHUNKED_MORE;
    chunked_init(&c);
    buf_reset(out);
    *used = 0;
    for (size_t at = 0; at < size && result == CHUNKED_MORE; at += piece) {
        size_t n = 0;
        result = chunked_feed(&c, text + at, size - at < piece ? size - at : piece, &n, out);
        *used += n;
    }
    return result;
}

static void reads_chunks_cut_anywhere(void **state)
{
    (void)state;
    static const char body[] = "5\r\nhello\r\nA;name=\"v\"\r\n, world!!!\r\n000\r\nTrailer: x\r\n"
                               "Other: y\r\n\r\n";
    char with_more[sizeof body + 4];
    snprintf(with_more, sizeof with_more, "%sGET", body);
    buf out;
    buf_init(&out, 1000);
    for (size_t piece = 1; piece <= sizeof with_more; piece++) {
        size_t used;
        assert_int_equal(feed(with_more, piece, &out, &used), CHUNKED_END);
        assert_string_equal(buf_text(&out), "hello, world!!!");
        assert_int_equal(used, strlen(body));
    }
    size_t used;
    char many[20 * 6 + 6] = "";
    for (int i = 0; i < 20; i++)
        strcat(many, "1\r\nx\r\n");
    strcat(many, "0\r\n\r\n");
    assert_int_equal(feed(many, sizeof many, &out, &used), CHUNKED_END);
    assert_int_equal(out.size, 20);
    buf_clear(&out);
}

static void wants_more(void **state)
{
    (void)state;
    static const char *const open[] = {
        "5", "5\r", "5\r\n", "5\r\nhello", "5\r\nhello\r\n", "0\r\n", "0\r\nX: y\r\n", "0\r\n\r"};
    buf out;
    buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++) {
        size_t used;
        assert_int_equal(feed(open[i], 100, &out, &used), CHUNKED_MORE);
    }
    buf_clear(&out);
}

static void refuses_what_is_none(void **state)
{
    (void)state;
    static const char *const bad[] = {"\r\n",
                                      "x\r\n",
                                      "5\nhello",
                                      "-5\r\nhello",
                                      "5\r\nhello!!",
                                      "5\r\nhello\n",
                                      " 5\r\n",
                                      "0\r\n\n",
                                      "5\r\rhello",
                                      "0x5\r\nhello",
                                      "1000000000000000\r\n",
                                      "0\r\nX\n\r\n",
                                      "5;a\nhello"};
    buf out;
    buf_init(&out, 1000);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t used;
        assert_int_equal(feed(bad[i], 1, &out, &used), CHUNKED_BAD);
        assert_int_equal(feed(bad[i], 100, &out, &used), CHUNKED_BAD);
    }
    buf_clear(&out);
}

static void keeps_to_the_limits(void **state)
{
    (void)state;
    buf out;
    size_t used;
    buf_init(&out, 4);
    assert_int_equal(feed("5\r\nhello\r\n0\r\n\r\n", 100, &out, &used), CHUNKED_FULL);
    assert_int_equal(feed("fffffffffffffff\r\nhello", 100, &out, &used), CHUNKED_FULL);
    chunked c;
    chunked_init(&c);
    enum chunked_result result = chunked_feed(&c, "0\r\n", 3, &used, &out);
    for (int i = 0; result == CHUNKED_MORE && i < CHUNKED_MAX_TRAILER; i++)
        result = chunked_feed(&c, "x\r\n", 3, &used, &out);
    result = result == CHUNKED_MORE ? chunked_feed(&c, "x", 1, &used, &out) : result;
    assert_int_equal(result, CHUNKED_BAD);
    chunked_init(&c);
    result = chunked_feed(&c, "1;", 2, &used, &out);
    for (int i = 0; result == CHUNKED_MORE && i < CHUNKED_MAX_LINE + 1; i++)
        result = chunked_feed(&c, "x", 1, &used, &out);
    assert_int_equal(result, CHUNKED_BAD);
    buf_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_chunks_cut_anywhere),
        cmocka_unit_test(wants_more),
        cmocka_unit_test(refuses_what_is_none),
        cmocka_unit_test(keeps_to_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
