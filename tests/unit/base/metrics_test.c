/*
 * metrics_test.c - values, series, and the text that Prometheus reads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/metrics.h"

static const metric_spec counter = {
    METRIC_COUNTER, "c_total", "A \"counter\"\\\nof lines.", {"a", "b"}, NULL};
static const metric_spec gauge = {METRIC_GAUGE, "g", "A gauge.", {0}, NULL};

static void expect_text(metrics *all, const char *text)
{
    buf out;
    buf_init(&out, 1 << 20);
    metrics_write(all, &out);
    assert_string_equal(buf_text(&out), text);
    buf_clear(&out);
}

static void counters_and_gauges(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    metric *c = metric_with(metrics_family(all, &counter), "x\"\\\n", "\xC3\xA9\xFF");
    metric *g = metrics_single(all, &gauge);
    metric_add(c, 1);
    metric_add(c, 2.5);
    metric_add(c, -1); /* a counter never falls */
    metric_add(c, NAN);
    metric_set(c, 100);
    metric_observe(c, 1);
    metric_set(g, 7);
    metric_add(g, -8);
    metric_raise_to(g, 50);
    expect_text(all, "# HELP c_total A \"counter\"\\\\\\nof lines.\n"
                     "# TYPE c_total counter\n"
                     "c_total{a=\"x\\\"\\\\\\n\",b=\"\xC3\xA9\"} 3.5\n"
                     "# HELP g A gauge.\n"
                     "# TYPE g gauge\n"
                     "g -1\n");
    metric_raise_to(c, 2);
    assert_true(metric_value(c) == 3.5);
    metric_raise_to(c, 9007199254740993.0);
    assert_true(metric_value(c) == 9007199254740992.0);
    metrics_close(all);
}

static void histograms(void **state)
{
    (void)state;
    static const double bounds[] = {0.1, 1, 10};
    static const metric_bounds b = {bounds, 3};
    static const metric_spec spec = {METRIC_HISTOGRAM, "h_seconds", "H.", {"m"}, &b};
    metrics *all = metrics_open();
    metric *h = metric_with(metrics_family(all, &spec), "x", NULL);
    static const double values[] = {0.1, 0.05, 0.5, 10, 11, NAN, INFINITY};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        metric_observe(h, values[i]);
    metric_add(h, 3);
    expect_text(all, "# HELP h_seconds H.\n# TYPE h_seconds histogram\n"
                     "h_seconds_bucket{m=\"x\",le=\"0.1\"} 2\n"
                     "h_seconds_bucket{m=\"x\",le=\"1\"} 3\n"
                     "h_seconds_bucket{m=\"x\",le=\"10\"} 4\n"
                     "h_seconds_bucket{m=\"x\",le=\"+Inf\"} 5\n"
                     "h_seconds_sum{m=\"x\"} 21.65\n"
                     "h_seconds_count{m=\"x\"} 5\n");
    assert_true(metric_value(h) == 5);
    metrics_close(all);
}

static void what_is_no_family(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    static const double falling[] = {1, 1};
    static const metric_bounds wrong = {falling, 2};
    const metric_spec bad[] = {
        {METRIC_GAUGE, "", "", {0}, NULL},
        {METRIC_GAUGE, "1a", "", {0}, NULL},
        {METRIC_GAUGE, "a:b", "", {0}, NULL},
        {METRIC_GAUGE, "a b", "", {0}, NULL},
        {METRIC_GAUGE, "a", "", {"x-y"}, NULL},
        {METRIC_GAUGE, "a", "", {"le"}, NULL},
        {METRIC_GAUGE, "a", "", {0}, &metric_seconds},
        {METRIC_HISTOGRAM, "a", "", {0}, NULL},
        {METRIC_HISTOGRAM, "a", "", {0}, &wrong},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_null(metrics_family(all, &bad[i]));
    metric_family *f = metrics_family(all, &counter);
    assert_non_null(f);
    assert_ptr_equal(metrics_family(all, &counter), f);
    metric_spec other = counter;
    other.type = METRIC_GAUGE;
    assert_null(metrics_family(all, &other));
    assert_null(metric_with(f, "x", NULL)); /* labels that do not fit */
    assert_null(metric_with(f, NULL, "x"));
    expect_text(all, ""); /* a family without a series is not shown */
    metrics_close(all);
}

static void nothing_is_measured_without_metrics(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 100);
    assert_null(metrics_family(NULL, &gauge));
    assert_null(metrics_single(NULL, &gauge));
    metric_add(NULL, 1);
    metric_set(NULL, 1);
    metric_observe(NULL, 1);
    metric_raise_to(NULL, 1);
    assert_true(metric_value(NULL) == 0);
    metrics_on_write(NULL, NULL, NULL);
    metrics_write(NULL, &out);
    metrics_close(NULL);
    assert_int_equal(out.size, 0);
}

