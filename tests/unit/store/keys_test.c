/*
 * keys_test.c - what store.h promises of keys, on every implementation of it, and from
 * another process's side.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "store/control.h"
#include "store/db.h"
#include "store/wait.h"
#include "contract.h"

/* A key whose hash is made of its number. */
static store_key key_of(unsigned number)
{
    store_key key = {.hint = "pawl-abcde",
                     .name = "n\xc3\xa4me",
                     .tenant = "tenant",
                     .scopes = STORE_SCOPE_INFERENCE,
                     .created_ms = 1767225600000 + number,
                     .expires_ms = number % 2 ? 1767225700000 : 0};
    snprintf(key.id, sizeof key.id, "key_%u", number);
    snprintf(key.hash, sizeof key.hash, "%064x", number);
    return key;
}

static pawl_status add(store *s, const store_key *key, pawl_error *error)
{
    store_wait w;
    store_wait_open(&w);
    return store_wait_close(&w, s->key_add(s, key, store_wait_done, &w, error), error);
}

static pawl_status mark(store *s, const char *id, enum store_key_mark what, int64_t when,
                        pawl_error *error)
{
    store_wait w;
    store_wait_open(&w);
    return store_wait_close(&w, s->key_mark(s, id, what, when, store_wait_done, &w, error), error);
}

static void assert_same(const store_key *a, const store_key *b)
{
    assert_string_equal(a->id, b->id);
    assert_string_equal(a->hash, b->hash);
    assert_string_equal(a->hint, b->hint);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->tenant, b->tenant);
    assert_int_equal(a->scopes, b->scopes);
    assert_int_equal(a->created_ms, b->created_ms);
    assert_int_equal(a->expires_ms, b->expires_ms);
    assert_int_equal(a->revoked_ms, b->revoked_ms);
    assert_int_equal(a->used_ms, b->used_ms);
}

static void keys_are_found(void **state)
{
    fixture *f = *state;
    store_key one = key_of(1), two = key_of(2), found, *list;
    size_t n;
    assert_int_equal(f->s->key_count(f->s), 0);
    assert_false(f->s->key_find(f->s, one.hash, NULL, &found));
    assert_int_equal(add(f->s, &two, &f->error), PAWL_OK);
    assert_int_equal(add(f->s, &one, &f->error), PAWL_OK);
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(f->s->key_count(f->s), 2);
        assert_true(f->s->key_find(f->s, one.hash, NULL, &found));
        assert_same(&found, &one);
        assert_true(f->s->key_find(f->s, NULL, "key_2", &found));
        assert_same(&found, &two);
        static const char near[] = "000000000000000000000000000000000000000000000000"
                                   "0000000000000003";
        static const char *const strange[] = {"", "0", "key_1", near};
        for (size_t i = 0; i < 4; i++)
            assert_false(f->s->key_find(f->s, strange[i], NULL, &found));
        assert_int_equal(f->s->key_list(f->s, &list, &n, &f->error), PAWL_OK);
        assert_int_equal(n, 2);
        free(list);
        reopen(f);
    }
}

static void refuses_what_cannot_be(void **state)
{
    fixture *f = *state;
    store_key bad[7];
    for (size_t i = 0; i < 7; i++)
        bad[i] = key_of(1);
    bad[0].id[0] = '\0';
    bad[1].hash[0] = 'A';
    bad[2].hash[63] = '\0';
    bad[3].name[0] = '\0';
    bad[4].name[1] = '\n';
    bad[5].scopes = 0;
    bad[6].scopes = 8;
    for (size_t i = 0; i < 7; i++)
        assert_int_equal(add(f->s, &bad[i], &f->error), PAWL_E_ARGUMENT);
    store_key one = key_of(1), same_hash = key_of(1), same_id = key_of(2);
    strcpy(same_hash.id, "key_other");
    strcpy(same_id.id, one.id);
    assert_int_equal(add(f->s, &one, &f->error), PAWL_OK);
    assert_int_equal(add(f->s, &same_hash, &f->error), PAWL_E_ARGUMENT);
    assert_int_equal(add(f->s, &same_id, &f->error), PAWL_E_ARGUMENT);
    assert_int_equal(f->s->key_count(f->s), 1);
}

