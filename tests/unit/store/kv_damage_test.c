/*
 * kv_damage_test.c - kv.db that is not as we wrote it: other versions, other programs, every
 * column of every kind of row, bits and ends of the file. Never a crash, never wrong bytes;
 * what kv_check repairs is clean.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <sqlite3.h>

#include "base/log.h"
#include "kv_help.h"
#include "store/kv_check.h"

enum { CHUNKS = 6, MB = 1024 * 1024 };

/* The last one has two pieces, the second of 5,720 bytes. */
static const uint64_t sizes[CHUNKS] = {40000, 100, 20000, 5000, 70000, 4199000};

static struct {
    uint8_t *bytes;
    size_t size;
} good; /* kv.db as it was written */

static pawl_status open_kv(const char *folder, kv **k, pawl_error *error)
{
    kv_config config = {.folder = folder, .disk_bytes = 64 * MB, .retry_ms = 10};
    return kv_open(&config, k, error);
}

static void path_of(const char *folder, const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", folder, name);
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

static void fill(const char *folder)
{
    char path[128];
    path_of(folder, "kv.db", path);
    write_file(path, good.bytes, good.size);
}

/* Two conversations: chunks 0, 1, 2 and 3, 4, 5 of the sizes above. */
static int make_good(void **state)
{
    char folder[64], path[128];
    kv *k;
    pawl_error error;
    struct stat st;
    (void)state;
    help_make_folder(folder);
    path_of(folder, "kv.db", path);
    assert_int_equal(open_kv(folder, &k, &error), PAWL_OK);
    for (uint32_t i = 0; i < CHUNKS; i++)
        assert_int_equal(kv_help_put(k, i / 3, i % 3, sizes[i], "t"), PAWL_OK);
    kv_close(k);
    assert_int_equal(stat(path, &st), 0);
    good.size = (size_t)st.st_size;
    good.bytes = malloc(good.size);
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, good.bytes, good.size), st.st_size);
    close(fd);
    help_remove_folder(folder);
    return 0;
}

static int free_good(void **state)
{
    (void)state;
    free(good.bytes);
    return 0;
}

static int make(void **state)
{
    static char folder[64];
    kv_help_make_folder(folder);
    *state = folder;
    return 0;
}

static int unmake(void **state)
{
    help_remove_folder(*state);
    return 0;
}

/* Opens, reads all; none may be wrong. Returns how many were right. */
static int count_right(const char *folder)
{
    kv *k;
    pawl_error error;
    int right = 0;
    pawl_status status = open_kv(folder, &k, &error);
    if (status == PAWL_E_UNSUPPORTED) /* a flipped bit made it newer */
        return -1;
    assert_int_equal(status, PAWL_OK);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        enum kv_help_got got = kv_help_read(k, i / 3, i % 3, sizes[i]);
        assert_int_not_equal(got, KV_HELP_WRONG);
        right += got == KV_HELP_RIGHT;
    }
    assert_int_equal(kv_help_put(k, 50, 0, 1000, "t"), PAWL_OK); /* it goes on working */
    kv_flush(k);
    kv_close(k);
    return right;
}

static kv_check_report check(const char *folder, bool repair)
{
    kv_check_report report;
    pawl_error error;
    assert_int_equal(kv_check(folder, repair, NULL, NULL, &report, &error), PAWL_OK);
    return report;
}

static void newer_is_refused(void **state)
{
    kv *k;
    kv_check_report report;
    pawl_error error = {.struct_size = sizeof error};
    fill(*state);
    help_sql(*state, "kv.db", "PRAGMA user_version = 7");
    assert_int_equal(open_kv(*state, &k, &error), PAWL_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "version 7"));
    assert_non_null(strstr(error.message, "up to 1"));
    assert_int_equal(kv_check(*state, true, NULL, NULL, &report, &error), PAWL_E_UNSUPPORTED);
    help_sql(*state, "kv.db", "PRAGMA user_version = 1");
    assert_int_equal(count_right(*state), CHUNKS); /* nothing was touched */
}

static void a_stranger_is_kept_aside(void **state)
{
    char path[128];
    struct stat st;
    fill(*state);
    help_sql(*state, "kv.db", "PRAGMA application_id = 77");
    assert_int_equal(count_right(*state), 0);
    path_of(*state, "kv.db.old", path);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 4 * MB);
}

static void garbage_is_replaced(void **state)
{
    char path[128];
    path_of(*state, "kv.db", path);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 100000; i++)
        fputc(i * 7, file);
    fclose(file);
    assert_int_equal(count_right(*state), 0);
    assert_int_equal(check(*state, false).chunks, 1);
}

