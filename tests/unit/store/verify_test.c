/*
 * verify_test.c - what a check finds in a damaged pawl.db, and what a repair leaves.
 *
 * The store of each test, before it is damaged:
 *
 *     a ── b ── c     head of conv_c
 *          └─── d     head of conv_d; conv_e has none, and a tail
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "store/sqlite_store.h"
#include "store/stats.h"
#include "store/upkeep.h"
#include "store/verify.h"
#include "store_help.h"

#define ITEMS "[{\"type\":\"message\",\"id\":\"msg_1\"}]"

typedef struct fixture {
    char folder[64];
    char file[80];
    char said[8192]; /* what was found, one line each */
    pawl_error error;
} fixture;

static void put(store *s, const char *id, const char *parent)
{
    static const int32_t tokens[] = {1, 2, 3, 4};
    store_response r = help_response(id, parent);
    r.input = ITEMS;
    r.tokens = tokens;
    assert_int_equal(help_put(s, &r, NULL), PAWL_OK);
}

static void put_talk(store *s, const char *id, const char *head, const char *tail)
{
    help_waiter w = HELP_WAITER;
    store_conversation c = {.id = id, .metadata = "{}", .tail = tail, .head_id = head};
    assert_int_equal(s->conversation_put(s, &c, help_done, &w, NULL), PAWL_OK);
    assert_int_equal(help_wait(&w, 1), PAWL_OK);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    store *s;
    help_make_folder(f->folder);
    snprintf(f->file, sizeof f->file, "%s/pawl.db", f->folder);
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    put(s, "a", NULL);
    put(s, "b", "a");
    put(s, "c", "b");
    put(s, "d", "b");
    put_talk(s, "conv_c", "c", "[]");
    put_talk(s, "conv_d", "d", ITEMS);
    put_talk(s, "conv_e", NULL, ITEMS);
    s->close(s);
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

static void note(void *arg, const char *where, const char *what)
{
    fixture *f = arg;
    size_t used = strlen(f->said);
    snprintf(f->said + used, sizeof f->said - used, "%s: %s\n", where, what);
}

static verify_report look(fixture *f)
{
    verify_report r = {0};
    f->said[0] = '\0';
    if (verify_run(f->folder, note, f, &r, &f->error) != PAWL_OK)
        fail_msg("%s", f->error.message);
    return r;
}

static verify_report mend(fixture *f)
{
    verify_report r = {0};
    f->said[0] = '\0';
    if (verify_repair(f->folder, note, f, &r, &f->error) != PAWL_OK)
        fail_msg("%s", f->error.message);
    assert_int_equal(look(f).faults, 0);
    return r;
}

static void expect_head(fixture *f, const char *id, const char *head)
{
    store *s;
    store_conversation *c = NULL;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    assert_int_equal(s->conversation_get(s, id, &c, &f->error), PAWL_OK);
    if (head)
        assert_string_equal(c->head_id, head);
    else
        assert_null(c->head_id);
    free(c);
    s->close(s);
}

static void sound_is_sound(void **state)
{
    fixture *f = *state;
    verify_report r = look(f);
    assert_int_equal(r.faults, 0);
    assert_int_equal(r.responses, 4);
    assert_int_equal(r.conversations, 3);
    r = mend(f);
    assert_int_equal(r.removed, 0);
    assert_string_equal(r.copy, "");
}

/* A response that was accepted and not ended, by kill -9 or not yet, is no damage. */
static void queued_is_sound(void **state)
{
    fixture *f = *state;
    store *s;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    store_response q = help_response("q", "c");
    q.status = STORE_QUEUED;
    q.input = ITEMS;
    q.n_tokens = q.n_prompt = 0;
    assert_int_equal(help_put(s, &q, NULL), PAWL_OK);
    s->close(s);
    assert_int_equal(look(f).faults, 0);
    assert_int_equal(mend(f).removed, 0);
}

/* Each damage is said by name; a repair takes it out. */
static void damage_is_named(void **state)
{
    static const struct {
        const char *change, *says;
        int64_t removed; /* rows */
    } cases[] = {
        {"UPDATE response SET status = 'odd' WHERE id = 'd'", "d: status", 1},
        {"UPDATE response SET request = '[]' WHERE id = 'd'", "request is no", 1},
        {"UPDATE response SET result = '{' WHERE id = 'd'", "result is no", 1},
        {"UPDATE response SET input = '[{\"type\":\"message\"}]' WHERE id = 'd'", "input is no", 1},
        {"UPDATE response SET output = '{}' WHERE id = 'd'", "output is no", 1},
        {"UPDATE response SET tokens = x'00000080' , n_prompt = 0 WHERE id = 'd'", "d: tokens", 1},
        {"UPDATE response SET tokens = x'000000' WHERE id = 'd'", "is damaged: tokens", 1},
        {"UPDATE response SET n_prompt = 99 WHERE id = 'd'", "n_prompt", 1},
        {"UPDATE conversation SET metadata = 'x' WHERE id = 'conv_e'", "metadata is no", 1},
        {"UPDATE conversation SET tail = '[1]' WHERE id = 'conv_e'", "tail is no", 1},
        {"UPDATE conversation SET revision = 0 WHERE id = 'conv_e'", "revision", 1},
        {"UPDATE conversation SET head = 'none' WHERE id = 'conv_d'", "its head is missing", 1},
        {"UPDATE conversation SET tenant = 'x' WHERE id = 'conv_d'", "another tenant's", 1},
        {"UPDATE response SET parent = 'none' WHERE id = 'd'", "d: its parent is missing", 1},
        {"UPDATE response SET parent = 'd' WHERE id = 'd'", "its own ancestor", 1},
        {"UPDATE response SET parent = 'c' WHERE id = 'b'", "c: it is its own", 3},
        {"DELETE FROM response WHERE id = 'a'", "b: its parent is missing", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture *f = *state;
        help_sql(f->folder, "pawl.db", cases[i].change);
        if (look(f).faults < 1 || !strstr(f->said, cases[i].says))
            fail_msg("%s: said %s", cases[i].change, f->said);
        verify_report r = mend(f);
        if (r.removed != cases[i].removed)
            fail_msg("%s: %d rows gone", cases[i].change, (int)r.removed);
        assert_int_equal(access(r.copy, R_OK), 0);
        unlink(r.copy);
        teardown(state);
        setup(state);
    }
}

static void conversations_go_back(void **state)
{
    fixture *f = *state;
    help_sql(f->folder, "pawl.db", "UPDATE response SET input = 'x' WHERE id = 'b'");
    verify_report r = mend(f);
    assert_int_equal(r.removed, 3); /* b, and c and d with it */
    assert_int_equal(r.moved, 2);
    expect_head(f, "conv_c", "a");
    expect_head(f, "conv_d", "a");
    expect_head(f, "conv_e", NULL);
    store *s;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    assert_true(help_has(s, "a", 0));
    assert_false(help_has(s, "c", STORE_GET_REMOVED));
    s->close(s);
}

static void nothing_is_left(void **state)
{
    fixture *f = *state;
    help_sql(f->folder, "pawl.db", "UPDATE response SET input = 'x' WHERE id = 'a'");
    verify_report r = mend(f);
    assert_int_equal(r.removed, 4);
    expect_head(f, "conv_c", NULL);
}

/* Pages that are no pages: said, and no repair pretends to help. */
static void a_torn_file_is_refused(void **state)
{
    fixture *f = *state;
    verify_report r;
    FILE *file = fopen(f->file, "r+b");
    assert_non_null(file);
    for (long page = 2; page < 40; page++) {
        char junk[64];
        memset(junk, 0xA5, sizeof junk);
        if (fseek(file, page * 4096, SEEK_SET) == 0 && page % 2)
            fwrite(junk, 1, sizeof junk, file);
    }
    fclose(file);
    f->said[0] = '\0';
    pawl_status status = verify_run(f->folder, note, f, &r, &f->error);
    assert_true(status == PAWL_E_FORMAT || (status == PAWL_OK && r.faults > 0));
    status = verify_repair(f->folder, note, f, &r, &f->error);
    assert_true(status == PAWL_E_FORMAT || (status == PAWL_OK && r.faults > 0));
}

static void a_holder_is_read_beside(void **state)
{
    fixture *f = *state;
    store *s;
    stats st;
    int64_t bytes = 0;
    char copy[96];
    upkeep_gc_report gc;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    put(s, "new", "d"); /* in the log still */
    verify_report r = look(f);
    assert_int_equal(r.responses, 5);
    assert_int_equal(stats_read(f->folder, &st, &f->error), PAWL_OK);
    assert_int_equal(st.responses, 5);
    assert_int_equal(st.conversations, 3);
    assert_int_equal(st.n_tenants, 1);
    assert_int_equal(st.tokens, 20);
    stats_clear(&st);
    snprintf(copy, sizeof copy, "%s/copy.db", f->folder);
    assert_int_equal(upkeep_backup(f->folder, copy, &bytes, &f->error), PAWL_OK);
    assert_true(bytes > 0);
    assert_int_equal(upkeep_backup(f->folder, copy, &bytes, &f->error), PAWL_E_ARGUMENT);
    assert_int_equal(verify_repair(f->folder, note, f, &r, &f->error), PAWL_E_BUSY);
    assert_int_equal(upkeep_gc(f->folder, &gc, &f->error), PAWL_E_BUSY);
    put(s, "newer", "new"); /* and it goes on */
    s->close(s);
    /* The copy is a store. */
    assert_int_equal(rename(copy, f->file), 0);
    assert_int_equal(look(f).responses, 5);
}

static void gc_gives_space_back(void **state)
{
    fixture *f = *state;
    store *s;
    upkeep_gc_report gc;
    char *large = malloc((1u << 20) + 64);
    memset(large, ' ', 1u << 20);
    strcpy(large, "[]");
    large[2] = ' ';
    large[1u << 20] = '\0';
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    store_response r = help_response("big", NULL);
    r.output = large;
    assert_int_equal(help_put(s, &r, &f->error), PAWL_OK);
    assert_int_equal(help_remove(s, "big", &f->error), PAWL_OK);
    s->close(s);
    free(large);
    /* Removed, and needed by nobody: no store leaves such rows, a torn import might. */
    help_sql(
        f->folder, "pawl.db",
        "INSERT INTO response (id, parent, removed, n_prompt, created_ms, completed_ms, model, "
        "status, request, result, input, output, tokens) VALUES ('x', 'a', 1, 0, 0, 0, '', "
        "'completed', '{}', '{}', '[]', '[]', x''), ('y', 'x', 1, 0, 0, 0, '', 'completed', "
        "'{}', '{}', '[]', '[]', x'')");
    assert_int_equal(look(f).unneeded, 1);
    assert_int_equal(upkeep_gc(f->folder, &gc, &f->error), PAWL_OK);
    assert_int_equal(gc.removed, 2);
    assert_true(gc.after_bytes + (1 << 20) <= gc.before_bytes);
    verify_report report = look(f);
    assert_int_equal(report.responses, 4);
    assert_int_equal(report.unneeded, 0);
}

static void what_is_not_there(void **state)
{
    fixture *f = *state;
    verify_report r;
    stats st;
    char empty[80];
    snprintf(empty, sizeof empty, "%s/none", f->folder);
    assert_int_equal(verify_run(empty, note, f, &r, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(stats_read(empty, &st, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(access(empty, F_OK), -1); /* and was not made */
    help_sql(f->folder, "pawl.db", "PRAGMA user_version = 1");
    assert_int_equal(verify_run(f->folder, note, f, &r, &f->error), PAWL_E_UNSUPPORTED);
    int64_t bytes;
    char copy[96];
    snprintf(copy, sizeof copy, "%s/old.db", f->folder);
    assert_int_equal(upkeep_backup(f->folder, copy, &bytes, &f->error), PAWL_OK);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(sound_is_sound),          EACH(queued_is_sound),     EACH(damage_is_named),
        EACH(conversations_go_back),   EACH(nothing_is_left),     EACH(a_torn_file_is_refused),
        EACH(a_holder_is_read_beside), EACH(gc_gives_space_back), EACH(what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
