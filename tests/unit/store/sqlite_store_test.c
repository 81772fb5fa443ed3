/*
 * sqlite_store_test.c - the embedded store's files: whose they are, who holds
 * them, and what happens when they are not what they should be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h> /* the store has a thread */
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/responses.h"
#include "store/sqlite_store.h"
#include "store_help.h"

typedef struct fixture {
    char folder[64];
    char file[100]; /* folder/pawl.db */
    pawl_error error;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    help_make_folder(f->folder);
    snprintf(f->file, sizeof f->file, "%s/pawl.db", f->folder);
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

/* A closed store with resp_a and resp_b on it. */
static void make_two(fixture *f)
{
    store *s;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    store_response a = help_response("resp_a", NULL), b = help_response("resp_b", "resp_a");
    assert_int_equal(help_put(s, &a, &f->error), PAWL_OK);
    assert_int_equal(help_put(s, &b, &f->error), PAWL_OK);
    s->close(s);
}

static void refused(fixture *f, pawl_status status, const char *says, const char *says_too)
{
    store *s = NULL;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), status);
    assert_null(s);
    assert_non_null(strstr(f->error.message, says));
    assert_non_null(strstr(f->error.message, says_too));
}

static unsigned mode_of(const char *folder, const char *name)
{
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 0777;
}

static void files_are_private(void **state)
{
    fixture *f = *state;
    char folder[80];
    store *s;
    mode_t before = umask(0);
    snprintf(folder, sizeof folder, "%s/new/deep", f->folder);
    assert_int_equal(sqlite_store_open(folder, &s, &f->error), PAWL_OK);
    store_response a = help_response("resp_a", NULL);
    assert_int_equal(help_put(s, &a, &f->error), PAWL_OK);
    assert_int_equal(mode_of(folder, "."), 0700);
    const char *const names[] = {"pawl.db", "pawl.db-wal", "pawl.db-shm", "lock"};
    for (int i = 0; i < 4; i++)
        assert_int_equal(mode_of(folder, names[i]), 0600);
    s->close(s);
    snprintf(f->file, sizeof f->file, "%s/pawl.db", folder);
    assert_int_equal(chmod(f->file, 0644), 0); /* one that was copied here by hand */
    assert_int_equal(sqlite_store_open(folder, &s, &f->error), PAWL_OK);
    assert_int_equal(mode_of(folder, "pawl.db"), 0600);
    s->close(s);
    umask(before);
}

/* Returns the exit status: 0 where the child could open the folder. */
static int open_in_child(const fixture *f, char message[240])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        store *s;
        pawl_error error = {.message = ""};
        pawl_status status = sqlite_store_open(f->folder, &s, &error);
        if (status && write(ends[1], error.message, strlen(error.message) + 1) < 0)
            _exit(99);
        if (!status)
            s->close(s);
        _exit(status);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ends[1]);
    ssize_t size = read(ends[0], message, 239);
    message[size > 0 ? size : 0] = '\0';
    close(ends[0]);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* A store is opened in a child, which dies without closing it. */