static void other_pages_are_replaced(void **state)
{
    char path[128], old[128];
    struct stat st;
    path_of(*state, "kv.db", path);
    path_of(*state, "kv.db.old", old);
    fill(*state);
    help_sql(*state, "kv.db", "PRAGMA journal_mode = DELETE; PRAGMA page_size = 4096; VACUUM");
    assert_int_equal(count_right(*state), 0);
    assert_int_not_equal(stat(old, &st), 0); /* ours: deleted */
}

/* What is done to the rows, and how many of the six are right afterwards: what stands on a
 * damaged one goes with it. */
static const struct {
    const char *sql;
    int right;
} damages[] = {
    {"UPDATE piece SET data = CAST('x' || substr(data, 2) AS BLOB) WHERE id / 4096 = 2", 4},
    {"UPDATE piece SET data = CAST(substr(data, 1, 50) || x'00' || substr(data, 52) AS BLOB) WHERE "
     "id / 4096 = 1",
     3},
    {"UPDATE piece SET data = CAST(substr(data, 1, length(data) - 1) || x'01' AS BLOB) WHERE id / "
     "4096 = 6",
     5},
    {"UPDATE piece SET data = CAST(substr(data, 1, length(data) - 1) || x'01' AS BLOB) WHERE id = "
     "6 * 4096",
     5},
    {"UPDATE piece SET data = substr(data, 2) WHERE id / 4096 = 3", 5},
    {"UPDATE piece SET data = CAST(data || x'00' AS BLOB) WHERE id / 4096 = 3", 5},
    {"UPDATE piece SET data = x'' WHERE id / 4096 = 4", 3},
    {"DELETE FROM piece WHERE id / 4096 = 4", 3},
    {"DELETE FROM piece WHERE id = 6 * 4096 + 1", 5},
    {"UPDATE piece SET id = id + 5 WHERE id / 4096 = 3", 5},
    {"DELETE FROM piece", 0},
    {"DELETE FROM chunk WHERE id = 1", 3},
    {"DELETE FROM used", 6},
    {"UPDATE used SET hits = -5, heat = 1e300, at = 9223372036854775807", 6},
    {"UPDATE used SET hits = 9223372036854775807, heat = -1, at = -9223372036854775807", 6},
    {"UPDATE chunk SET key = zeroblob(32) WHERE id = 3", 5},
    {"UPDATE chunk SET key = zeroblob(31) WHERE id = 3", 5},
    {"UPDATE chunk SET key = x'' WHERE id = 3", 5},
    {"UPDATE chunk SET key = (SELECT key FROM chunk WHERE id = 1) WHERE id = 3", 5},
    {"UPDATE chunk SET parent = zeroblob(32) WHERE id = 3", 5},
    {"UPDATE chunk SET parent = key WHERE id = 3", 5},
    {"UPDATE chunk SET parent = zeroblob(9999) WHERE id = 2", 4},
    {"UPDATE chunk SET parent = (SELECT key FROM chunk WHERE id = 6) WHERE id = 3", 5},
    {"UPDATE chunk SET tenant = 'u' WHERE id = 3", 5},
    {"UPDATE chunk SET tenant = hex(zeroblob(33)) WHERE id = 3", 5},
    {"UPDATE chunk SET tenant = CAST(x'7400' AS TEXT) WHERE id = 3", 5},
    {"UPDATE chunk SET begin = begin + 1 WHERE id = 3", 5},
    {"UPDATE chunk SET begin = -1 WHERE id = 3", 5},
    {"UPDATE chunk SET part = 2 WHERE id = 3", 5},
    {"UPDATE chunk SET part = 4294967297 WHERE id = 3", 5},
    {"UPDATE chunk SET tokens = substr(tokens, 2) WHERE id = 3", 5},
    {"UPDATE chunk SET tokens = substr(tokens, 5) WHERE id = 3", 5},
    {"UPDATE chunk SET tokens = CAST(x'ff' || substr(tokens, 2) AS BLOB) WHERE id = 3", 5},
    {"UPDATE chunk SET tokens = zeroblob(4 * 65537) WHERE id = 3", 5},
    {"UPDATE chunk SET size = size + 1 WHERE id = 3", 5},
    {"UPDATE chunk SET size = 0 WHERE id = 3", 5},
    {"UPDATE chunk SET size = -1 WHERE id = 3", 5},
    {"UPDATE chunk SET size = 9223372036854775807 WHERE id = 3", 5},
    {"UPDATE chunk SET size = 2147483648 WHERE id = 3", 5},
    {"UPDATE chunk SET sum = sum + 1 WHERE id = 3", 5},
    {"UPDATE chunk SET sum = 0", 0},
    {"UPDATE chunk SET id = -3 WHERE id = 3", 5},
    {"UPDATE chunk SET id = 9223372036854775807 WHERE id = 3", -2},
    {"UPDATE chunk SET id = 30 WHERE id = 1", 3}, /* its children come before it */
    {"INSERT INTO piece VALUES (99 * 4096, x'00')", 6},
    {"INSERT INTO piece VALUES (-1, x'00')", 6},
    {"DROP TABLE used", 0},
    {"ALTER TABLE chunk RENAME COLUMN tokens TO t", 0},
};