static void series_are_bounded(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    metric_family *f = metrics_family(all, &counter);
    metric *first = metric_with(f, "0", "x"), *last = NULL;
    char name[300];
    for (int i = 0; i < METRIC_MAX_SERIES + 10; i++) {
        snprintf(name, sizeof name, "%d", i);
        last = metric_with(f, name, "x");
        metric_add(last, 1);
    }
    assert_ptr_equal(metric_with(f, "0", "x"), first);
    assert_ptr_equal(metric_with(f, "new", "y"), last);
    assert_ptr_equal(metric_with(f, "other", "other"), last);
    assert_true(metric_value(last) == 10);
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_ptr_equal(metric_with(f, name, "y"), last);
    metrics_close(all);
}

static void families_are_bounded(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    char name[32];
    metric_spec spec = gauge;
    spec.name = name;
    for (int i = 0; i < METRIC_MAX_FAMILIES; i++) {
        snprintf(name, sizeof name, "g%d", i);
        assert_non_null(metrics_family(all, &spec));
    }
    snprintf(name, sizeof name, "more");
    assert_null(metrics_family(all, &spec));
    metrics_close(all);
}

/* ------------------------------------------------------------------- threads ---- */

#define N_THREADS 4
#define N_EACH 20000

static const metric_spec times = {METRIC_HISTOGRAM, "t", "T.", {"who"}, &metric_seconds};

static void *measure(void *arg)
{
    metrics *all = arg;
    for (int i = 0; i < N_EACH; i++) {
        metric_add(metric_with(metrics_family(all, &counter), "a", i & 1 ? "b" : "c"), 1);
        metric_observe(metric_with(metrics_family(all, &times), "all", NULL), 0.25);
    }
    return NULL;
}

static void nothing_is_lost_between_threads(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    pthread_t threads[N_THREADS];
    buf out;
    buf_init(&out, 1 << 20);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, measure, all), 0);
    for (int i = 0; i < 50; i++) {
        buf_reset(&out);
        metrics_write(all, &out);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    metric_family *f = metrics_family(all, &counter);
    metric *t = metric_with(metrics_family(all, &times), "all", NULL);
    assert_true(metric_value(metric_with(f, "a", "b")) == N_THREADS * N_EACH / 2);
    assert_true(metric_value(metric_with(f, "a", "c")) == N_THREADS * N_EACH / 2);
    assert_true(metric_value(t) == N_THREADS * N_EACH);
    buf_reset(&out);
    metrics_write(all, &out);
    assert_non_null(strstr(buf_text(&out), "t_sum{who=\"all\"} 20000\n"));
    buf_clear(&out);
    metrics_close(all);
}

static void of_the_process(void **state)
{
    (void)state;
    metrics *all = metrics_open();
    buf out;
    buf_init(&out, 1 << 20);
    metrics_add_process(all, "1.2.3");
    metrics_write(all, &out);
    static const char *const expected[] = {"pawl_build_info{version=\"1.2.3\",abi=\"1.0\"} 1\n",
                                           "\nprocess_resident_memory_bytes ",
                                           "\nprocess_open_fds ",
                                           "\nprocess_start_time_seconds 1",
                                           "\nprocess_cpu_seconds_total ",
                                           "pawl_log_lines_total{level=\"warn\"} "};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_non_null(strstr(buf_text(&out), expected[i]));
    buf_clear(&out);
    metrics_close(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_and_gauges),
        cmocka_unit_test(histograms),
        cmocka_unit_test(what_is_no_family),
        cmocka_unit_test(nothing_is_measured_without_metrics),
        cmocka_unit_test(series_are_bounded),
        cmocka_unit_test(families_are_bounded),
        cmocka_unit_test(nothing_is_lost_between_threads),
        cmocka_unit_test(of_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
