/*
 * kv_quota_test.c - a day of conversations in tiers that are far too small for them: files
 * and memory keep their budgets at every moment, and the cache is worth having.
 *
 * tests/bench/kv_bench.c compares hit rates; here they only have to be there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "kv_play.h"
#include "store/kv_check.h"

enum { MB = 1024 * 1024, SIZE = 60000, DISK = 32 * MB, MEMORY = 8 * MB, VISITS = 1500 };

static void budgets_hold(void **state)
{
    char folder[64];
    trace t;
    trace_visit v;
    play_clock clock;
    kv *k;
    pawl_error error;
    kv_check_report report;
    uint64_t found = 0, wanted = 0, highest = 0, file = 0;
    (void)state;
    kv_help_make_folder(folder);
    play_clock_init(&clock);
    kv_config config = {.folder = folder,
                        .disk_bytes = DISK,
                        .memory_bytes = MEMORY,
                        .write_bytes_second = 1u << 30,
                        .clock = &clock.clock};
    trace_begin(&t, 1, false);
    clock.now_ms = t.now_ms;
    assert_int_equal(kv_open(&config, &k, &error), PAWL_OK);
    for (int i = 0; i < VISITS; i++) {
        trace_next(&t, &v);
        clock.now_ms = v.at_ms;
        found += play_visit(k, &v, SIZE);
        wanted += v.n_wanted;
        if (i % 4 == 0)
            kv_flush(k);
        kv_stats stats = kv_help_stats(k);
        highest = stats.memory_bytes > highest ? stats.memory_bytes : highest;
        file = stats.file_bytes > file ? stats.file_bytes : file;
        assert_true(stats.file_bytes <= DISK + 32 * MB);
        assert_true(stats.memory_bytes <= 32 * MB); /* what is on its way may exceed it */
        if (i % 4 == 0)
            assert_true(stats.memory_bytes <= MEMORY);
    }
    kv_stats stats = kv_help_stats(k);
    print_message("%.1f %% of %llu chunks found; files at most %.1f MB of %d, memory %.1f MB\n",
                  100. * (double)found / (double)wanted, (unsigned long long)wanted,
                  (double)file / 1e6, DISK / 1000000, (double)highest / 1e6);
    assert_true(stats.evicted_disk > 500 && stats.damaged == 0);
    assert_true(found * 2 > wanted);
    kv_close(k);
    assert_int_equal(kv_check(folder, false, NULL, NULL, &report, &error), PAWL_OK);
    assert_true(kv_check_is_clean(&report));
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets_hold)};
    log_set_level(PAWL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
