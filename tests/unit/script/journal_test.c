/*
 * tests/unit/script/journal_test.c - what a journal gives to the store, and how much.
 *
 * The store is a fake: it counts, notes the latest write, and calls done at once or when
 * the test says so.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAX_HELD 64

typedef struct fake {
    store table;
    pawl_status answer; /* of run_add            */
    bool hold;          /* done is called later  */
    store_done done[MAX_HELD];
    void *arg[MAX_HELD];
    size_t n_held;
    size_t n_writes;
    size_t n_steps;
    char events[20000]; /* "seq:type " of all    */
} fake;

static pawl_status add(store *s, const store_addition *more, store_done done, void *arg,
                       pawl_error *error)
{
    fake *f = (fake *)s;
    if (f->answer)
        return pawl_fail(error, f->answer, "no");
    f->n_writes++;
    f->n_steps += more->key != NULL;
    for (size_t i = 0; i < more->n_events; i++) {
        size_t used = strlen(f->events);
        snprintf(f->events + used, sizeof f->events - used, "%llu:%s ",
                 (unsigned long long)more->events[i].seq, more->events[i].type);
    }
    if (f->hold) {
        assert_true(f->n_held < MAX_HELD);
        f->done[f->n_held] = done;
        f->arg[f->n_held++] = arg;
    } else {
        done(arg, PAWL_OK, NULL);
    }
    return PAWL_OK;
}

static pawl_status size_of(store *s, const char *id, store_run_size *size, pawl_error *error)
{
    (void)s;
    (void)id;
    (void)error;
    *size = (store_run_size){.n_steps = 3, .step_bytes = 100, .last_seq = 41};
    return PAWL_OK;
}

static void let_go(fake *f)
{
    f->hold = false;
    for (size_t i = 0; i < f->n_held; i++)
        f->done[i](f->arg[i], PAWL_OK, NULL);
    f->n_held = 0;
}

static journal *open(fake *f, bool resumed)
{
    journal *j = NULL;
    journal_listener none = {.arg = NULL};
    pawl_error error = {.struct_size = sizeof error};
    *f = (fake){.table = {.run_add = add, .run_measure = size_of}};
    assert_int_equal(journal_open(&f->table, clock_system(), "run_x", resumed, none, &j, &error),
                     PAWL_OK);
    return j;
}

static void events_are_numbered_in_order(void **state)
{
    (void)state;
    fake f;
    journal *j = open(&f, true);
    pending_hub *hub = pending_hub_open(NULL, NULL);
    journal_events held = {0};
    journal_write *w = NULL;
    assert_true(journal_say(j, "a", "1") && journal_hold(j, &held, "h", "1") &&
                journal_say(j, "b", "1"));
    assert_int_equal(f.n_writes, 0);
    assert_true(journal_due(j) != INT64_MAX);
    assert_int_equal(journal_keep(j, hub, "k", "1", &held, &w, NULL), PAWL_OK);
    assert_true(pending_ended(&w->base) && w->status == PAWL_OK);
    pending_close(&w->base);
    assert_true(held.n == 0 && journal_due(j) == INT64_MAX);
    assert_true(journal_say(j, "c", "1"));
    journal_finish(j);
    assert_string_equal(f.events, "42:a 43:b 44:h 45:c ");
    journal_close(j);
    pending_hub_close(hub);
}

static void a_run_keeps_so_much(void **state)
{
    (void)state;
    fake f;
    journal *j = open(&f, false);
    pawl_error error = {.struct_size = sizeof error};
    char *value = malloc(JOURNAL_MAX_VALUE + 2);
    memset(value, ' ', JOURNAL_MAX_VALUE + 1);
    value[JOURNAL_MAX_VALUE + 1] = '\0';
    assert_int_equal(journal_note(j, "k", value, &error), PAWL_E_LIMIT);
    value[JOURNAL_MAX_VALUE] = '\0';
    size_t most = JOURNAL_MAX_BYTES / (JOURNAL_MAX_VALUE + 1);
    for (size_t i = 0; i < most; i++)
        assert_int_equal(journal_note(j, "k", value, &error), PAWL_OK);
    assert_int_equal(journal_note(j, "k", value, &error), PAWL_E_LIMIT);
    assert_non_null(strstr(error.message, "256 MiB"));
    journal_close(j);
    j = open(&f, false);
    for (size_t i = 0; i < JOURNAL_MAX_STEPS; i++)
        assert_int_equal(journal_note(j, "k", "1", &error), PAWL_OK);
    assert_int_equal(journal_note(j, "k", "1", &error), PAWL_E_LIMIT);
    assert_int_equal(f.n_steps, JOURNAL_MAX_STEPS);
    journal_close(j);
    free(value);
}

/* A run may not fill the queue that all share. */
static void few_writes_are_under_way(void **state)
{
    (void)state;
    fake f;
    journal *j = open(&f, false);
    pawl_error error = {.struct_size = sizeof error};
    size_t n = 0;
    f.hold = true;
    while (n < 1000 && journal_note(j, "k", "1", &error) == PAWL_OK)
        n++;
    assert_true(n >= 8 && n <= 32);
    for (size_t i = 0; i < JOURNAL_MAX_WAITING; i++)
        assert_true(journal_say(j, "e", "1"));
    assert_false(journal_say(j, "e", "1")); /* as many wait as may */
    let_go(&f);
    assert_true(journal_say(j, "f", "1"));
    journal_close(j);
    assert_non_null(strstr(f.events, "1001:f "));
}

static void a_full_store_is_asked_again(void **state)
{
    (void)state;
    fake f;
    journal *j = open(&f, false);
    pending_hub *hub = pending_hub_open(NULL, NULL);
    journal_events held = {0};
    journal_write *w = NULL;
    f.answer = PAWL_E_BUSY;
    assert_true(journal_say(j, "a", "1") && journal_hold(j, &held, "h", "1"));
    assert_int_equal(journal_keep(j, hub, "k", "1", &held, &w, NULL), PAWL_E_BUSY);
    journal_flush(j, true);
    f.answer = PAWL_OK;
    assert_int_equal(journal_keep(j, hub, "k", "1", &held, &w, NULL), PAWL_OK);
    pending_close(&w->base);
    assert_string_equal(f.events, "1:a 2:h ");
    journal_close(j);
    pending_hub_close(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_numbered_in_order),
        cmocka_unit_test(a_run_keeps_so_much),
        cmocka_unit_test(few_writes_are_under_way),
        cmocka_unit_test(a_full_store_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
