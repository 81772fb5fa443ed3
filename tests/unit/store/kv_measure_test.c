/*
 * kv_measure_test.c - every metric of the prefix cache moves, and says what happened.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "kv_help.h"

enum { MB = 1024 * 1024 };

/* The value of a series in the text; -1: it is not there. */
static double value_of(metrics *all, const char *series)
{
    buf out;
    double value = -1;
    buf_init(&out, 1u << 20);
    metrics_write(all, &out);
    const char *text = buf_text(&out);
    for (const char *at = strstr(text, series); at; at = strstr(at + 1, series)) {
        if (at[strlen(series)] == ' ' && (at == text || at[-1] == '\n'))
            value = strtod(at + strlen(series), NULL);
    }
    buf_clear(&out);
    return value;
}

static void everything_moves(void **state)
{
    static const char *const moved[] = {
        "pawl_prefix_cache_reads_total{tier=\"memory\"}",
        "pawl_prefix_cache_reads_total{tier=\"disk\"}",
        "pawl_prefix_cache_tier_queries_total{tier=\"memory\"}",
        "pawl_prefix_cache_tier_queries_total{tier=\"disk\"}",
        "pawl_prefix_cache_tier_hits_total{tier=\"memory\"}",
        "pawl_prefix_cache_tier_hits_total{tier=\"disk\"}",
        "pawl_prefix_cache_evictions_total{tier=\"memory\"}",
        "pawl_prefix_cache_evictions_total{tier=\"disk\"}",
        "pawl_prefix_cache_read_misses_total",
        "pawl_prefix_cache_damaged_total",
        "pawl_prefix_cache_writes_total{outcome=\"written\"}",
        "pawl_prefix_cache_written_bytes_total",
        "pawl_prefix_cache_read_bytes_total",
        "pawl_prefix_cache_bytes{tier=\"memory\"}",
        "pawl_prefix_cache_bytes{tier=\"disk\"}",
        "pawl_prefix_cache_chunks{tier=\"memory\"}",
        "pawl_prefix_cache_chunks{tier=\"disk\"}",
        "pawl_prefix_cache_file_bytes",
    };
    char folder[64];
    kv *k;
    pawl_error error;
    metrics *all = metrics_open();
    (void)state;
    help_make_folder(folder);
    kv_config config = {.folder = folder,
                        .disk_bytes = 4 * MB,
                        .memory_bytes = MB,
                        .write_bytes_second = 1u << 30,
                        .metrics = all};
    assert_int_equal(kv_open(&config, &k, &error), PAWL_OK);
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        if (strstr(moved[i], "file_bytes") == NULL)
            assert_true(value_of(all, moved[i]) == 0);
    }
    assert_true(value_of(all, "pawl_prefix_cache_writes_total{outcome=\"dropped\"}") == 0);
    assert_true(value_of(all, "pawl_prefix_cache_queue_bytes") == 0);
    for (uint32_t c = 0; c < 10; c++) {
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(kv_help_put(k, c, i, 200000, ""), PAWL_OK);
        kv_flush(k);
    }
    assert_int_equal(kv_help_find(k, 9, 4), 3);
    assert_int_equal(kv_help_read(k, 9, 2, 200000), KV_HELP_RIGHT); /* from memory */
    while (kv_help_stats(k).hits_disk == 0) { /* one of the last is on disk alone */
        uint32_t c = 5 + (uint32_t)kv_help_stats(k).hits_memory % 4;
        assert_true(kv_help_find(k, c, 3) > 0);
        assert_int_equal(kv_help_read(k, c, 0, 200000), KV_HELP_RIGHT);
    }
    assert_int_equal(kv_help_read(k, 77, 0, 1), KV_HELP_MISS);
    kv_key key = kv_help_key(9, 0);
    int32_t tokens[KV_HELP_TOKENS] = {0};
    kv_reader *reader;
    pawl_source source;
    assert_int_equal(kv_read(k, &key, tokens, KV_HELP_TOKENS, &reader, &source),
                     PAWL_E_NOT_FOUND); /* other tokens: damage */
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        if (!(value_of(all, moved[i]) > 0))
            fail_msg("%s did not move", moved[i]);
    }
    assert_true(value_of(all, "pawl_prefix_cache_writes_total{outcome=\"written\"}") == 30);
    assert_true(value_of(all, "pawl_prefix_cache_read_bytes_total") == 200000);
    assert_true(value_of(all, "pawl_prefix_cache_written_bytes_total") == 30 * 200000.);
    kv_close(k);
    metrics_close(all);
    help_remove_folder(folder);
}

/* A writer that is far behind drops, and says so; what is in memory is still there. */
static void a_slow_writer_drops(void **state)
{
    char folder[64];
    kv *k;
    pawl_error error;
    metrics *all = metrics_open();
    (void)state;
    help_make_folder(folder);
    kv_config config = {.folder = folder,
                        .disk_bytes = 256 * MB,
                        .memory_bytes = 64 * MB,
                        .write_bytes_second = 1000,
                        .metrics = all};
    assert_int_equal(kv_open(&config, &k, &error), PAWL_OK);
    for (uint32_t i = 0; i < 60; i++)
        assert_int_equal(kv_help_put(k, 1, i, MB, ""), PAWL_OK);
    kv_stats stats = kv_help_stats(k);
    assert_true(stats.dropped > 10 && stats.queued_bytes <= 32 * MB && stats.queued_bytes > 0);
    assert_true(value_of(all, "pawl_prefix_cache_writes_total{outcome=\"dropped\"}") ==
                (double)stats.dropped);
    assert_true(value_of(all, "pawl_prefix_cache_queue_bytes") > 0);
    assert_int_equal(kv_help_find(k, 1, 60), 60);
    pawl_status status = PAWL_OK;
    for (uint32_t i = 60; i < 80 && !status; i++)
        status = kv_help_put(k, 1, i, MB, "");
    assert_int_equal(status, PAWL_E_BUSY); /* memory is full of what cannot go */
    assert_true(kv_help_stats(k).memory_bytes <= 64 * MB);
    kv_close(k);
    metrics_close(all);
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_moves),
        cmocka_unit_test(a_slow_writer_drops),
    };
    log_set_level(PAWL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
