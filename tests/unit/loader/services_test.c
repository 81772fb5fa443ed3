/*
 * services_test.c - what a plugin reports is shown under its name; what it should not
 * do is survived.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "loader/services.h"

static services s;

static void expect(metrics *all, const char *text)
{
    buf out;
    buf_init(&out, 1 << 20);
    metrics_write(all, &out);
    if (!strstr(buf_text(&out), text))
        fail_msg("%s is not in %s", text, buf_text(&out));
    buf_clear(&out);
}

static void reports_are_shown(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    services_init(&s, all, "dev.x");
    uint64_t passes = s.host.metric(&s.host, PAWL_COUNTER, "passes", "Passes.");
    uint64_t again = s.host.metric(&s.host, PAWL_COUNTER, "passes_total", "Passes.");
    uint64_t load = s.host.metric(&s.host, PAWL_GAUGE, "load", NULL);
    uint64_t time = s.host.metric(&s.host, PAWL_HISTOGRAM, "copy_seconds", "Copies.");
    assert_true(passes && again && load && time);
    s.host.report(&s.host, passes, 2);
    s.host.report(&s.host, again, 1);
    s.host.report(&s.host, passes, -5);
    s.host.report(&s.host, load, 3);
    s.host.report(&s.host, load, 0.5);
    s.host.report(&s.host, time, 0.3);
    s.host.report(&s.host, time, NAN);
    expect(all, "# HELP pawl_plugin_passes_total Passes.\n"
                "# TYPE pawl_plugin_passes_total counter\n"
                "pawl_plugin_passes_total{plugin=\"dev.x\"} 3\n");
    expect(all, "\npawl_plugin_load{plugin=\"dev.x\"} 0.5\n");
    expect(all, "\npawl_plugin_copy_seconds_count{plugin=\"dev.x\"} 1\n");
    metrics_close(all);
}

static void what_cannot_be_shown_has_no_handle(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    services_init(&s, all, "dev.x");
    assert_int_equal(s.host.metric(&s.host, PAWL_COUNTER, NULL, "x"), 0);
    assert_int_equal(s.host.metric(&s.host, PAWL_COUNTER, "", "x"), 0);
    assert_int_equal(s.host.metric(&s.host, PAWL_COUNTER, "a-b", "x"), 0);
    assert_int_equal(s.host.metric(&s.host, PAWL_COUNTER, name, "x"), 0);
    assert_int_equal(s.host.metric(&s.host, 3, "x", "x"), 0);
    assert_int_equal(s.host.metric(&s.host, -1, "x", "x"), 0);
    assert_int_equal(s.host.metric(&s.host, PAWL_GAUGE, "a", "x"), 1);
    assert_int_equal(s.host.metric(&s.host, PAWL_HISTOGRAM, "a", "x"), 0); /* another type */
    s.host.report(&s.host, 0, 1);
    s.host.report(&s.host, 2, 1);
    s.host.report(&s.host, UINT64_MAX, 1);
    for (int i = 0; i < SERVICES_MAX_METRICS - 1; i++)
        assert_int_equal(s.host.metric(&s.host, PAWL_GAUGE, "a", "x"), i + 2);
    assert_int_equal(s.host.metric(&s.host, PAWL_GAUGE, "a", "x"), 0);
    metrics_close(all);
}

static void without_metrics_nothing_happens(void **state)
{
    (void)state;
    services_init(&s, NULL, "dev.x");
    assert_int_equal(s.host.metric(&s.host, PAWL_COUNTER, "passes", "x"), 0);
    s.host.report(&s.host, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_are_shown),
        cmocka_unit_test(what_cannot_be_shown_has_no_handle),
        cmocka_unit_test(without_metrics_nothing_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
