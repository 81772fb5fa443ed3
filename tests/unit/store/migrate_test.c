/*
 * migrate_test.c - versions of a database file, with scripts made up for it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/stat.h>

#include "store/db.h"
#include "store/folder.h"
#include "store_help.h"

static const char *const scripts[] = {
    "CREATE TABLE t (a INTEGER) STRICT; INSERT INTO t VALUES (1);",
    "ALTER TABLE t ADD COLUMN b INTEGER NOT NULL DEFAULT 7;",
    "CREATE TABLE u (c TEXT) STRICT; INSERT INTO u SELECT b FROM t;",
};

static const char *const broken_scripts[] = {
    "CREATE TABLE t (a INTEGER) STRICT; INSERT INTO t VALUES (1);",
    "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1);",
};

static db_kind kind_of(const char *const *list, int version)
{
    return (db_kind){.name = "test.db", .application_id = 42, .scripts = list, .version = version};
}

typedef struct fixture {
    char folder[64];
    char file[80];
    char copy[96]; /* of version 1 */
    pawl_error error;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    help_make_folder(f->folder);
    snprintf(f->file, sizeof f->file, "%.60s/test.db", f->folder);
    snprintf(f->copy, sizeof f->copy, "%s.v1", f->file);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    help_remove_folder(f->folder);
    free(f);
    return 0;
}

static sqlite3 *open_as(fixture *f, const db_kind *kind)
{
    sqlite3 *db;
    assert_int_equal(folder_own_file(f->file, &f->error), PAWL_OK);
    assert_int_equal(db_open_writer(f->file, kind, &db, &f->error), PAWL_OK);
    return db;
}

static int64_t number(sqlite3 *db, const char *sql)
{
    int64_t value = -1;
    assert_int_equal(db_get_int(db, sql, &value, NULL), PAWL_OK);
    return value;
}

static void new_file_gets_all(void **state)
{
    fixture *f = *state;
    db_kind kind = kind_of(scripts, 3);
    sqlite3 *db = open_as(f, &kind);
    assert_int_equal(number(db, "PRAGMA user_version"), 3);
    assert_int_equal(number(db, "PRAGMA application_id"), 42);
    assert_int_equal(number(db, "SELECT c FROM u"), 7);
    assert_int_equal(number(db, "PRAGMA synchronous"), 3); /* EXTRA */
    assert_int_equal(number(db, "PRAGMA foreign_keys"), 1);
    assert_int_equal(number(db, "PRAGMA wal_autocheckpoint"), 0);
    db_close(db);
    assert_int_not_equal(access(f->copy, F_OK), 0); /* there was nothing to lose */
}

static void older_file_is_copied_first(void **state)
{
    fixture *f = *state;
    db_kind old = kind_of(scripts, 1), new = kind_of(scripts, 3);
    sqlite3 *db = open_as(f, &old);
    assert_int_equal(db_exec(db, "UPDATE t SET a = 99", &f->error), PAWL_OK);
    db_close(db);
    FILE *stale = fopen(f->copy, "w"); /* of an attempt that was broken off */
    fputs("stale", stale);
    fclose(stale);

    db = open_as(f, &new);
    assert_int_equal(number(db, "PRAGMA user_version"), 3);
    assert_int_equal(number(db, "SELECT a + b FROM t"), 106);
    db_close(db);

    struct stat st;
    assert_int_equal(stat(f->copy, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    strcpy(f->file, f->copy); /* the copy is a file that the old program opens */
    db = open_as(f, &old);
    assert_int_equal(number(db, "SELECT a FROM t"), 99);
    assert_int_equal(number(db, "PRAGMA user_version"), 1);
    db_close(db);
}

static void broken_script_leaves_the_old_version(void **state)
{
    fixture *f = *state;
    sqlite3 *db;
    db_kind old = kind_of(scripts, 1), broken = kind_of(broken_scripts, 2);
    db_close(open_as(f, &old));
    assert_int_not_equal(db_open_writer(f->file, &broken, &db, &f->error), PAWL_OK);
    assert_non_null(strstr(f->error.message, "nowhere"));
    db = open_as(f, &old);
    assert_int_equal(number(db, "PRAGMA user_version"), 1);
    assert_int_equal(number(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"), 0);
    db_close(db);
}

static void reader_cannot_write(void **state)
{
    fixture *f = *state;
    db_kind kind = kind_of(scripts, 1);
    sqlite3 *reader, *db = open_as(f, &kind);
    assert_int_equal(db_open_reader(f->file, &reader, &f->error), PAWL_OK);
    assert_int_equal(number(reader, "SELECT a FROM t"), 1);
    assert_int_not_equal(db_exec(reader, "INSERT INTO t VALUES (2)", &f->error), PAWL_OK);
    assert_int_equal(number(reader, "PRAGMA wal_autocheckpoint"), 0);
    db_close(reader);
    db_close(db);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(new_file_gets_all),
        EACH(older_file_is_copied_first),
        EACH(broken_script_leaves_the_old_version),
        EACH(reader_cannot_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
