/*
 * conversations_test.c - what store.h promises of conversations, on every
 * implementation of it.
 *
 * Another implementation joins by one line in contract.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "contract.h"

/* ------------------------------------------------------------------- short --- */

static store_conversation talk(const char *id)
{
    return (store_conversation){.id = id,
                                .tenant = "",
                                .metadata = "{}",
                                .tail = "[]",
                                .created_ms = 1000,
                                .updated_ms = 1000};
}

static pawl_status put_talk(fixture *f, const store_conversation *c)
{
    help_waiter w = HELP_WAITER;
    pawl_status status = f->s->conversation_put(f->s, c, help_done, &w, &f->error);
    return status ? status : help_wait(&w, 1);
}

static pawl_status remove_talk(fixture *f, const char *id)
{
    help_waiter w = HELP_WAITER;
    pawl_status status = f->s->conversation_remove(f->s, id, help_done, &w, &f->error);
    return status ? status : help_wait(&w, 1);
}

static void make(fixture *f, const char *id)
{
    store_conversation c = talk(id);
    assert_int_equal(put_talk(f, &c), PAWL_OK);
}

/* The conversation as it is stored; to be free()d. */
static store_conversation *read_talk(fixture *f, const char *id)
{
    store_conversation *c = NULL;
    assert_int_equal(f->s->conversation_get(f->s, id, &c, &f->error), PAWL_OK);
    return c;
}

static void expect_head(fixture *f, const char *id, const char *head)
{
    store_conversation *c = read_talk(f, id);
    if (head)
        assert_string_equal(c->head_id, head);
    else
        assert_null(c->head_id);
    free(c);
}

/* A response that follows the head of a conversation and becomes it. */
static pawl_status say(fixture *f, const char *talk_id, const char *id)
{
    store_conversation *c = read_talk(f, talk_id);
    store_response r = help_response(id, c->head_id);
    r.conversation_id = talk_id;
    r.conversation_revision = c->revision;
    pawl_status status = help_put(f->s, &r, &f->error);
    free(c);
    return status;
}

static void put(fixture *f, const char *id, const char *parent_id)
{
    store_response r = help_response(id, parent_id);
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_OK);
}

static void fork_of(fixture *f, const char *id, const char *head)
{
    store_conversation c = talk(id);
    c.head_id = head;
    assert_int_equal(put_talk(f, &c), PAWL_OK);
}

static bool has(fixture *f, const char *id)
{
    return help_has(f->s, id, 0);
}

static bool is_kept(fixture *f, const char *id)
{
    return help_has(f->s, id, STORE_GET_REMOVED) && !has(f, id);
}

/* ------------------------------------------------------------------- tests --- */

static void comes_back(void **state)
{
    fixture *f = *state;
    put(f, "r", NULL);
    store_conversation c = {.id = "conv_a",
                            .tenant = "anna",
                            .title = "T\xC3\xA4glich",
                            .metadata = "{\"k\":\"'; DROP TABLE conversation; --\"}",
                            .tail = "[{\"type\":\"message\"}]",
                            .base_id = "r",
                            .created_ms = 12,
                            .updated_ms = INT64_MAX};
    assert_int_equal(put_talk(f, &c), PAWL_OK);
    for (int pass = 0; pass < 2; pass++) {
        store_conversation *got = read_talk(f, "conv_a");
        assert_string_equal(got->id, c.id);
        assert_string_equal(got->tenant, c.tenant);
        assert_string_equal(got->title, c.title);
        assert_string_equal(got->metadata, c.metadata);
        assert_string_equal(got->tail, c.tail);
        assert_string_equal(got->base_id, "r");
        assert_null(got->head_id);
        assert_int_equal(got->created_ms, 12);
        assert_true(got->updated_ms == INT64_MAX);
        assert_int_equal(got->revision, 1);
        free(got);
        reopen(f);
    }
}

static void refuses_what_cannot_be(void **state)
{
    fixture *f = *state;
    char long_text[600];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    store_conversation bad[6];
    for (int i = 0; i < 6; i++)
        bad[i] = talk("conv_x");
    bad[0].id = "";
    bad[1].head_id = long_text;
    bad[2].head_id = bad[2].base_id = "r";
    bad[3].metadata = NULL;
    bad[4].tail = NULL;
    bad[5].title = long_text;
    for (int i = 0; i < 6; i++)
        assert_int_equal(f->s->conversation_put(f->s, &bad[i], NULL, NULL, &f->error),
                         i < 5 ? PAWL_E_ARGUMENT : PAWL_E_LIMIT);
    store_page page = {.tenant = "", .limit = STORE_MAX_PAGE + 1};
    store_conversation **list = NULL;
    size_t n = 0;
    assert_int_equal(f->s->conversation_list(f->s, &page, &list, &n, &f->error), PAWL_E_ARGUMENT);
    page.limit = 0;
    assert_int_equal(f->s->conversation_list(f->s, &page, &list, &n, &f->error), PAWL_E_ARGUMENT);
}

