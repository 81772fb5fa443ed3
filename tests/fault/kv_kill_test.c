/*
 * kv_kill_test.c - the process that writes kv.db is killed, again and again.
 *
 * A child puts, reads, evicts and removes chunks of all sizes until the parent kills it with
 * -9 at a random moment. Then a check finds nothing wrong, nothing is read back that was not
 * put, files keep their budget, and what was on disk long before is still there. The folder
 * stays the same over all rounds. PAWL_KILL_ROUNDS sets how many (20), PAWL_KILL_SEED their
 * moments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/log.h"
#include "kv_help.h"
#include "store/kv_check.h"

enum { MB = 1024 * 1024, BUDGET = 48 * MB, CONVERSATIONS = 30, LENGTH = 5 };

static int setting(const char *name, int fallback)
{
    const char *text = getenv(name);
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : fallback;
}

/* One of ten takes several transactions. */
static uint64_t size_of(uint32_t c, uint32_t i)
{
    uint32_t x = (c * 31 + i * 7 + 3) * 2654435761u;
    return x % 10 == 0 ? 9 * MB + x % MB : 500 + x % 300000;
}

static kv *open_kv(const char *folder)
{
    kv_config config = {.folder = folder,
                        .disk_bytes = BUDGET,
                        .memory_bytes = 8 * MB,
                        .write_bytes_second = 1u << 30,
                        .retry_ms = 10};
    kv *k = NULL;
    pawl_error error;
    if (kv_open(&config, &k, &error) != PAWL_OK)
        _exit(2);
    return k;
}

static void be_child(const char *folder, unsigned seed)
{
    kv *k = open_kv(folder);
    for (;;) {
        uint32_t c = (uint32_t)rand_r(&seed) % CONVERSATIONS;
        uint32_t n = (uint32_t)kv_help_find(k, c, LENGTH);
        if (n > 0 && rand_r(&seed) % 2)
            kv_help_read(k, c, n - 1, size_of(c, n - 1));
        for (; n < LENGTH; n++)
            kv_help_put(k, c, n, size_of(c, n), c % 2 ? "odd" : "");
        if (rand_r(&seed) % 20 == 0) {
            kv_key key = kv_help_key(c, (uint32_t)rand_r(&seed) % LENGTH);
            kv_remove(k, &key);
        }
        if (rand_r(&seed) % 30 == 0)
            kv_flush(k);
    }
}

static void print_finding(void *arg, const char *where, const char *what)
{
    (void)arg;
    print_message("%s: %s\n", where, what);
}

/* Returns how many chunks were there and right. */
static uint64_t look(const char *folder, uint64_t *unfinished)
{
    kv_check_report report;
    pawl_error error;
    assert_int_equal(kv_check(folder, false, print_finding, NULL, &report, &error), PAWL_OK);
    assert_true(kv_check_is_clean(&report));
    *unfinished += report.unfinished > 0;
    kv *k = open_kv(folder);
    kv_stats stats = kv_help_stats(k);
    assert_int_equal(stats.disk_chunks, report.chunks);
    assert_true(stats.file_bytes <= BUDGET + 32 * MB);
    uint64_t right = 0;
    for (uint32_t c = 0; c < CONVERSATIONS; c++) {
        uint32_t n = (uint32_t)kv_help_find(k, c, LENGTH);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(kv_help_read(k, c, i, size_of(c, i)), KV_HELP_RIGHT);
            right++;
        }
    }
    assert_int_equal(right, report.chunks); /* each can be reached */
    kv_close(k);
    return right;
}

static void nothing_wrong_is_read(void **state)
{
    (void)state;
    int rounds = setting("PAWL_KILL_ROUNDS", 20);
    unsigned seed = (unsigned)setting("PAWL_KILL_SEED", (int)(time(NULL) & 0xffffff));
    char folder[64];
    uint64_t found = 0, unfinished = 0;
    print_message("%d rounds, PAWL_KILL_SEED=%u\n", rounds, seed);
    help_make_folder(folder);
    for (int round = 0; round < rounds; round++) {
        int status;
        pid_t child = fork(); /* no kv is open here, so there is one thread */
        if (child == 0)
            be_child(folder, seed + (unsigned)round);
        usleep((useconds_t)(2000 + rand_r(&seed) % 250000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        found += look(folder, &unfinished);
    }
    print_message("%llu chunks were there and right; %llu times one was half written\n",
                  (unsigned long long)found, (unsigned long long)unfinished);
    assert_true(found > (uint64_t)rounds);
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_wrong_is_read)};
    log_set_level(PAWL_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
