/*
 * clock_test.c - ids from a played clock and from the real one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/clock.h"

static void count_up(void *context, void *bytes, size_t size)
{
    unsigned char *at = bytes, *next = context;
    for (size_t i = 0; i < size; i++)
        at[i] = (*next)++;
}

static void ids_follow_the_clock(void **state)
{
    (void)state;
    unsigned char next = 0xF8;
    base_clock played = {.context = &next, .random = count_up};
    char id[CLOCK_ID_SIZE];
    clock_new_id(&played, "resp_", id);
    assert_string_equal(id, "resp_f8f9fafbfcfdfeff0001020304050607");
    clock_new_id(&played, "", id);
    assert_string_equal(id, "08090a0b0c0d0e0f1011121314151617");
    clock_new_id(&played, "1234567", id);
    assert_int_equal(strlen(id), CLOCK_ID_SIZE - 1);
    next = 0;
    clock_new_id(&played, "far_too_long_a_prefix", id); /* is cut, not written past the end */
    assert_string_equal(id, "far_too000102030405060708090a0b0c0d0e0f");
}

static void real_ids_differ(void **state)
{
    (void)state;
    char ids[200][CLOCK_ID_SIZE];
    for (int i = 0; i < 200; i++) {
        clock_new_id(clock_system(), "msg_", ids[i]);
        assert_int_equal(strlen(ids[i]), 36);
        assert_int_equal(strspn(ids[i] + 4, "0123456789abcdef"), 32);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(ids[i], ids[k]);
    }
}

static void time_goes_on(void **state)
{
    (void)state;
    const base_clock *clock = clock_system();
    int64_t before = clock->monotonic_ns(clock->context);
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock->monotonic_ns(clock->context);
        assert_true(now >= before);
        before = now;
    }
    assert_true(clock->wall_ms(clock->context) > 1577836800000); /* after 2019 */
    unsigned char bytes[1000] = {0}; /* more than one getrandom() is sure to give */
    int zeros = 0;
    clock->random(clock->context, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        zeros += bytes[i] == 0;
    assert_in_range(zeros, 0, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_follow_the_clock),
        cmocka_unit_test(real_ids_differ),
        cmocka_unit_test(time_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
