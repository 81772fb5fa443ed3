/*
 * kv_disk_test.c - the prefix cache on a disk that fails or is full.
 *
 * Whatever fails and whenever: no call fails that memory can answer, nothing wrong is read,
 * writing goes on when the disk is well again, and a check finds nothing wrong then.
 * PAWL_FAULT_N sets how many places are tried (60).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "failing_io.h"
#include "kv_help.h"
#include "store/kv_check.h"

enum { MB = 1024 * 1024, SIZE = 60000, LENGTH = 4 };

typedef struct fault {
    const char *name;
    enum failing_io_kind kind;
    int error;
    bool stays;
} fault;

static const fault faults[] = {
    {"write: disk full, once", FAILING_IO_WRITE, ENOSPC, false},
    {"write: disk full, stays", FAILING_IO_WRITE, ENOSPC, true},
    {"write: I/O error, once", FAILING_IO_WRITE, EIO, false},
    {"write: I/O error, stays", FAILING_IO_WRITE, EIO, true},
    {"flush: I/O error, once", FAILING_IO_FLUSH, EIO, false},
    {"flush: I/O error, stays", FAILING_IO_FLUSH, EIO, true},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

static int places(void)
{
    const char *text = getenv("PAWL_FAULT_N");
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : 60;
}

static kv *open_kv(const char *folder, uint64_t disk, uint64_t memory)
{
    kv_config config = {.folder = folder,
                        .disk_bytes = disk,
                        .memory_bytes = memory,
                        .write_bytes_second = 1u << 30,
                        .retry_ms = 1};
    kv *k = NULL;
    pawl_error error;
    assert_int_equal(kv_open(&config, &k, &error), PAWL_OK);
    return k;
}

/* Puts a conversation and reads whatever is there of it and the two before: never wrong. */
static void talk(kv *k, uint32_t c)
{
    for (uint32_t i = 0; i < LENGTH; i++) {
        pawl_status status = kv_help_put(k, c, i, SIZE, "");
        assert_true(status == PAWL_OK || status == PAWL_E_BUSY || status == PAWL_E_NOT_FOUND);
    }
    for (uint32_t other = c < 2 ? 0 : c - 2; other <= c; other++) {
        uint64_t n = kv_help_find(k, other, LENGTH);
        for (uint32_t i = 0; i < n; i++)
            assert_int_not_equal(kv_help_read(k, other, i, SIZE), KV_HELP_WRONG);
    }
    kv_flush(k);
}

/* After the disk is well again a conversation comes to the disk, sooner or later. */
static void assert_writes_again(kv *k, uint32_t c)
{
    for (int i = 0; i < 500; i++) {
        uint64_t before = kv_help_stats(k).disk_chunks + kv_help_stats(k).evicted_disk;
        for (uint32_t j = 0; j < LENGTH; j++)
            kv_help_put(k, c + (uint32_t)i, j, SIZE, "");
        kv_flush(k);
        if (kv_help_stats(k).disk_chunks + kv_help_stats(k).evicted_disk >= before + LENGTH)
            return;
        usleep(10000);
    }
    fail_msg("it never writes again");
}

static void assert_clean(const char *folder)
{
    kv_check_report report;
    pawl_error error;
    assert_int_equal(kv_check(folder, false, NULL, NULL, &report, &error), PAWL_OK);
    assert_true(kv_check_is_clean(&report));
}

/* Small tiers: writing and evicting. Returns whether something failed. */
static bool fail_while_working(const fault *f, int n)
{
    char folder[64];
    kv_help_make_folder(folder);
    kv *k = open_kv(folder, 2 * MB, 2 * MB);
    talk(k, 0);
    failing_io_arm(f->kind, n, f->error, f->stays);
    uint32_t n_talks = f->kind == FAILING_IO_WRITE ? 8 : 30; /* one flush in 6 MiB */
    for (uint32_t c = 1; c < n_talks; c++)
        talk(k, c);
    bool failed = failing_io_disarm() > 0;
    assert_writes_again(k, 100);
    kv_close(k);
    assert_clean(folder);
    k = open_kv(folder, 2 * MB, 0);
    for (uint32_t c = 0; c < 8; c++) {
        uint64_t there = kv_help_find(k, c, LENGTH);
        for (uint32_t i = 0; i < there; i++)
            assert_int_equal(kv_help_read(k, c, i, SIZE), KV_HELP_RIGHT);
    }
    kv_close(k);
    help_remove_folder(folder);
    return failed;
}

static void every_place(void **state)
{
    (void)state;
    int n_places = places();
    for (size_t i = 0; i < FAULTS; i++) {
        int failed = 0;
        int n_here = faults[i].kind == FAILING_IO_WRITE ? n_places : 1 + n_places / 6;
        for (int n = 1; n <= n_here; n++)
            failed += fail_while_working(&faults[i], n);
        print_message("%s: %d of %d runs met it\n", faults[i].name, failed, n_here);
        assert_true(failed >= 2);
    }
}

