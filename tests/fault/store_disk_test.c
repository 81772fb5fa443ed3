/*
 * store_disk_test.c - the store on a disk that fails or is full.
 *
 * Whatever fails and whenever: an error is told, what was acknowledged is there, the
 * database is whole, and writing goes on when the disk is well again. PAWL_FAULT_N
 * sets how many places are tried (30).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include <sqlite3.h>

#include "base/log.h"
#include "failing_io.h"
#include "store/sqlite_store.h"
#include "store_help.h"

enum { WRITES = 10 };

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
    {"write: over quota, stays", FAILING_IO_WRITE, EDQUOT, true},
    {"flush: I/O error, once", FAILING_IO_FLUSH, EIO, false},
    {"flush: I/O error, stays", FAILING_IO_FLUSH, EIO, true},
};

static int places(void)
{
    const char *text = getenv("PAWL_FAULT_N");
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : 30;
}

static void assert_whole(const char *folder)
{
    char path[100];
    sqlite3 *db;
    sqlite3_stmt *statement;
    snprintf(path, sizeof path, "%s/pawl.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL), 0);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

/* The store may need a moment to open its files again. */
static pawl_status put_in_time(store *s, const store_response *r, pawl_error *error)
{
    pawl_status status = PAWL_E_BUSY;
    for (int i = 0; i < 50 && status == PAWL_E_BUSY; i++) {
        status = help_put(s, r, error);
        if (status == PAWL_E_BUSY)
            usleep(20000);
    }
    return status;
}

static bool has_in_time(store *s, const char *id)
{
    for (int i = 0; i < 100; i++) {
        if (help_has(s, id, 0))
            return true;
        usleep(20000);
    }
    return false;
}

/* Puts some one by one and some together while the disk fails; notes what was
 * acknowledged and checks what is said of the rest. */
static void write_some(store *s, const fault *f, bool acknowledged[WRITES])
{
    help_waiter waiters[WRITES];
    pawl_error error;
    for (int i = 0; i < WRITES; i++) {
        char id[16];
        snprintf(id, sizeof id, "n%d", i);
        store_response r = help_response(id, NULL);
        waiters[i] = (help_waiter)HELP_WAITER;
        assert_int_equal(s->put(s, &r, help_done, &waiters[i], &error), PAWL_OK);
        if (i < WRITES / 2)
            help_wait(&waiters[i], 1);
    }
    for (int i = 0; i < WRITES; i++) {
        pawl_status status = help_wait(&waiters[i], 1);
        acknowledged[i] = status == PAWL_OK;
        if (status == PAWL_OK)
            continue;
        assert_true(status == PAWL_E_BUSY || status == PAWL_E_DEVICE || status == PAWL_E_LIMIT);
        if (f->kind == FAILING_IO_WRITE && f->error == ENOSPC)
            assert_int_equal(status, PAWL_E_LIMIT);
        if (status == PAWL_E_LIMIT)
            assert_non_null(strstr(waiters[i].error.message, "no space left"));
    }
}

static void check_after(store *s, const bool acknowledged[WRITES])
{
    for (int i = 0; i < WRITES; i++) {
        char id[16];
        snprintf(id, sizeof id, "n%d", i);
        if (acknowledged[i] && !has_in_time(s, id))
            fail_msg("%s was acknowledged and is lost", id);
    }
}

