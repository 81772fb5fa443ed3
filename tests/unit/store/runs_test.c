/*
 * runs_test.c - what store.h promises of runs, on every implementation of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "contract.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static store_run a_run(const char *id, const char *state)
{
    return (store_run){.id = id,
                       .pipeline = "p",
                       .path = "",
                       .source = HASH,
                       .state = state,
                       .tenant = "",
                       .params = "{}",
                       .result = "null",
                       .created_ms = 5,
                       .updated_ms = 6};
}

static pawl_status put(fixture *f, store_run run, const char *text)
{
    help_waiter w = HELP_WAITER;
    pawl_status status = f->s->run_put(f->s, &run, text, help_done, &w, &f->error);
    return status ? status : help_wait(&w, 1);
}

static pawl_status add(fixture *f, store_addition more)
{
    help_waiter w = HELP_WAITER;
    pawl_status status = f->s->run_add(f->s, &more, help_done, &w, &f->error);
    return status ? status : help_wait(&w, 1);
}

static pawl_status add_step(fixture *f, const char *run, const char *key, const char *value)
{
    return add(f, (store_addition){.run = run, .key = key, .value = value, .at_ms = 1});
}

static void a_run_comes_back(void **state)
{
    fixture *f = *state;
    store_run first = a_run("run_a", "running"), *got = NULL;
    char *text = NULL;
    first.path = "/x/y.lua";
    first.params = "{\"q\":\"\xC3\xA4\"}";
    assert_int_equal(put(f, first, "return 1"), PAWL_OK);
    store_run second = first;
    second.state = "parked";
    second.result = "{\"prompt\":1}";
    second.updated_ms = 77;
    second.params = "{\"q\":2}";
    second.path = "not looked at";
    assert_int_equal(put(f, second, NULL), PAWL_OK);
    reopen(f);
    assert_int_equal(f->s->run_get(f->s, "run_a", &got, &f->error), PAWL_OK);
    assert_string_equal(got->id, "run_a");
    assert_string_equal(got->pipeline, "p");
    assert_string_equal(got->path, "/x/y.lua");
    assert_string_equal(got->source, HASH);
    assert_string_equal(got->state, "parked");
    assert_string_equal(got->params, second.params);
    assert_string_equal(got->result, second.result);
    assert_int_equal(got->created_ms, 5);
    assert_int_equal(got->updated_ms, 77);
    free(got);
    assert_int_equal(f->s->run_source(f->s, HASH, &text, &f->error), PAWL_OK);
    assert_string_equal(text, "return 1");
    free(text);
    assert_int_equal(f->s->run_source(f->s, OTHER, &text, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(f->s->run_get(f->s, "run_b", &got, &f->error), PAWL_E_NOT_FOUND);
}

static void what_cannot_be_is_refused(void **state)
{
    fixture *f = *state;
    store_run bad[6];
    for (int i = 0; i < 6; i++)
        bad[i] = a_run("run_a", "running");
    bad[0].id = "";
    bad[1].state = "asleep";
    bad[2].source = "abc";
    bad[3].params = NULL;
    bad[4].id = NULL;
    bad[5].state = NULL;
    for (int i = 0; i < 6; i++)
        assert_int_equal(put(f, bad[i], "x"), PAWL_E_ARGUMENT);
    assert_int_equal(put(f, a_run("run_a", "running"), NULL), PAWL_E_NOT_FOUND);
    char *large = malloc(STORE_MAX_VALUE + 2);
    memset(large, ' ', STORE_MAX_VALUE + 1);
    large[STORE_MAX_VALUE + 1] = '\0';
    bad[0] = a_run("run_a", "running");
    bad[0].result = large;
    assert_int_equal(put(f, bad[0], "x"), PAWL_E_LIMIT);
    assert_int_equal(put(f, a_run("run_a", "running"), "x"), PAWL_OK);
    assert_int_equal(add_step(f, "run_a", "k", large), PAWL_E_LIMIT);
    large[STORE_MAX_STEP_KEY + 1] = '\0';
    assert_int_equal(add_step(f, "run_a", large, "1"), PAWL_E_LIMIT);
    assert_int_equal(add_step(f, "run_b", "k", "1"), PAWL_E_NOT_FOUND);
    store_event event = {.seq = 0, .type = "t", .data = "1"};
    store_addition more = {.run = "run_a", .events = &event, .n_events = 1};
    assert_int_equal(add(f, more), PAWL_E_ARGUMENT);
    more.n_events = STORE_MAX_AT_ONCE + 1;
    assert_int_equal(add(f, more), PAWL_E_LIMIT);
    free(large);
}

static void steps_and_events(void **state)
{
    fixture *f = *state;
    char *value = NULL;
    store_event events[] = {{1, 10, "a", "1"}, {2, 20, "b", "\"x\""}, {7, 30, "c", "{}"}}, *got;
    store_run_size size;
    size_t n = 0;
    assert_int_equal(put(f, a_run("run_a", "running"), "x"), PAWL_OK);
    assert_int_equal(put(f, a_run("run_b", "running"), "x"), PAWL_OK);
    assert_int_equal(add(f, (store_addition){"run_a", "k", "[1]", 1, events, 3}), PAWL_OK);
    assert_int_equal(add_step(f, "run_b", "k", "2"), PAWL_OK);
    assert_int_equal(add_step(f, "run_a", "other", "{}"), PAWL_OK);
    assert_int_equal(add_step(f, "run_a", "k", "3"), PAWL_E_ARGUMENT); /* once */
    /* A write that is refused leaves nothing of itself. */
    store_event again = {7, 1, "d", "1"};
    assert_int_equal(add(f, (store_addition){"run_a", "new", "1", 1, &again, 1}), PAWL_E_ARGUMENT);
    reopen(f);
    assert_int_equal(f->s->run_step(f->s, "run_a", "k", &value, &f->error), PAWL_OK);
    assert_string_equal(value, "[1]");
    free(value);
    assert_int_equal(f->s->run_step(f->s, "run_a", "new", &value, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(f->s->run_events(f->s, "run_a", 1, 10, &got, &n, &f->error), PAWL_OK);
    assert_int_equal(n, 2);
    assert_true(got[0].seq == 2 && got[1].seq == 7 && got[1].at_ms == 30);
    assert_string_equal(got[0].type, "b");
    assert_string_equal(got[0].data, "\"x\"");
    free(got);
    assert_int_equal(f->s->run_events(f->s, "run_a", 0, 1, &got, &n, &f->error), PAWL_OK);
    assert_int_equal(n, 1);
    free(got);
    assert_int_equal(f->s->run_measure(f->s, "run_a", &size, &f->error), PAWL_OK);
    assert_true(size.n_steps == 2 && size.step_bytes == 1 + 3 + 5 + 2 && size.last_seq == 7);
}

static void old_events_go(void **state)
{
    fixture *f = *state;
    store_event *events = calloc(STORE_MAX_AT_ONCE, sizeof *events), *got = NULL;
    size_t n = 0;
    assert_int_equal(put(f, a_run("run_a", "running"), "x"), PAWL_OK);
    for (uint64_t from = 0; from < STORE_MAX_EVENTS + 1000; from += STORE_MAX_AT_ONCE) {
        for (uint64_t i = 0; i < STORE_MAX_AT_ONCE; i++)
            events[i] = (store_event){from + i + 1, 1, "t", "1"};
        store_addition more = {.run = "run_a", .events = events, .n_events = STORE_MAX_AT_ONCE};
        assert_int_equal(add(f, more), PAWL_OK);
    }
    assert_int_equal(f->s->run_events(f->s, "run_a", 0, 10, &got, &n, &f->error), PAWL_OK);
    assert_true(n == 10 && got[0].seq == 1001);
    free(got);
    free(events);
}

static void runs_are_listed_and_removed(void **state)
{
    fixture *f = *state;
    store_run *list = NULL, *got = NULL;
    char *text = NULL;
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        char id[] = "run_0";
        id[4] = (char)('0' + i);
        store_run run = a_run(id, i == 1 ? "done" : "running");
        run.created_ms = i;
        assert_int_equal(put(f, run, "x"), PAWL_OK);
    }
    assert_int_equal(add_step(f, "run_1", "k", "1"), PAWL_OK);
    assert_int_equal(f->s->run_list(f->s, NULL, 100, &list, &n, &f->error), PAWL_OK);
    assert_int_equal(n, 3);
    assert_string_equal(list[0].id, "run_2");
    assert_string_equal(list[1].state, "done");
    assert_string_equal(list[1].params, "");
    free(list);
    assert_int_equal(f->s->run_list(f->s, "done", 100, &list, &n, &f->error), PAWL_OK);
    assert_int_equal(n, 1);
    free(list);
    const char *ids[] = {"run_1", "run_0", "run_2"};
    for (int i = 0; i < 3; i++) {
        help_waiter w = HELP_WAITER;
        assert_int_equal(f->s->run_source(f->s, HASH, &text, &f->error), PAWL_OK);
        free(text);
        assert_int_equal(f->s->run_remove(f->s, ids[i], help_done, &w, &f->error), PAWL_OK);
        assert_int_equal(help_wait(&w, 1), PAWL_OK);
        assert_int_equal(f->s->run_remove(f->s, ids[i], help_done, &w, &f->error), PAWL_OK);
        assert_int_equal(help_wait(&w, 2), PAWL_E_NOT_FOUND);
    }
    assert_int_equal(f->s->run_get(f->s, "run_1", &got, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(f->s->run_step(f->s, "run_1", "k", &text, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(f->s->run_source(f->s, HASH, &text, &f->error), PAWL_E_NOT_FOUND);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {EACH(a_run_comes_back), EACH(what_cannot_be_is_refused),
                                       EACH(steps_and_events), EACH(old_events_go),
                                       EACH(runs_are_listed_and_removed)};
    int failed = 0;
    for (size_t i = 0; i < N_IMPLEMENTATIONS; i++) {
        tested = &implementations[i];
        failed += cmocka_run_group_tests_name(tested->name, tests, NULL, NULL);
    }
    return failed;
}