static void unknown_is_not_found(void **state)
{
    fixture *f = *state;
    store_conversation *got = NULL, c = talk("conv_a");
    c.revision = 1;
    assert_int_equal(f->s->conversation_get(f->s, "conv_a", &got, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(f->s->conversation_get(f->s, "", &got, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(put_talk(f, &c), PAWL_E_NOT_FOUND);
    assert_int_equal(remove_talk(f, "conv_a"), PAWL_E_NOT_FOUND);
    c.revision = 0;
    c.head_id = "nowhere";
    assert_int_equal(put_talk(f, &c), PAWL_E_NOT_FOUND);
    store_response r = help_response("r", NULL);
    r.conversation_id = "conv_a";
    r.conversation_revision = 1;
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_NOT_FOUND);
    assert_false(has(f, "r"));
}

static void a_change_must_know_the_latest(void **state)
{
    fixture *f = *state;
    make(f, "conv_a");
    store_conversation again = talk("conv_a");
    assert_int_equal(put_talk(f, &again), PAWL_E_ARGUMENT);
    store_conversation *read = read_talk(f, "conv_a");
    read->title = "one";
    assert_int_equal(put_talk(f, read), PAWL_OK);
    read->title = "two";
    assert_int_equal(put_talk(f, read), PAWL_E_BUSY);
    store_response r = help_response("r", NULL);
    r.conversation_id = "conv_a";
    r.conversation_revision = read->revision;
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_BUSY);
    assert_false(has(f, "r"));
    free(read);
    read = read_talk(f, "conv_a");
    assert_string_equal(read->title, "one");
    free(read);
}

static void a_response_becomes_the_head(void **state)
{
    fixture *f = *state;
    store_conversation c = talk("conv_a");
    c.tail = "[1]";
    assert_int_equal(put_talk(f, &c), PAWL_OK);
    assert_int_equal(say(f, "conv_a", "a"), PAWL_OK);
    assert_int_equal(say(f, "conv_a", "b"), PAWL_OK);
    reopen(f);
    store_conversation *got = read_talk(f, "conv_a");
    assert_string_equal(got->head_id, "b");
    assert_string_equal(got->tail, "[]");
    assert_int_equal(got->revision, 3);
    assert_true(got->updated_ms > got->created_ms);
    free(got);
    store_response *b = NULL;
    assert_int_equal(f->s->get(f->s, "b", 0, &b, &f->error), PAWL_OK);
    assert_string_equal(b->conversation_id, "conv_a");
    assert_string_equal(b->parent_id, "a");
    free(b);
}

/* Whatever does not follow the head does not move it. */
static void only_the_heads_child_follows(void **state)
{
    fixture *f = *state;
    make(f, "conv_a");
    assert_int_equal(say(f, "conv_a", "a"), PAWL_OK);
    store_conversation *c = read_talk(f, "conv_a");
    store_response r = help_response("b", NULL);
    r.conversation_id = "conv_a";
    r.conversation_revision = c->revision;
    free(c);
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_ARGUMENT);
    r.parent_id = "a";
    r.conversation_revision = 0; /* it failed, say: it is kept, and the head stays */
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_OK);
    expect_head(f, "conv_a", "a");
    assert_true(has(f, "b"));
}