static void die_in_child(const fixture *f)
{
    pid_t child = fork();
    if (child == 0) {
        store *s;
        _exit(sqlite_store_open(f->folder, &s, NULL));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void one_process_at_a_time(void **state)
{
    fixture *f = *state;
    char message[240], pid[32];
    store *s;
    die_in_child(f); /* before this process has threads; leaves a lock file, but no lock */
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    assert_int_equal(open_in_child(f, message), PAWL_E_BUSY);
    snprintf(pid, sizeof pid, "process %ld;", (long)getpid());
    assert_non_null(strstr(message, pid));
    assert_non_null(strstr(message, f->folder));
    refused(f, PAWL_E_BUSY, pid, f->folder); /* nor twice in this one */
    s->close(s);
    assert_int_equal(open_in_child(f, message), PAWL_OK);
}

static void newer_version_is_refused(void **state)
{
    fixture *f = *state;
    make_two(f);
    help_sql(f->folder, "pawl.db", "PRAGMA user_version = 77");
    char known[24], back[40];
    snprintf(known, sizeof known, "up to %d", responses_kind.version);
    snprintf(back, sizeof back, "PRAGMA user_version = %d", responses_kind.version);
    refused(f, PAWL_E_UNSUPPORTED, "version 77", known);
    help_sql(f->folder, "pawl.db", back);
    store *s;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    assert_true(help_has(s, "resp_b", 0));
    s->close(s);
}

static void other_programs_file_is_refused(void **state)
{
    fixture *f = *state;
    help_sql(f->folder, "pawl.db", "CREATE TABLE bookmarks (url TEXT)");
    refused(f, PAWL_E_FORMAT, f->file, "another program");
    help_sql(f->folder, "pawl.db", "PRAGMA application_id = 12345; PRAGMA user_version = 1");
    refused(f, PAWL_E_FORMAT, f->file, "another program");
    help_sql(f->folder, "pawl.db", "SELECT url FROM bookmarks"); /* and was left alone */
}

static void write_file(const fixture *f, const void *data, size_t size)
{
    int fd = open(f->file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    close(fd);
}

static void no_database_is_refused(void **state)
{
    fixture *f = *state;
    char noise[8192];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * 2654435761u >> 13);
    write_file(f, noise, sizeof noise);
    refused(f, PAWL_E_FORMAT, f->file, "not a database");
    write_file(f, "SQLite format 3", 16); /* nothing but the magic number */
    refused(f, PAWL_E_FORMAT, f->file, "not a database");
    assert_int_equal(remove(f->file), 0);
    assert_int_equal(mkdir(f->file, 0700), 0);
    refused(f, PAWL_E_NOT_FOUND, f->file, "directory");
    assert_int_equal(rmdir(f->file), 0);
    assert_int_equal(symlink("/etc/passwd", f->file), 0);
    refused(f, PAWL_E_NOT_FOUND, f->file, "");
}

/* Cut anywhere, the file is refused, or what is left of it is served: no crash. */
static void truncated_file_is_survived(void **state)
{
    fixture *f = *state;
    make_two(f);
    struct stat st;
    assert_int_equal(stat(f->file, &st), 0);
    char *whole = malloc((size_t)st.st_size);
    FILE *in = fopen(f->file, "rb");
    assert_int_equal(fread(whole, 1, (size_t)st.st_size, in), st.st_size);
    fclose(in);
    int refusals = 0;
    for (off_t size = 1; size < st.st_size; size += 911) {
        store *s;
        write_file(f, whole, (size_t)size);
        pawl_status status = sqlite_store_open(f->folder, &s, &f->error);
        refusals += status == PAWL_E_FORMAT;
        if (status == PAWL_OK)
            s->close(s);
        else
            assert_int_equal(status, PAWL_E_FORMAT);
    }
    assert_true(refusals > 10);
    free(whole);
}

/* Bytes that are overwritten anywhere: an error or a wrong value, never a crash. */
static void garbage_inside_is_survived(void **state)
{
    fixture *f = *state;
    make_two(f);
    struct stat st;
    assert_int_equal(stat(f->file, &st), 0);
    char *whole = malloc((size_t)st.st_size);
    FILE *in = fopen(f->file, "rb");
    assert_int_equal(fread(whole, 1, (size_t)st.st_size, in), st.st_size);
    fclose(in);
    unsigned seed = 1;
    for (int round = 0; round < 60; round++) {
        char *bad = malloc((size_t)st.st_size);
        memcpy(bad, whole, (size_t)st.st_size);
        for (int i = 0; i < 1 + round; i++)
            bad[(size_t)rand_r(&seed) % (size_t)st.st_size] = (char)rand_r(&seed);
        write_file(f, bad, (size_t)st.st_size);
        free(bad);
        store *s;
        if (sqlite_store_open(f->folder, &s, &f->error) != PAWL_OK)
            continue;
        store_response c = help_response("resp_c", "resp_b");
        help_has(s, "resp_a", 1);
        help_put(s, &c, &f->error);
        help_has(s, "resp_b", 0);
        help_remove(s, "resp_a", &f->error);
        help_remove(s, "resp_b", &f->error);
        s->close(s);
    }
    free(whole);
}

/* Rows that the schema would not have let in. */
static void damaged_rows_are_named(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *change, *says;
    } cases[] = {
        {"tokens = x'010203'", "tokens"},
        {"tokens = 'text'", "tokens"},
        {"tokens = NULL", "tokens"},
        {"n_prompt = 5", "n_prompt"},
        {"n_prompt = -1", "n_prompt"},
        {"n_prompt = 'x'", "n_prompt"},
        {"output = NULL", "output"},
        {"input = x'5b5d'", "input"},
        {"model = 'a' || char(0) || 'b'", "model"},
        {"status = x'33'", "status"},
        {"created_ms = 'yesterday'", "created_ms"},
        {"parent = hex(zeroblob(40))", "parent"},
        {"parent = ''", "parent"},
        {"conversation = ''", "conversation"},
        {"conversation = x'41'", "conversation"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[600];
        store *s;
        store_response *got = NULL;
        assert_true(i == 0 || unlink(f->file) == 0);
        make_two(f);
        snprintf(text, sizeof text,
                 "PRAGMA foreign_keys = OFF; PRAGMA writable_schema = ON;"
                 "UPDATE sqlite_schema SET sql = replace(replace(sql, 'NOT NULL', ''), ') STRICT', "
                 "')') WHERE name = 'response';"
                 "PRAGMA writable_schema = RESET; UPDATE response SET %s WHERE id = 'resp_b'",
                 cases[i].change);
        help_sql(f->folder, "pawl.db", text);
        assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
        assert_int_equal(s->get(s, "resp_b", 0, &got, &f->error), PAWL_E_FORMAT);
        assert_null(got);
        assert_non_null(strstr(f->error.message, "resp_b"));
        assert_non_null(strstr(f->error.message, cases[i].says));
        assert_true(help_has(s, "resp_a", 0));
        s->close(s);
    }
}

static void damaged_conversation_is_said(void **state)
{
    static const char *const columns[] = {"revision = 0", "revision = 'x'", "tenant = x'00'",
                                          "title = NULL", "head = ''",      "metadata = x'35'",
                                          "tail = NULL",  "created_ms = ''"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        char text[600], name[16];
        store *s;
        store_conversation *got = NULL, talk = {.id = "conv_a", .metadata = "{}", .tail = "[]"};
        help_waiter w = HELP_WAITER;
        assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
        assert_int_equal(s->conversation_put(s, &talk, help_done, &w, &f->error), PAWL_OK);
        assert_int_equal(help_wait(&w, 1), PAWL_OK);
        s->close(s);
        snprintf(text, sizeof text,
                 "PRAGMA foreign_keys = OFF; PRAGMA writable_schema = ON;"
                 "UPDATE sqlite_schema SET sql = replace(replace(sql, 'NOT NULL', ''), ') STRICT', "
                 "')') WHERE name = 'conversation';"
                 "PRAGMA writable_schema = RESET; UPDATE conversation SET %s",
                 columns[i]);
        help_sql(f->folder, "pawl.db", text);
        assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
        assert_int_equal(s->conversation_get(s, "conv_a", &got, &f->error), PAWL_E_FORMAT);
        assert_null(got);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(columns[i], " "), columns[i]);
        assert_non_null(strstr(f->error.message, name));
        s->close(s);
        assert_int_equal(unlink(f->file), 0);
    }
}

/* Removed nodes whose parents form a ring: collecting ends. */
static void ring_of_parents_ends(void **state)
{
    fixture *f = *state;
    store *s;
    make_two(f);
    help_sql(f->folder, "pawl.db",
             "UPDATE response SET parent = 'resp_b', removed = 1 WHERE id = 'resp_a';"
             "UPDATE response SET removed = 0 WHERE id = 'resp_b'");
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    assert_int_equal(help_remove(s, "resp_b", &f->error), PAWL_OK);
    assert_false(help_has(s, "resp_b", 0));
    s->close(s);
}

/* A removal that meets damage on its way up takes nothing with it. */
static void half_a_removal_is_undone(void **state)
{
    fixture *f = *state;
    store *s;
    make_two(f);
    help_sql(f->folder, "pawl.db",
             "UPDATE response SET parent = '', removed = 1 WHERE id = 'resp_a'");
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    assert_int_equal(help_remove(s, "resp_b", &f->error), PAWL_E_FORMAT);
    assert_true(help_has(s, "resp_b", 0));
    s->close(s);
}

/* The log does not grow for ever, and is gone after close. */
static void log_is_kept_small(void **state)
{
    fixture *f = *state;
    store *s;
    char path[120], id[16];
    struct stat st;
    char *text = malloc(1 << 20);
    memset(text, 'x', (1 << 20) - 1);
    text[(1 << 20) - 1] = '\0';
    snprintf(path, sizeof path, "%s-wal", f->file);
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof id, "n%d", i);
        store_response r = help_response(id, NULL);
        r.input = text;
        assert_int_equal(help_put(s, &r, &f->error), PAWL_OK);
    }
    assert_int_equal(stat(path, &st), 0);
    assert_in_range(st.st_size, 1, 16 << 20);
    s->close(s);
    assert_int_equal(stat(path, &st), -1);
    free(text);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(one_process_at_a_time), /* first: it forks, and later ones leave no thread */
        EACH(files_are_private),
        EACH(newer_version_is_refused),
        EACH(other_programs_file_is_refused),
        EACH(no_database_is_refused),
        EACH(truncated_file_is_survived),
        EACH(garbage_inside_is_survived),
        EACH(damaged_rows_are_named),
        EACH(damaged_conversation_is_said),
        EACH(ring_of_parents_ends),
        EACH(half_a_removal_is_undone),
        EACH(log_is_kept_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
