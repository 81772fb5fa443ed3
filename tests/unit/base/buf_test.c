/*
 * buf_test.c - growth, the hard maximum, and who owns the bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static void grows_and_ends_with_nul(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 100000);
    assert_string_equal(buf_text(&b), "");
    assert_null(b.data);
    for (int i = 0; i < 10000; i++) {
        assert_true(buf_add(&b, &"0123456789"[i % 10], 1));
        assert_int_equal(b.data[b.size], '\0');
    }
    assert_int_equal(b.size, 10000);
    for (size_t i = 0; i < b.size; i++)
        assert_int_equal(b.data[i], '0' + (int)(i % 10));
    assert_true(buf_add(&b, "a\0b", 3)); /* bytes, not text */
    assert_memory_equal(b.data + 10000, "a\0b", 4);
    assert_int_equal(buf_bytes(&b).size, 10003);
    buf_clear(&b);
    assert_null(b.data);
    assert_int_equal(b.max, 100000);
    buf_clear(&b);
}

static void maximum_is_hard(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 5);
    assert_true(buf_add(&b, "abc", 3));
    assert_true(buf_add(&b, "de", 2));
    assert_false(b.failed);
    assert_false(buf_add(&b, "f", 1));
    assert_true(b.failed);
    assert_string_equal(buf_text(&b), "abcde");
    assert_false(buf_add(&b, "", 0)); /* once failed, always failed */
    assert_false(buf_add_text(&b, "x"));
    assert_false(buf_printf(&b, "%d", 1));
    assert_int_equal(b.size, 5);
    buf_reset(&b);
    assert_false(b.failed);
    assert_string_equal(buf_text(&b), "");
    assert_false(buf_add(&b, "123456", 6));
    buf_clear(&b);
    assert_false(b.failed);
    assert_true(buf_add(&b, "12345", 5));
    buf_clear(&b);
}

static void sizes_do_not_overflow(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, SIZE_MAX);
    assert_true(buf_add(&b, "a", 1));
    assert_false(buf_add(&b, "b", SIZE_MAX));
    buf_reset(&b);
    assert_false(buf_add(&b, "b", SIZE_MAX - 1));
    assert_string_equal(buf_text(&b), "");
    buf_clear(&b);
    buf_init(&b, 0);
    assert_true(buf_add(&b, NULL, 0));
    assert_false(buf_add(&b, "a", 1));
    buf_clear(&b);
}

static void prints(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1000);
    assert_true(buf_printf(&b, "%s=%d", "a", 7));
    assert_true(buf_printf(&b, "%s", ""));
    assert_true(buf_printf(&b, ";%0200d", 5));
    assert_int_equal(b.size, 3 + 1 + 200);
    assert_memory_equal(b.data, "a=7;000", 7);
    buf_clear(&b);
    buf_init(&b, 3);
    assert_true(buf_printf(&b, "%d", 123));
    assert_string_equal(buf_text(&b), "123");
    buf_reset(&b);
    assert_false(buf_printf(&b, "%d", 1234));
    assert_string_equal(buf_text(&b), "");
    buf_clear(&b);
}

static void takes(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 4);
    char *data = buf_take(&b); /* nothing was appended: an empty string all the same */
    assert_string_equal(data, "");
    free(data);
    buf_add_text(&b, "ab");
    data = buf_take(&b);
    assert_string_equal(data, "ab");
    assert_int_equal(b.size, 0);
    assert_null(b.data);
    free(data);
    buf_add_text(&b, "abcd"); /* usable again, with its maximum */
    buf_add_text(&b, "e");
    assert_null(buf_take(&b));
    assert_false(b.failed);
    buf_clear(&b);
}

static void is_a_sink(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 4);
    pawl_sink sink = buf_sink(&b);
    assert_int_equal(sink.write(sink.context, "abc", 3), PAWL_OK);
    assert_int_equal(sink.write(sink.context, "de", 2), PAWL_E_LIMIT);
    assert_string_equal(buf_text(&b), "abc");
    buf_clear(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_ends_with_nul),
        cmocka_unit_test(maximum_is_hard),
        cmocka_unit_test(sizes_do_not_overflow),
        cmocka_unit_test(prints),
        cmocka_unit_test(takes),
        cmocka_unit_test(is_a_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
