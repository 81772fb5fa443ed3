/*
 * utf8_test.c - any bytes, cut in any way, become what Python's decoder says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "utf8_cases.h"

enum { N_CASES = sizeof utf8_cases / sizeof utf8_cases[0] };

static void expect(int i, const buf *out)
{
    if (out->size != utf8_cases[i].out_size ||
        memcmp(buf_text(out), utf8_cases[i].out, out->size) != 0)
        fail_msg("case %d differs", i);
}

/* Feeds the case in pieces of which each bit of cuts ends one. */
static void feed_cut(int i, uint32_t cuts, buf *out)
{
    const char *in = utf8_cases[i].in;
    size_t size = utf8_cases[i].in_size, from = 0;
    utf8_tail tail = {{0}, 0};
    for (size_t at = 1; at <= size; at++) {
        if (at < size && (at > 32 || !(cuts >> (at - 1) & 1)))
            continue;
        utf8_feed(&tail, in + from, at - from, out);
        assert_true(tail.size <= 3);
        from = at;
    }
    utf8_finish(&tail, out);
    assert_int_equal(tail.size, 0);
}

/* Every way to cut a short one; each size of pieces for a long one. */
static void every_cut(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 10000);
    for (int i = 0; i < N_CASES; i++) {
        size_t size = utf8_cases[i].in_size;
        uint32_t ways = size <= 14 && size ? 1u << (size - 1) : 1;
        for (uint32_t cuts = 0; cuts < ways; cuts++) {
            buf_reset(&out);
            feed_cut(i, cuts, &out);
            expect(i, &out);
        }
    }
    buf_clear(&out);
}

static void every_piece_size(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 10000);
    for (int i = 0; i < N_CASES; i++) {
        for (size_t step = 1; step <= utf8_cases[i].in_size + 1; step++) {
            utf8_tail tail = {{0}, 0};
            buf_reset(&out);
            for (size_t at = 0; at < utf8_cases[i].in_size; at += step) {
                size_t left = utf8_cases[i].in_size - at;
                utf8_feed(&tail, utf8_cases[i].in + at, left < step ? left : step, &out);
                utf8_feed(&tail, NULL, 0, &out); /* nothing changes nothing */
            }
            utf8_finish(&tail, &out);
            expect(i, &out);
        }
    }
    buf_clear(&out);
}

/* Whole characters are not held back. */
static void whole_characters_come_at_once(void **state)
{
    (void)state;
    buf out;
    utf8_tail tail = {{0}, 0};
    buf_init(&out, 100);
    utf8_feed(&tail, "a\xE2\x82", 3, &out);
    assert_string_equal(buf_text(&out), "a");
    utf8_feed(&tail, "\xAC", 1, &out);
    assert_string_equal(buf_text(&out), "a\xE2\x82\xAC");
    utf8_feed(&tail, "\xF0\x9F", 2, &out);
    utf8_feed(&tail, "b", 1, &out); /* can never become a character */
    assert_string_equal(buf_text(&out), "a\xE2\x82\xAC\xEF\xBF\xBD"
                                        "b");
    utf8_finish(&tail, &out);
    assert_int_equal(out.size, 8);
    buf_clear(&out);
}

static void valid_prefix(void **state)
{
    (void)state;
    assert_int_equal(utf8_valid_prefix(NULL, 0), 0);
    assert_int_equal(utf8_valid_prefix("ab\0c", 4), 4);
    assert_int_equal(utf8_valid_prefix("a\xC3\xA4\xF0\x9F\x98\x80", 7), 7);
    assert_int_equal(utf8_valid_prefix("a\xC3\xA4\xF0\x9F\x98", 6), 3);
    assert_int_equal(utf8_valid_prefix("ab\xED\xA0\x80", 5), 2);
    assert_int_equal(utf8_valid_prefix("\x80", 1), 0);
    for (int i = 0; i < N_CASES; i++) { /* whole exactly where decoding changes nothing */
        size_t size = utf8_cases[i].in_size;
        int same = size == utf8_cases[i].out_size &&
                   memcmp(utf8_cases[i].in, utf8_cases[i].out, size) == 0;
        assert_int_equal(utf8_valid_prefix(utf8_cases[i].in, size) == size, same);
    }
}

/* What a reader sees when: a surrogate half waits for its third byte. */
static void half_surrogate_waits(void **state)
{
    (void)state;
    utf8_tail tail = {{0}, 0};
    buf out;
    buf_init(&out, 100);
    utf8_feed(&tail, "\xED", 1, &out);
    utf8_feed(&tail, "\xA0", 1, &out);
    assert_int_equal(out.size, 0);
    utf8_feed(&tail, "\x80", 1, &out);
    assert_int_equal(out.size, 9);
    utf8_feed(&tail, "\xED\xA0", 2, &out);
    assert_int_equal(out.size, 9);
    utf8_finish(&tail, &out);
    assert_int_equal(out.size, 15);
    buf_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_surrogate_waits), cmocka_unit_test(every_cut),
        cmocka_unit_test(every_piece_size),     cmocka_unit_test(whole_characters_come_at_once),
        cmocka_unit_test(valid_prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
