/*
 * tests/unit/script/threads_test.c - scripts on several threads, and ended from another.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script_testing.h"

#include <pthread.h>

static void *cancel_later(void *arg)
{
    struct timespec wait = {.tv_nsec = 50000000};
    nanosleep(&wait, NULL);
    atomic_store((atomic_bool *)arg, true);
    return NULL;
}

static void it_can_be_cancelled(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "while true do pcall(function() while true do end end) end",
        "table.move({}, 1, 1 << 62, 2)",
        "string.find(('a'):rep(2000), ('a-'):rep(20) .. 'b')",
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        atomic_bool cancel = false;
        pthread_t thread;
        said s;
        setting config = a_setting(sources[i]);
        config.cancel = &cancel;
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, &cancel), 0);
        script_result result = run_setting(&config, &s);
        pthread_join(thread, NULL);
        assert_int_equal(result.end, SCRIPT_CANCELLED);
        assert_true(result.elapsed_ns < 5000000000);
        script_result_clear(&result);
        forget_said(&s);
    }
}

/* Runs share nothing: many at once, each with its own globals. */
static void *run_one(void *arg)
{
    said s;
    setting config = a_setting("x = (x or 0) + 1 string.sub = nil for i = 1, 1e5 do end return x");
    script_result result = run_setting(&config, &s);
    *(bool *)arg = result.end == SCRIPT_DONE && strcmp(result.value, "1") == 0;
    script_result_clear(&result);
    forget_said(&s);
    return NULL;
}

static void runs_are_apart(void **state)
{
    (void)state;
    pthread_t threads[8];
    bool good[8] = {false};
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_one, &good[i]), 0);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_true(good[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_can_be_cancelled),
        cmocka_unit_test(runs_are_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