static void every_column(void **state)
{
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        fill(*state);
        help_sql(*state, "kv.db", damages[i].sql);
        int right = count_right(*state);
        if (damages[i].right != -2 && right != damages[i].right)
            fail_msg("%s: %d right, not %d", damages[i].sql, right, damages[i].right);
        fill(*state);
        help_sql(*state, "kv.db", damages[i].sql);
        kv_check_report before = check(*state, false);
        if (damages[i].right != 6 && kv_check_is_clean(&before))
            fail_msg("%s: a check finds nothing", damages[i].sql);
        check(*state, true);
        kv_check_report after = check(*state, false);
        if (!kv_check_is_clean(&after) || (damages[i].right >= 0 && after.chunks > CHUNKS))
            fail_msg("%s: not clean after the repair", damages[i].sql);
        if (count_right(*state) != damages[i].right && damages[i].right != -2)
            fail_msg("%s: other chunks after the repair", damages[i].sql);
    }
}

/* PAWL_DAMAGE_N makes it longer. */
static void bits_and_ends(void **state)
{
    char path[128];
    const char *text = getenv("PAWL_DAMAGE_N");
    int n = text ? atoi(text) : 60, whole = 0;
    unsigned seed = (unsigned)time(NULL);
    size_t size = good.size;
    uint8_t *bytes = malloc(size);
    memcpy(bytes, good.bytes, size);
    path_of(*state, "kv.db", path);
    print_message("%d places, seed %u\n", n, seed);
    for (int i = 0; i < n; i++) {
        /* half of the flips into the first pages: header, schema, rows */
        size_t at = (size_t)rand_r(&seed) % (i % 2 ? size : 20 * 16384 < size ? 20 * 16384 : size);
        uint8_t bit = (uint8_t)(1u << rand_r(&seed) % 8);
        bytes[at] ^= bit;
        write_file(path, bytes, i % 5 == 4 ? at : size); /* every fifth: cut off there too */
        whole += count_right(*state) == CHUNKS;
        write_file(path, bytes, size);
        kv_check_report report;
        if (kv_check(*state, true, NULL, NULL, &report, NULL) == PAWL_OK) {
            report = check(*state, false);
            assert_true(kv_check_is_clean(&report));
        }
        bytes[at] ^= bit;
    }
    print_message("%d of them hit nothing that matters\n", whole);
    assert_true(whole < n);
    free(bytes);
}

static void survey_and_gc(void **state)
{
    kv_survey_report report;
    uint64_t removed = 0;
    pawl_error error;
    assert_int_equal(kv_survey(*state, &report, &error), PAWL_OK);
    assert_int_equal(report.chunks + report.file_bytes, 0);
    fill(*state);
    assert_int_equal(kv_survey(*state, &report, &error), PAWL_OK);
    assert_int_equal(report.chunks, CHUNKS);
    assert_int_equal(report.tokens, CHUNKS * KV_HELP_TOKENS);
    assert_int_equal(report.bytes, 40000 + 100 + 20000 + 5000 + 70000 + 4199000);
    assert_int_equal(report.tenants, 1);
    assert_int_equal(report.never_used, CHUNKS);
    assert_true(report.newest_ms >= report.oldest_ms && report.oldest_ms > 0);
    assert_int_equal(kv_gc(*state, 2 * MB, &removed, &error), PAWL_OK);
    assert_true(removed > 0 && removed < CHUNKS);
    assert_int_equal(kv_survey(*state, &report, &error), PAWL_OK);
    assert_true(report.file_bytes <= 2 * MB);
    assert_int_equal(report.chunks, CHUNKS - removed);
    uint64_t left = report.chunks;
    assert_int_equal(kv_gc(*state, 0, &removed, &error), PAWL_OK);
    assert_int_equal(removed, left);
    assert_int_equal(kv_survey(*state, &report, &error), PAWL_OK);
    assert_int_equal(report.file_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(newer_is_refused, make, unmake),
        cmocka_unit_test_setup_teardown(a_stranger_is_kept_aside, make, unmake),
        cmocka_unit_test_setup_teardown(garbage_is_replaced, make, unmake),
        cmocka_unit_test_setup_teardown(other_pages_are_replaced, make, unmake),
        cmocka_unit_test_setup_teardown(every_column, make, unmake),
        cmocka_unit_test_setup_teardown(bits_and_ends, make, unmake),
        cmocka_unit_test_setup_teardown(survey_and_gc, make, unmake),
    };
    log_set_level(PAWL_LOG_ERROR + 1); /* hundreds of errors that are meant */
    return cmocka_run_group_tests(tests, make_good, free_good);
}