/* Returns whether a write was refused. */
static bool fail_while_writing(const fault *f, int n)
{
    char folder[64];
    store *s;
    pawl_error error;
    bool acknowledged[WRITES], refused = false;
    help_make_folder(folder);
    assert_int_equal(sqlite_store_open(folder, &s, &error), PAWL_OK);
    store_response first = help_response("first", NULL), last = help_response("last", "first");
    assert_int_equal(help_put(s, &first, &error), PAWL_OK);

    failing_io_arm(f->kind, n, f->error, f->stays);
    write_some(s, f, acknowledged);
    check_after(s, acknowledged); /* what cannot be written to can be read */
    failing_io_disarm();

    assert_int_equal(put_in_time(s, &last, &error), PAWL_OK);
    check_after(s, acknowledged);
    s->close(s);
    assert_whole(folder);
    assert_int_equal(sqlite_store_open(folder, &s, &error), PAWL_OK);
    check_after(s, acknowledged);
    assert_true(help_has(s, "first", 0) && help_has(s, "last", 0));
    s->close(s);
    help_remove_folder(folder);
    for (int i = 0; i < WRITES; i++)
        refused = refused || !acknowledged[i];
    return refused;
}

static void every_place(void **state)
{
    (void)state;
    int n_places = places();
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        int refused = 0;
        for (int n = 1; n <= n_places; n++)
            refused += fail_while_writing(&faults[i], n);
        print_message("%s: %d of %d runs refused a write\n", faults[i].name, refused, n_places);
        assert_true(refused >= 4);
    }
}

/* Opening is refused or works; in either case the folder is usable afterwards. */
static void every_place_of_opening(void **state)
{
    (void)state;
    int refused = 0;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        for (int n = 1; n <= 12; n++) {
            char folder[64];
            store *s;
            pawl_error error;
            help_make_folder(folder);
            failing_io_arm(faults[i].kind, n, faults[i].error, faults[i].stays);
            pawl_status status = sqlite_store_open(folder, &s, &error);
            failing_io_disarm();
            refused += status != PAWL_OK;
            if (status)
                assert_int_equal(sqlite_store_open(folder, &s, &error), PAWL_OK);
            store_response r = help_response("a", NULL);
            assert_int_equal(put_in_time(s, &r, &error), PAWL_OK);
            s->close(s);
            assert_whole(folder);
            help_remove_folder(folder);
        }
    }
    assert_true(refused > 10);
}

/* One that is too large for what is left does not take the small ones with it. */
static void large_one_fails_alone(void **state)
{
    enum { LARGE = 16 << 20 };
    (void)state;
    char folder[64], *text = malloc(LARGE + 1);
    store *s;
    pawl_error error;
    help_waiter hold = HELP_WAITER, waiters[3] = {HELP_WAITER, HELP_WAITER, HELP_WAITER};
    memset(text, 'x', LARGE);
    text[LARGE] = '\0';
    help_make_folder(folder);
    assert_int_equal(sqlite_store_open(folder, &s, &error), PAWL_OK);
    store_response list[] = {help_response("a", NULL), help_response("b", "a"),
                             help_response("c", "a")};
    list[1].input = text;

    failing_io_fill(4 << 20);
    pthread_mutex_lock(&hold.lock); /* the store thread stands in done() meanwhile */
    store_response zero = help_response("zero", NULL);
    assert_int_equal(s->put(s, &zero, help_done, &hold, &error), PAWL_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(s->put(s, &list[i], help_done, &waiters[i], &error), PAWL_OK);
    pthread_mutex_unlock(&hold.lock);
    assert_int_equal(help_wait(&waiters[0], 1), PAWL_OK);
    assert_int_equal(help_wait(&waiters[1], 1), PAWL_E_LIMIT);
    assert_non_null(strstr(waiters[1].error.message, "no space left"));
    assert_int_equal(help_wait(&waiters[2], 1), PAWL_OK);
    assert_true(help_has(s, "a", 0) && !help_has(s, "b", 0) && help_has(s, "c", 0));

    assert_true(failing_io_disarm() > 0);
    assert_int_equal(help_put(s, &list[1], &error), PAWL_OK);
    s->close(s);
    assert_whole(folder);
    help_remove_folder(folder);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place),
        cmocka_unit_test(every_place_of_opening),
        cmocka_unit_test(large_one_fails_alone),
    };
    log_set_level(PAWL_LOG_ERROR + 1); /* hundreds of errors that are meant */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
