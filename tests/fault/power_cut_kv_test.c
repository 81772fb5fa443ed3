/*
 * power_cut_kv_test.c - kv.db after power cuts: it opens, a check finds nothing wrong, nothing
 * is read back that was not put. What is lost is the newest, and that is allowed.
 *
 * PAWL_CUT_ROUNDS sets how many (20), PAWL_CUT_SEED their moments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "base/log.h"
#include "kv_help.h"
#include "power_cut.h"
#include "store/kv_check.h"

enum { MB = 1024 * 1024, CONVERSATIONS = 40, LENGTH = 4 };

static int setting(const char *name, int fallback)
{
    const char *text = getenv(name);
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : fallback;
}

static uint64_t size_of(uint32_t c, uint32_t i)
{
    uint32_t x = (c * 31 + i * 7 + 3) * 2654435761u;
    return x % 40 == 0 ? 9 * MB : 500 + x % 200000;
}

static kv *open_kv(const char *folder)
{
    kv_config config = {
        .folder = folder, .disk_bytes = 16 * MB, .write_bytes_second = 1u << 30, .retry_ms = 10};
    kv *k = NULL;
    pawl_error error;
    assert_int_equal(kv_open(&config, &k, &error), PAWL_OK);
    return k;
}

static void write_until_dark(kv *k, unsigned *seed)
{
    for (int i = 0; i < 30 && !power_cut_happened(); i++) {
        uint32_t c = (uint32_t)rand_r(seed) % CONVERSATIONS;
        for (uint32_t n = (uint32_t)kv_help_find(k, c, LENGTH); n < LENGTH; n++)
            kv_help_put(k, c, n, size_of(c, n), "");
        if (rand_r(seed) % 8 == 0) {
            kv_key key = kv_help_key(c, (uint32_t)rand_r(seed) % LENGTH);
            kv_remove(k, &key);
        }
        if (rand_r(seed) % 3 == 0)
            kv_flush(k);
    }
    kv_flush(k);
}

static void print_finding(void *arg, const char *where, const char *what)
{
    (void)arg;
    print_message("%s: %s\n", where, what);
}

static uint64_t look(const char *folder)
{
    kv_check_report report;
    pawl_error error;
    uint64_t right = 0;
    assert_int_equal(kv_check(folder, false, print_finding, NULL, &report, &error), PAWL_OK);
    assert_true(kv_check_is_clean(&report));
    kv *k = open_kv(folder);
    for (uint32_t c = 0; c < CONVERSATIONS; c++) {
        uint64_t n = kv_help_find(k, c, LENGTH);
        for (uint32_t i = 0; i < n; i++, right++)
            assert_int_equal(kv_help_read(k, c, i, size_of(c, i)), KV_HELP_RIGHT);
    }
    kv_close(k);
    return right;
}

static void nothing_wrong_is_read(void **state)
{
    (void)state;
    int rounds = setting("PAWL_CUT_ROUNDS", 20), cuts = 0, unflushed = 0;
    unsigned seed = (unsigned)setting("PAWL_CUT_SEED", (int)(time(NULL) & 0xffffff));
    uint64_t right = 0;
    char folder[64];
    print_message("%d rounds, PAWL_CUT_SEED=%u\n", rounds, seed);
    kv_help_make_folder(folder);
    for (int round = 0; round < rounds; round++) {
        if (round % 4 == 3) { /* a new file has moments of its own */
            help_remove_folder(folder);
            kv_help_make_folder(folder);
        }
        power_cut_arm(1 + rand_r(&seed) % 1500);
        kv *k = open_kv(folder); /* without a disk: in memory */
        write_until_dark(k, &seed);
        kv_close(k);
        cuts += power_cut_happened();
        unflushed += power_cut_restore(&seed);
        right += look(folder);
        power_cut_restore(&seed); /* forgets the files; closing has flushed them */
    }
    print_message("%d cuts, %d writes had not been flushed, %llu chunks were there and right\n",
                  cuts, unflushed, (unsigned long long)right);
    assert_true(cuts > 0 && right > 0);
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_wrong_is_read)};
    log_set_level(PAWL_LOG_ERROR + 1); /* dying disks complain */
    power_cut_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