static void a_removed_head_goes_on(void **state)
{
    fixture *f = *state;
    make(f, "conv_a");
    assert_int_equal(say(f, "conv_a", "a"), PAWL_OK);
    assert_int_equal(help_remove(f->s, "a", &f->error), PAWL_OK);
    assert_true(is_kept(f, "a"));
    store_response stray = help_response("x", "a");
    assert_int_equal(help_put(f->s, &stray, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(say(f, "conv_a", "b"), PAWL_OK);
    assert_true(is_kept(f, "a"));
    assert_int_equal(help_remove(f->s, "b", &f->error), PAWL_OK);
    /* An edit takes the head away: what was only kept for it goes. */
    store_conversation *c = read_talk(f, "conv_a");
    c->base_id = c->head_id;
    c->head_id = NULL;
    assert_int_equal(put_talk(f, c), PAWL_OK);
    free(c);
    assert_false(is_kept(f, "a") || is_kept(f, "b"));
    c = read_talk(f, "conv_a");
    assert_null(c->base_id);
    free(c);
}

static void removal_takes_what_only_it_used(void **state)
{
    fixture *f = *state;
    put(f, "root", NULL); /* made in no conversation: it stays whatever happens */
    fork_of(f, "conv_a", "root");
    assert_int_equal(say(f, "conv_a", "a"), PAWL_OK);
    assert_int_equal(say(f, "conv_a", "b"), PAWL_OK);
    fork_of(f, "conv_b", "a");
    assert_int_equal(say(f, "conv_a", "c"), PAWL_OK);
    store_response side = help_response("side", "a"); /* an abandoned reply */
    side.conversation_id = "conv_a";
    assert_int_equal(help_put(f->s, &side, &f->error), PAWL_OK);

    assert_int_equal(remove_talk(f, "conv_a"), PAWL_OK);
    assert_false(has(f, "c") || is_kept(f, "c"));
    assert_false(has(f, "b") || is_kept(f, "b"));
    assert_false(has(f, "side") || is_kept(f, "side"));
    assert_true(is_kept(f, "a")); /* conv_b's head */
    assert_int_equal(say(f, "conv_b", "d"), PAWL_OK);
    expect_head(f, "conv_b", "d");
    assert_int_equal(remove_talk(f, "conv_b"), PAWL_OK);
    assert_false(has(f, "d") || is_kept(f, "a"));
    assert_true(has(f, "root"));
}

static void descendants_outlive_a_conversation(void **state)
{
    fixture *f = *state;
    make(f, "conv_a");
    assert_int_equal(say(f, "conv_a", "a"), PAWL_OK);
    put(f, "child", "a"); /* by previous_response_id */
    assert_int_equal(remove_talk(f, "conv_a"), PAWL_OK);
    assert_true(is_kept(f, "a") && has(f, "child"));
    assert_int_equal(help_remove(f->s, "child", &f->error), PAWL_OK);
    assert_false(is_kept(f, "a"));
}

static size_t list_ids(fixture *f, const store_page *page, char *ids)
{
    store_conversation **list = NULL;
    size_t n = 0;
    assert_int_equal(f->s->conversation_list(f->s, page, &list, &n, &f->error), PAWL_OK);
    *ids = '\0';
    for (size_t i = 0; i < n; i++) {
        assert_null(list[i]->tail);
        strcat(ids, list[i]->id);
        free(list[i]);
    }
    free(list);
    return n;
}

static void pages_follow_each_other(void **state)
{
    fixture *f = *state;
    char ids[64];
    for (int i = 0; i < 6; i++) {
        char id[2] = {(char)('a' + i), '\0'};
        store_conversation c = talk(id);
        c.created_ms = 10 * (i / 2); /* two at each time: ids decide */
        c.updated_ms = 100 - i;
        c.tenant = i == 5 ? "other" : "";
        c.title = i == 1 || i == 3 || i == 5 ? "T" : NULL;
        assert_int_equal(put_talk(f, &c), PAWL_OK);
    }
    list_ids(f, &(store_page){.tenant = "", .limit = 9}, ids);
    assert_string_equal(ids, "edcba");
    list_ids(f, &(store_page){.tenant = "", .limit = 9, .ascending = true}, ids);
    assert_string_equal(ids, "abcde");
    list_ids(f, &(store_page){.tenant = "", .limit = 2, .after = "d"}, ids);
    assert_string_equal(ids, "cb");
    list_ids(f, &(store_page){.tenant = "", .limit = 2, .after = "b", .ascending = true}, ids);
    assert_string_equal(ids, "cd");
    list_ids(f, &(store_page){.tenant = "", .limit = 2, .after = "e", .ascending = true}, ids);
    assert_string_equal(ids, "");
    list_ids(f, &(store_page){.tenant = "", .limit = 9, .title = "T"}, ids);
    assert_string_equal(ids, "bd"); /* the one that changed last comes first */
    list_ids(f, &(store_page){.tenant = "other", .limit = 9}, ids);
    assert_string_equal(ids, "f");
    store_conversation **list = NULL;
    size_t n = 0;
    store_page strange = {.tenant = "", .limit = 9, .after = "f"};
    assert_int_equal(f->s->conversation_list(f->s, &strange, &list, &n, &f->error),
                     PAWL_E_NOT_FOUND);
}

/* A long chain is read without its tokens. */
static void texts_come_without_tokens(void **state)
{
    fixture *f = *state;
    store_response *got = NULL;
    put(f, "a", NULL);
    assert_int_equal(f->s->get(f->s, "a", STORE_GET_TEXTS, &got, &f->error), PAWL_OK);
    assert_int_equal(got->n_tokens, 0);
    assert_string_equal(got->input, help_response("a", NULL).input);
    free(got);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(comes_back),
        EACH(refuses_what_cannot_be),
        EACH(unknown_is_not_found),
        EACH(a_change_must_know_the_latest),
        EACH(a_response_becomes_the_head),
        EACH(only_the_heads_child_follows),
        EACH(a_removed_head_goes_on),
        EACH(removal_takes_what_only_it_used),
        EACH(descendants_outlive_a_conversation),
        EACH(pages_follow_each_other),
        EACH(texts_come_without_tokens),
    };
    int failed = 0;
    for (size_t i = 0; i < N_IMPLEMENTATIONS; i++) {
        tested = &implementations[i];
        failed += cmocka_run_group_tests_name(tested->name, tests, NULL, NULL);
    }
    return failed;
}
