/*
 * tests/unit/base/progress_test.c - rates and the time that is left.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SECOND 1000000000LL

static void says(const progress *p, int64_t seconds, double total, const char *note, unsigned width,
                 const char *text)
{
    buf out;
    buf_init(&out, 1000);
    progress_describe(p, seconds * SECOND, total, note, width, &out);
    assert_string_equal(buf_text(&out), text);
    assert_int_equal(out.size, strlen(text));
    buf_clear(&out);
}

static void it_is_described(void **state)
{
    (void)state;
    progress p = {.n = 0};
    says(&p, 0, 0, "", 0, "0");
    progress_note(&p, 0, 0);
    says(&p, 0, 10, "a.txt", 0, "0% 0/10 a.txt");
    progress_note(&p, 10 * SECOND, 5);
    says(&p, 10, 10, "b\x1b[2J", 0, "50% 5/10 0.5/s 10s left b?[2J");
    says(&p, 10, 100000, NULL, 0, "0% 5/100000 0.5/s 2d07h left");
    says(&p, 10, 4000, NULL, 0, "0% 5/4000 0.5/s 2h13m left");
    says(&p, 10, 100, NULL, 0, "5% 5/100 0.5/s 3m10s left");
    says(&p, 100, 10, NULL, 0, "50% 5/10 3.0/min 1m40s left");
    says(&p, 10, 0, "x", 0, "5 0.5/s x");
    says(&p, 10, 10, "name", 60, "[##########..........] 50% 5/10 0.5/s 10s left name");
    says(&p, 10, 10, "\xC3\xA4\xC3\xB6\xC3\xBC", 26, "50% 5/10 0.5/s 10s left \xC3\xA4\xC3\xB6");
    progress_note(&p, 20 * SECOND, 10);
    says(&p, 20, 10, NULL, 0, "100% 10/10 0.5/s");
    says(&p, 20, 8, NULL, 0, "100% 10/8 0.5/s");
}

/* 1000 that an earlier run has done go by in a second, then it is one a second. */
static void the_rate_is_the_latest(void **state)
{
    (void)state;
    progress p = {.n = 0};
    for (int i = 0; i <= 1000; i++)
        progress_note(&p, i * SECOND / 1000, i);
    assert_true(progress_rate(&p, SECOND) > 900);
    for (int i = 1; i <= 100; i++)
        progress_note(&p, (1 + i) * SECOND, 1000 + i);
    double rate = progress_rate(&p, 101 * SECOND);
    assert_true(rate > 0.9 && rate < 1.1);
    for (int i = 1; i <= 10; i++) /* slower: what is older than two minutes is forgotten */
        progress_note(&p, (101 + 100 * i) * SECOND, 1100 + i);
    rate = progress_rate(&p, 1101 * SECOND);
    assert_true(rate > 0.009 && rate < 0.012);
    progress_note(&p, 1102 * SECOND, 0);
    assert_true(progress_rate(&p, 1102 * SECOND) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_described),
        cmocka_unit_test(the_rate_is_the_latest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
