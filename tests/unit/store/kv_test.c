/*
 * kv_test.c - the contract of store/kv.h: both tiers, restart, eviction, quotas, removal.
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

enum { KB = 1024, MB = 1024 * 1024 };

static int make(void **state)
{
    static char folder[64];
    help_make_folder(folder);
    *state = folder;
    return 0;
}

static int unmake(void **state)
{
    help_remove_folder(*state);
    return 0;
}

static kv *open_kv(const char *folder, uint64_t disk, uint64_t memory)
{
    kv_config config = {.folder = folder,
                        .disk_bytes = disk,
                        .memory_bytes = memory,
                        .write_bytes_second = 1u << 30,
                        .retry_ms = 10};
    kv *k = NULL;
    pawl_error error;
    assert_int_equal(kv_open(&config, &k, &error), PAWL_OK);
    return k;
}

static void put_all(kv *k, uint32_t c, uint32_t n, uint64_t size)
{
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(kv_help_put(k, c, i, size, ""), PAWL_OK);
}

/* Sizes around the borders of a page and of a piece. */
static void every_size_comes_back(void **state)
{
    static const uint64_t sizes[] = {1,       31,      32,      33,           16349,   16350,
                                     100000,  4193279, 4193280, 4193281,      8386560, 8386561,
                                     9000000, 3,       65536,   12 * MB + 17, 5};
    enum { N = sizeof sizes / sizeof sizes[0] };
    kv *k = open_kv(*state, 256 * MB, 64 * MB);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(kv_help_put(k, 1, i, sizes[i], "t"), PAWL_OK);
        assert_int_equal(kv_help_read(k, 1, i, sizes[i]), KV_HELP_RIGHT);
    }
    assert_int_equal(kv_help_stats(k).hits_memory, N);
    kv_flush(k);
    assert_int_equal(kv_help_stats(k).disk_chunks, N);
    kv_close(k);
    k = open_kv(*state, 256 * MB, 0);
    assert_int_equal(kv_help_find(k, 1, N + 1), N);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(kv_help_read(k, 1, i, sizes[i]), KV_HELP_RIGHT);
    kv_stats stats = kv_help_stats(k);
    assert_int_equal(stats.hits_disk, N);
    assert_int_equal(stats.memory_bytes, 0);
    assert_int_equal(stats.damaged + stats.misses + stats.dropped, 0);
    kv_close(k);
}

static void memory_alone(void **state)
{
    kv *k = open_kv(*state, 0, MB);
    put_all(k, 1, 10, 100 * KB);
    assert_int_equal(kv_help_find(k, 1, 10), 10);
    put_all(k, 2, 5, 100 * KB);
    kv_stats stats = kv_help_stats(k);
    assert_true(stats.memory_bytes <= MB && stats.evicted_memory >= 5);
    assert_int_equal(stats.disk_chunks + stats.file_bytes, 0);
    assert_int_equal(kv_help_find(k, 2, 5), 5);
    assert_true(kv_help_find(k, 1, 10) == 5); /* leaves went first */
    assert_int_equal(kv_help_put(k, 3, 0, 2 * MB, ""), PAWL_E_LIMIT);
    kv_close(k);
}

static void refusals(void **state)
{
    kv *k = open_kv(*state, 64 * MB, MB);
    char long_tenant[80];
    memset(long_tenant, 'x', sizeof long_tenant);
    long_tenant[65] = '\0';
    assert_int_equal(kv_help_put(k, 1, 0, 10, long_tenant), PAWL_E_ARGUMENT);
    long_tenant[64] = '\0';
    assert_int_equal(kv_help_put(k, 1, 0, 10, long_tenant), PAWL_OK);
    assert_int_equal(kv_help_put(k, 1, 0, 10, long_tenant), PAWL_OK); /* again: nothing to do */
    assert_int_equal(kv_help_put(k, 1, 2, 10, ""), PAWL_E_NOT_FOUND); /* its parent is not there */
    assert_int_equal(kv_help_put(k, 1, 1, 80 * MB, ""), PAWL_E_LIMIT);
    kv_chunk none = {.key = kv_help_key(9, 9), .tenant = "", .payload = malloc(1), .size = 0};
    assert_int_equal(kv_put(k, &none), PAWL_E_ARGUMENT);
    assert_int_equal(kv_help_stats(k).memory_chunks, 1);
    kv_close(k);
}

