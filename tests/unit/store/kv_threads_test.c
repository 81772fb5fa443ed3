/*
 * kv_threads_test.c - many threads on one kv: whatever they meet, nobody reads wrong bytes.
 *
 * Small tiers, so that chunks come and go all the time. ThreadSanitizer runs it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "kv_help.h"
#include "store/kv_check.h"

enum { THREADS = 4, ROUNDS = 400, CONVERSATIONS = 24, LENGTH = 6, MB = 1024 * 1024 };

typedef struct shared {
    kv *k;
    atomic_int next, wrong, failed, right, right_disk;
} shared;

static uint64_t size_of(uint32_t c, uint32_t i)
{
    return 1000 + (c * 7919 + i * 104729) % 60000;
}

static void one_round(shared *s, unsigned *seed)
{
    static const char *const tenants[] = {"", "a", "b"};
    uint32_t c = (uint32_t)rand_r(seed) % CONVERSATIONS;
    kv_key chain[LENGTH];
    kv_stats stats;
    for (uint32_t i = 0; i < LENGTH; i++)
        chain[i] = kv_help_key(c, i);
    uint64_t n = kv_find(s->k, chain, LENGTH);
    kv_pin(s->k, chain, n);
    for (uint32_t i = 0; i < n; i++) {
        enum kv_help_got got = kv_help_read(s->k, c, i, size_of(c, i));
        atomic_fetch_add(&s->wrong, got == KV_HELP_WRONG);
        atomic_fetch_add(&s->failed, got == KV_HELP_FAILED);
        atomic_fetch_add(&s->right, got == KV_HELP_RIGHT);
    }
    kv_unpin(s->k, chain, n);
    for (uint32_t i = (uint32_t)n; i < LENGTH; i++)
        kv_help_put(s->k, c, i, size_of(c, i), tenants[c % 3]);
    switch (rand_r(seed) % 40) {
    case 0:
        kv_remove(s->k, &chain[rand_r(seed) % LENGTH]);
        break;
    case 1:
        kv_flush(s->k);
        break;
    case 2:
        kv_stats_get(s->k, &stats);
        break;
    default:
        kv_has(s->k, &chain[0]);
    }
}

static void *play(void *context)
{
    shared *s = context;
    unsigned seed = (unsigned)atomic_fetch_add(&s->next, 1) + 1;
    for (int i = 0; i < ROUNDS; i++)
        one_round(s, &seed);
    return NULL;
}

static void nobody_reads_wrong_bytes(void **state)
{
    pthread_t threads[THREADS];
    char folder[64];
    kv_check_report report;
    pawl_error error;
    (void)state;
    help_make_folder(folder);
    kv_config config = {.folder = folder,
                        .disk_bytes = 3 * MB,
                        .memory_bytes = MB / 2,
                        .tenant_disk_bytes = 2 * MB,
                        .write_bytes_second = 1u << 30};
    shared s = {0};
    assert_int_equal(kv_open(&config, &s.k, &error), PAWL_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, play, &s), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kv_stats stats = kv_help_stats(s.k);
    print_message("%d right, %d gone while they were read; from disk %llu, evicted %llu + %llu\n",
                  atomic_load(&s.right), atomic_load(&s.failed),
                  (unsigned long long)stats.hits_disk, (unsigned long long)stats.evicted_memory,
                  (unsigned long long)stats.evicted_disk);
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_int_equal(atomic_load(&s.failed), 0); /* a reader holds what it reads */
    assert_int_equal(stats.damaged, 0);
    assert_true(atomic_load(&s.right) > 100 && stats.hits_disk > 0 && stats.evicted_disk > 0);
    kv_close(s.k);
    assert_int_equal(kv_check(folder, false, NULL, NULL, &report, &error), PAWL_OK);
    assert_true(kv_check_is_clean(&report));
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_reads_wrong_bytes)};
    log_set_level(PAWL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