static void marks_stay(void **state)
{
    fixture *f = *state;
    store_key one = key_of(1), found;
    assert_int_equal(add(f->s, &one, &f->error), PAWL_OK);
    assert_int_equal(mark(f->s, "key_1", STORE_KEY_USED, 500, &f->error), PAWL_OK);
    assert_int_equal(mark(f->s, "key_1", STORE_KEY_USED, 400, &f->error), PAWL_OK);
    assert_int_equal(mark(f->s, "key_1", STORE_KEY_REVOKED, 700, &f->error), PAWL_OK);
    assert_int_equal(mark(f->s, "key_1", STORE_KEY_REVOKED, 800, &f->error), PAWL_OK);
    assert_int_equal(mark(f->s, "key_2", STORE_KEY_REVOKED, 800, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(mark(f->s, "", STORE_KEY_REVOKED, 800, &f->error), PAWL_E_NOT_FOUND);
    one.used_ms = 500;
    one.revoked_ms = 700;
    for (int pass = 0; pass < 2; pass++) {
        assert_true(f->s->key_find(f->s, one.hash, NULL, &found));
        assert_same(&found, &one);
        reopen(f);
    }
    assert_int_equal(f->s->key_count(f->s), 1); /* a revoked key is a key */
}

static void responses_have_a_tenant(void **state)
{
    fixture *f = *state;
    store_response a = help_response("a", NULL), b = help_response("b", "a"), *got;
    b.tenant = "somebody";
    assert_int_equal(help_put(f->s, &a, &f->error), PAWL_OK);
    assert_int_equal(help_put(f->s, &b, &f->error), PAWL_OK);
    assert_int_equal(f->s->get(f->s, "a", 0, &got, NULL), PAWL_OK);
    assert_string_equal(got->tenant, "");
    free(got);
    assert_int_equal(f->s->get(f->s, "b", 0, &got, NULL), PAWL_OK);
    assert_string_equal(got->tenant, "somebody");
    free(got);
    b.id = "c";
    b.tenant = "a name that has more than sixty-four bytes, which is more than it may";
    assert_int_equal(help_put(f->s, &b, &f->error), PAWL_E_LIMIT);
}

/* ------------------------------------------- the embedded store's own promises --- */

static void another_process_may_ask(void **state)
{
    fixture *f = *state;
    store *other, *second;
    store_key one = key_of(1), found, *list;
    size_t n;
    store_response r = help_response("a", NULL), *got;
    assert_int_equal(sqlite_store_open(f->folder, &second, &f->error), PAWL_E_BUSY);
    assert_int_equal(control_connect(f->folder, &other, &f->error), PAWL_OK);
    assert_int_equal(add(other, &one, &f->error), PAWL_OK);
    assert_true(f->s->key_find(f->s, one.hash, NULL, &found));
    assert_same(&found, &one);
    assert_int_equal(add(other, &one, &f->error), PAWL_E_ARGUMENT);
    assert_true(strlen(f->error.message) > 10);
    assert_int_equal(mark(other, "key_1", STORE_KEY_REVOKED, 900, &f->error), PAWL_OK);
    assert_int_equal(mark(other, "key_9", STORE_KEY_REVOKED, 900, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(other->key_list(other, &list, &n, &f->error), PAWL_OK);
    assert_int_equal(n, 1);
    one.revoked_ms = 900;
    assert_same(&list[0], &one);
    free(list);
    assert_int_equal(help_put(other, &r, &f->error), PAWL_E_UNSUPPORTED);
    assert_int_equal(other->get(other, "a", 0, &got, &f->error), PAWL_E_UNSUPPORTED);
    f->s->close(f->s);
    f->s = NULL;
    assert_int_equal(add(other, &one, &f->error), PAWL_E_NOT_FOUND);
    other->close(other);
    assert_int_equal(control_connect(f->folder, &other, &f->error), PAWL_E_NOT_FOUND);
}

/* Only this user may ask; what is asked wrongly is answered, or the line is dropped. */
static void the_socket_is_private(void **state)
{
    fixture *f = *state;
    struct stat st;
    char path[80];
    snprintf(path, sizeof path, "%s/control", f->folder);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0600);
    static const char *const lines[] = {
        "",
        "{}",
        "no json",
        "[1]",
        "{\"do\":\"drop\"}",
        "{\"do\":\"key_add\"}",
        "{\"do\":\"key_add\",\"key\":{\"id\":\"x\"}}",
        "{\"do\":\"key_mark\",\"id\":\"x\",\"mark\":7}",
        "{\"do\":\"key_mark\",\"id\":\"x\",\"mark\":1,\"when_ms\":1e300}"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        strcpy(address.sun_path, path);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        assert_true(write(fd, lines[i], strlen(lines[i])) >= 0 && write(fd, "\n", 1) == 1);
        char *answer = control_read_line(fd, 1000);
        assert_non_null(answer);
        assert_non_null(strstr(answer, "\"ok\":false"));
        free(answer);
        close(fd);
    }
    assert_int_equal(f->s->key_count(f->s), 0);
}

/* A row that is damaged opens nothing, and does not make the server one without keys. */
static void a_damaged_row_is_no_key(void **state)
{
    static const char *const damages[] = {
        "hash = 'x'",
        "name = hex(zeroblob(200))",    /* longer than its room       */
        "name = 'a' || char(0) || 'b'", /* a NUL inside               */
        "tenant = hex(zeroblob(200))",
        "scopes = 99",
    };
    fixture *f = *state;
    char sql[400];
    store_key one = key_of(1), two = key_of(2), found;
    assert_int_equal(add(f->s, &one, &f->error), PAWL_OK);
    assert_int_equal(add(f->s, &two, &f->error), PAWL_OK);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        f->s->close(f->s);
        f->s = NULL;
        snprintf(sql, sizeof sql,
                 "CREATE TABLE IF NOT EXISTS sound AS SELECT * FROM api_key; "
                 "UPDATE api_key SET (hash, name, tenant, scopes) = (SELECT hash, name, tenant, "
                 "scopes FROM sound WHERE id = 'key_1') WHERE id = 'key_1'; "
                 "UPDATE api_key SET %s WHERE id = 'key_1'",
                 damages[i]);
        help_sql(f->folder, "pawl.db", sql);
        reopen(f);
        assert_int_equal(f->s->key_count(f->s), 2);
        assert_false(f->s->key_find(f->s, one.hash, NULL, &found));
        assert_true(f->s->key_find(f->s, two.hash, NULL, &found));
    }
}

/* A file of version 1 keeps its responses, which are nobody's in particular. */
static void version_1_gets_tenants(void **state)
{
    static const char back[] =
        "DROP TABLE step; DROP TABLE run_event; DROP TABLE run; DROP TABLE source; "
        "DROP TABLE conversation; DROP TABLE idempotency; DROP INDEX response_by_conversation;"
        "ALTER TABLE response DROP COLUMN conversation;"
        "ALTER TABLE response DROP COLUMN tenant; DROP TABLE api_key; PRAGMA user_version = 1";
    fixture *f = *state;
    char copy[80];
    store_response a = help_response("a", NULL), *got;
    assert_int_equal(help_put(f->s, &a, &f->error), PAWL_OK);
    f->s->close(f->s);
    f->s = NULL;
    help_sql(f->folder, "pawl.db", back);
    reopen(f);
    assert_int_equal(f->s->get(f->s, "a", 0, &got, NULL), PAWL_OK);
    assert_string_equal(got->tenant, "");
    assert_string_equal(got->input, a.input);
    free(got);
    snprintf(copy, sizeof copy, "%s/pawl.db.v1", f->folder);
    assert_int_equal(access(copy, F_OK), 0);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest contract[] = {
        EACH(keys_are_found),
        EACH(refuses_what_cannot_be),
        EACH(marks_stay),
        EACH(responses_have_a_tenant),
    };
    const struct CMUnitTest embedded[] = {
        EACH(another_process_may_ask),
        EACH(the_socket_is_private),
        EACH(a_damaged_row_is_no_key),
        EACH(version_1_gets_tenants),
    };
    int failed = 0;
    for (size_t i = 0; i < N_IMPLEMENTATIONS; i++) {
        tested = &implementations[i];
        failed += cmocka_run_group_tests_name(tested->name, contract, NULL, NULL);
    }
    tested = &implementations[0];
    return failed + cmocka_run_group_tests(embedded, NULL, NULL);
}