static void other_tokens_are_a_miss(void **state)
{
    kv *k = open_kv(*state, 64 * MB, 0);
    int32_t tokens[KV_HELP_TOKENS];
    kv_reader *reader;
    pawl_source source;
    kv_key key = kv_help_key(1, 0);
    put_all(k, 1, 2, KB);
    kv_flush(k);
    kv_help_tokens(1, 0, tokens);
    tokens[3]++;
    assert_int_equal(kv_read(k, &key, tokens, KV_HELP_TOKENS, &reader, &source), PAWL_E_NOT_FOUND);
    assert_int_equal(kv_help_stats(k).damaged, 1);
    assert_int_equal(kv_help_stats(k).misses, 1);
    assert_false(kv_help_has(k, 1, 0) || kv_help_has(k, 1, 1)); /* and what stands on it */
    kv_close(k);
    k = open_kv(*state, 64 * MB, 0);
    assert_int_equal(kv_help_stats(k).disk_chunks, 0);
    kv_close(k);
}

static void a_reader_that_fails_removes(void **state)
{
    for (int tier = 0; tier < 2; tier++) {
        kv *k = open_kv(*state, 64 * MB, tier ? 0 : MB);
        int32_t tokens[KV_HELP_TOKENS];
        kv_reader *reader;
        pawl_source source;
        kv_key key = kv_help_key(1, 1);
        put_all(k, 1, 3, KB);
        kv_flush(k);
        kv_help_tokens(1, 1, tokens);
        assert_int_equal(kv_read(k, &key, tokens, KV_HELP_TOKENS, &reader, &source), PAWL_OK);
        kv_read_end(reader, false);
        assert_int_equal(kv_help_find(k, 1, 3), 1);
        assert_int_equal(kv_help_stats(k).damaged, 1);
        kv_flush(k);
        assert_int_equal(kv_help_stats(k).disk_chunks, 1);
        kv_remove(k, &(kv_key){{0}});
        key = kv_help_key(1, 0);
        kv_remove(k, &key);
        assert_int_equal(kv_help_find(k, 1, 3), 0);
        kv_close(k);
    }
}

static void removed_while_it_is_read(void **state)
{
    for (int tier = 0; tier < 2; tier++) {
        kv *k = open_kv(*state, 64 * MB, tier ? 0 : MB);
        int32_t tokens[KV_HELP_TOKENS];
        uint8_t data[100];
        uint64_t got = 0;
        kv_reader *reader;
        pawl_source source;
        kv_key key = kv_help_key(1, 0);
        put_all(k, 1, 1, sizeof data);
        kv_flush(k);
        kv_help_tokens(1, 0, tokens);
        assert_int_equal(kv_read(k, &key, tokens, KV_HELP_TOKENS, &reader, &source), PAWL_OK);
        kv_remove(k, &key);
        kv_flush(k);
        assert_int_equal(source.read(source.context, data, sizeof data, &got), PAWL_OK);
        assert_int_equal(got, sizeof data);
        assert_int_equal(data[99], kv_help_byte(1, 0, 99));
        kv_read_end(reader, true);
        assert_int_equal(kv_help_stats(k).memory_bytes, 0);
        assert_false(kv_help_has(k, 1, 0));
        kv_close(k);
    }
}

static void a_second_read_warms(void **state)
{
    kv *k = open_kv(*state, 64 * MB, 0);
    put_all(k, 1, 1, 100 * KB);
    kv_close(k);
    k = open_kv(*state, 64 * MB, MB);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kv_help_read(k, 1, 0, 100 * KB), KV_HELP_RIGHT);
    kv_stats stats = kv_help_stats(k);
    assert_int_equal(stats.hits_disk, 2);
    assert_int_equal(stats.hits_memory, 1);
    assert_int_equal(stats.memory_bytes, 100 * KB);
    kv_close(k);
}