/* A kv that cannot open its file lives in memory until it can. */
static void every_place_of_opening(void **state)
{
    (void)state;
    for (size_t i = 0; i < FAULTS; i++) {
        for (int n = 1; n <= 8; n++) {
            char folder[64];
            kv_help_make_folder(folder);
            if (n % 2) { /* there is something to be found */
                kv *k = open_kv(folder, 2 * MB, 0);
                talk(k, 50);
                kv_close(k);
            }
            failing_io_arm(faults[i].kind, n, faults[i].error, faults[i].stays);
            kv *k = open_kv(folder, 2 * MB, 2 * MB);
            talk(k, 0);
            assert_int_equal(kv_help_find(k, 0, LENGTH), LENGTH);
            failing_io_disarm();
            assert_writes_again(k, 100);
            kv_close(k);
            assert_clean(folder);
            help_remove_folder(folder);
        }
    }
}

/* What could not be written when it came is written when it is found, with its ancestors. */
static void what_was_missed_is_made_up_for(void **state)
{
    (void)state;
    char folder[64];
    kv_help_make_folder(folder);
    kv *k = open_kv(folder, 8 * MB, 8 * MB);
    failing_io_arm(FAILING_IO_WRITE, 1, EIO, true);
    for (uint32_t i = 0; i < LENGTH; i++) {
        assert_int_equal(kv_help_put(k, 0, i, SIZE, ""), PAWL_OK);
        kv_flush(k);
    }
    assert_int_equal(kv_help_stats(k).disk_chunks, 0);
    assert_int_equal(kv_help_stats(k).dropped, LENGTH);
    failing_io_disarm();
    for (int i = 0; i < 500 && kv_help_stats(k).disk_chunks < LENGTH; i++) {
        usleep(10000);
        assert_int_equal(kv_help_find(k, 0, LENGTH), LENGTH);
        kv_flush(k);
    }
    assert_int_equal(kv_help_stats(k).disk_chunks, LENGTH);
    kv_close(k);
    assert_clean(folder);
    help_remove_folder(folder);
}

static void grow(const char *path, uint64_t bytes)
{
    FILE *file = fopen(path, "ab");
    while (bytes--)
        fputc(1, file);
    fclose(file);
}

/* What others may still write there, in bytes. */
static uint64_t space_left(const char *folder)
{
    struct statvfs disk;
    assert_int_equal(statvfs(folder, &disk), 0);
    return disk.f_bavail * disk.f_frsize;
}

/* A file system of 64 MiB, a budget of 256: the tier takes what fits and leaves some of it to
 * others, gives back what they need, and goes on when there is space again. */
static void a_small_file_system(void **state)
{
    (void)state;
    char folder[64], path[100];
    help_make_folder(folder);
    if (mount("tmpfs", folder, "tmpfs", 0, "size=64m,mode=700") != 0) {
        print_message("SKIP: no tmpfs can be mounted here: %s\n", strerror(errno));
        help_remove_folder(folder);
        skip();
    }
    snprintf(path, sizeof path, "%s/ballast", folder);
    grow(path, 24 * MB);
    kv *k = open_kv(folder, 256 * MB, 4 * MB);
    for (uint32_t c = 0; c < 120; c++)
        talk(k, c);
    kv_stats stats = kv_help_stats(k);
    print_message("full: %llu chunks on disk, %llu dropped\n",
                  (unsigned long long)stats.disk_chunks, (unsigned long long)stats.dropped);
    assert_true(stats.disk_chunks > 0 && stats.disk_chunks < 500);
    assert_int_equal(stats.damaged, 0);
    print_message("left: %llu\n", (unsigned long long)space_left(folder));
    assert_true(space_left(folder) >= 2 * MB);
    grow(path, space_left(folder) - MB / 4);
    for (uint32_t c = 120; c < 620 && space_left(folder) < MB / 2; c++) {
        talk(k, c);
        usleep(10000); /* a write that failed is tried again a little later */
    }
    print_message("given back: %llu\n", (unsigned long long)space_left(folder));
    assert_true(space_left(folder) >= MB / 2);
    unlink(path);
    assert_writes_again(k, 100);
    kv_close(k);
    assert_clean(folder);
    assert_int_equal(umount(folder), 0);
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place),
        cmocka_unit_test(every_place_of_opening),
        cmocka_unit_test(what_was_missed_is_made_up_for),
        cmocka_unit_test(a_small_file_system),
    };
    log_set_level(PAWL_LOG_ERROR + 1); /* hundreds of errors that are meant */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