static void the_disk_keeps_its_budget(void **state)
{
    enum { BUDGET = 8 * MB, SIZE = 200 * KB };
    kv *k = open_kv(*state, BUDGET, 0);
    for (uint32_t c = 0; c < 40; c++) {
        put_all(k, c, 10, SIZE);
        kv_help_find(k, 0, 1); /* the first one's root is in use all the time */
        kv_flush(k);
        assert_true(kv_help_stats(k).file_bytes <= BUDGET + 32 * MB);
    }
    kv_stats stats = kv_help_stats(k);
    assert_true(stats.disk_bytes <= BUDGET && stats.disk_bytes > BUDGET / 2);
    assert_true(stats.evicted_disk > 300);
    assert_true(kv_help_has(k, 0, 0) && !kv_help_has(k, 0, 9));
    assert_true(kv_help_has(k, 39, 9)); /* the latest */
    kv_close(k);
    k = open_kv(*state, BUDGET / 2, 0); /* a lower budget: the file shrinks */
    kv_flush(k);
    assert_true(kv_help_stats(k).disk_bytes <= BUDGET / 2);
    kv_close(k);
    k = open_kv(*state, BUDGET / 2, 0);
    stats = kv_help_stats(k);
    assert_true(stats.file_bytes <= BUDGET / 2);
    assert_true(stats.disk_chunks > 10);
    kv_close(k);
}

static void pins_hold(void **state)
{
    for (int disk = 0; disk < 2; disk++) {
        kv *k = open_kv(*state, disk ? 4 * MB : 0, disk ? 0 : 4 * MB);
        kv_key chain[3];
        for (uint32_t i = 0; i < 3; i++)
            chain[i] = kv_help_key(1, i);
        put_all(k, 1, 3, 200 * KB);
        kv_flush(k);
        kv_pin(k, chain, 3);
        kv_pin(k, chain, 3);
        kv_unpin(k, chain, 3);
        for (uint32_t c = 2; c < 30; c++) {
            put_all(k, c, 3, 200 * KB);
            kv_flush(k);
        }
        assert_int_equal(kv_help_find(k, 1, 3), 3);
        assert_false(kv_help_has(k, 2, 2));
        kv_unpin(k, chain, 3);
        for (uint32_t c = 30; c < 90; c++) {
            for (int uses = 0; uses < 3; uses++)
                kv_help_find(k, c, 3);
            put_all(k, c, 3, 200 * KB);
            kv_flush(k);
            kv_help_find(k, c, 3);
            kv_help_find(k, c, 3);
        }
        assert_int_equal(kv_help_find(k, 1, 3), 0);
        kv_close(k);
    }
}

static void tenants_have_quotas(void **state)
{
    for (int disk = 0; disk < 2; disk++) {
        kv_config config = {.folder = *state,
                            .disk_bytes = disk ? 16 * MB : 0,
                            .memory_bytes = disk ? 0 : 16 * MB,
                            .tenant_disk_bytes = 2 * MB,
                            .tenant_memory_bytes = 2 * MB,
                            .write_bytes_second = 1u << 30};
        kv *k;
        pawl_error error;
        assert_int_equal(kv_open(&config, &k, &error), PAWL_OK);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(kv_help_put(k, 1, i, 200 * KB, "small"), PAWL_OK);
        for (uint32_t c = 10; c < 60; c++) {
            assert_int_equal(kv_help_put(k, c, 0, 200 * KB, "greedy"), PAWL_OK);
            kv_flush(k);
        }
        assert_int_equal(kv_help_find(k, 1, 5), 5); /* nobody else's went */
        kv_stats stats = kv_help_stats(k);
        uint64_t bytes = disk ? stats.disk_bytes : stats.memory_bytes;
        assert_true(bytes <= 4 * MB && bytes > 2 * MB);
        assert_int_equal(kv_help_put(k, 99, 0, 3 * MB, "greedy"), PAWL_E_LIMIT);
        kv_close(k);
    }
}

/* A tail of a turn goes before anything else once its extension is there, however fresh. */
static void superseded_tails_go_first(void **state)
{
    kv *k = open_kv(*state, 0, MB);
    int32_t tokens[KV_HELP_TOKENS];
    kv_chunk tail = {.key = kv_help_key(7, 100),
                     .parent = kv_help_key(7, 0),
                     .tenant = "",
                     .begin = KV_HELP_TOKENS,
                     .tokens = tokens,
                     .n_tokens = 5,
                     .part = PAWL_STATE_CHUNK,
                     .payload = calloc(1, 100 * KB),
                     .size = 100 * KB};
    kv_help_tokens(7, 1, tokens);
    put_all(k, 5, 2, 100 * KB); /* older, never used */
    put_all(k, 7, 1, 100 * KB);
    assert_int_equal(kv_put(k, &tail), PAWL_OK);
    assert_int_equal(kv_help_put(k, 7, 1, 100 * KB, ""), PAWL_OK); /* its extension */
    put_all(k, 8, 6, 100 * KB);                                    /* one too many */
    assert_int_equal(kv_help_stats(k).evicted_memory, 1);
    assert_false(kv_help_has(k, 7, 100));
    assert_int_equal(kv_help_find(k, 5, 2), 2);
    kv_close(k);
}

/* Of six that fill the disk the first was used, the second is younger and never was. */
static void uses_survive_a_restart(void **state)
{
    play_clock clock;
    play_clock_init(&clock);
    kv_config config = {.folder = *state, .disk_bytes = 7 * MB / 2, .clock = &clock.clock};
    kv *k;
    clock.now_ms = 1700000000000;
    assert_int_equal(kv_open(&config, &k, NULL), PAWL_OK);
    for (uint32_t c = 1; c <= 5; c++, clock.now_ms += 1000) {
        put_all(k, c, 3, 200 * KB);
        kv_flush(k);
        for (int i = 0; i < 5 && c == 1; i++)
            kv_help_find(k, 1, 3);
    }
    assert_int_equal(kv_help_stats(k).evicted_disk, 0);
    kv_close(k);
    assert_int_equal(kv_open(&config, &k, NULL), PAWL_OK);
    put_all(k, 6, 3, 200 * KB);
    kv_flush(k);
    assert_true(kv_help_stats(k).evicted_disk > 0);
    assert_int_equal(kv_help_find(k, 1, 3), 3);
    assert_true(kv_help_find(k, 2, 3) < 3);
    kv_close(k);
}

/* A hit rate of zero after a restart is the fault that nobody notices. */
static void two_conversations_after_a_restart(void **state)
{
    kv *k = open_kv(*state, 64 * MB, 8 * MB);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(kv_help_put(k, 1, i, 50 * KB, "a"), PAWL_OK);
        assert_int_equal(kv_help_put(k, 2, i, 50 * KB, "b"), PAWL_OK);
    }
    kv_close(k); /* writes what is queued */
    k = open_kv(*state, 64 * MB, 8 * MB);
    assert_int_equal(kv_help_find(k, 1, 20), 20);
    assert_int_equal(kv_help_find(k, 2, 20), 20);
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(kv_help_read(k, 1, i, 50 * KB), KV_HELP_RIGHT);
        assert_int_equal(kv_help_read(k, 2, i, 50 * KB), KV_HELP_RIGHT);
    }
    assert_int_equal(kv_help_stats(k).hits_disk, 40);
    kv_close(k);
}

/* More than the index begins with, in chains that are far deeper than a stack. */
static void thousands_of_chunks(void **state)
{
    enum { N = 9000 };
    kv *k = open_kv(*state, 0, 64 * MB);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(kv_help_put(k, 1, i, 10, ""), PAWL_OK);
        assert_int_equal(kv_help_put(k, 2 + i, 0, 10, i % 7 ? "" : "x"), PAWL_OK);
    }
    for (uint32_t i = 0; i < N; i++)
        assert_true(kv_help_has(k, 1, i) && kv_help_has(k, 2 + i, 0));
    kv_key key = kv_help_key(1, 1);
    kv_remove(k, &key);
    assert_int_equal(kv_help_stats(k).memory_chunks, N + 1);
    assert_true(kv_help_has(k, 1, 0) && !kv_help_has(k, 1, 1) && !kv_help_has(k, 1, N - 1));
    kv_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_size_comes_back, make, unmake),
        cmocka_unit_test_setup_teardown(memory_alone, make, unmake),
        cmocka_unit_test_setup_teardown(refusals, make, unmake),
        cmocka_unit_test_setup_teardown(other_tokens_are_a_miss, make, unmake),
        cmocka_unit_test_setup_teardown(a_reader_that_fails_removes, make, unmake),
        cmocka_unit_test_setup_teardown(removed_while_it_is_read, make, unmake),
        cmocka_unit_test_setup_teardown(a_second_read_warms, make, unmake),
        cmocka_unit_test_setup_teardown(the_disk_keeps_its_budget, make, unmake),
        cmocka_unit_test_setup_teardown(pins_hold, make, unmake),
        cmocka_unit_test_setup_teardown(tenants_have_quotas, make, unmake),
        cmocka_unit_test_setup_teardown(superseded_tails_go_first, make, unmake),
        cmocka_unit_test_setup_teardown(uses_survive_a_restart, make, unmake),
        cmocka_unit_test_setup_teardown(two_conversations_after_a_restart, make, unmake),
        cmocka_unit_test_setup_teardown(thousands_of_chunks, make, unmake),
    };
    log_set_level(PAWL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
