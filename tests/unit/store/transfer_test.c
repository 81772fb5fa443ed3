/*
 * transfer_test.c - out of one store and into another: the same; and what an import refuses.
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
#include "store/transfer.h"
#include "store_help.h"

#define ITEMS "[{\"type\":\"message\",\"id\":\"msg_1\",\"text\":\"\xC3\xA4\\n\\\"\"}]"

typedef struct fixture {
    char folder[64], other[64];
    pawl_error error;
} fixture;

static const int32_t timeline[] = {5, 6, 7, 8, 9, 2147483647};

/* A response of the first n tokens. */
static store_response response(const char *id, const char *parent, uint64_t n)
{
    store_response r = help_response(id, parent);
    r.request = "{\"model\":\"m\",\"conversation\":{\"id\":\"conv_a\"}}";
    r.input = ITEMS;
    r.output = "[]";
    r.tokens = timeline;
    r.n_tokens = n;
    r.n_prompt = n ? n - 1 : 0;
    return r;
}

static void put_talk(store *s, const store_conversation *c)
{
    help_waiter w = HELP_WAITER;
    assert_int_equal(s->conversation_put(s, c, help_done, &w, NULL), PAWL_OK);
    assert_int_equal(help_wait(&w, 1), PAWL_OK);
}

/* a ── b ── c in conv_a, whose head is c; side, removed and needed by `on`; conv_b edited. */
static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    store *s;
    help_make_folder(f->folder);
    help_make_folder(f->other);
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    store_conversation a = {.id = "conv_a",
                            .title = "A",
                            .metadata = "{\"title\":\"A\"}",
                            .tail = "[]",
                            .created_ms = 7};
    put_talk(s, &a);
    const char *ids[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        store_response r = response(ids[i], i ? ids[i - 1] : NULL, (uint64_t)(2 + 2 * i));
        r.conversation_id = "conv_a";
        r.conversation_revision = (uint64_t)(1 + i);
        assert_int_equal(help_put(s, &r, &f->error), PAWL_OK);
    }
    store_response side = response("side", NULL, 3), on = response("on", "side", 0);
    assert_int_equal(help_put(s, &side, &f->error), PAWL_OK);
    assert_int_equal(help_put(s, &on, &f->error), PAWL_OK);
    assert_int_equal(help_remove(s, "side", &f->error), PAWL_OK);
    store_conversation b = {
        .id = "conv_b", .metadata = "{}", .tail = ITEMS, .base_id = "b", .created_ms = 8};
    put_talk(s, &b);
    s->close(s);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    help_remove_folder(f->folder);
    help_remove_folder(f->other);
    free(f);
    return 0;
}

/* The export of a folder as a text, to be free()d. */
static char *export_of(fixture *f, const char *folder, const char *conversation)
{
    char *text = NULL;
    size_t size = 0;
    transfer_counts n;
    FILE *to = open_memstream(&text, &size);
    if (transfer_export(folder, conversation, to, &n, &f->error) != PAWL_OK)
        fail_msg("%s", f->error.message);
    fclose(to);
    return text;
}

static pawl_status import_text(fixture *f, const char *text, bool new_ids)
{
    transfer_counts n;
    FILE *from = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    pawl_status status = transfer_import(f->other, from, new_ids, &n, &f->error);
    fclose(from);
    return status;
}

/* Behind the header, which says when. */
static const char *body_of(const char *text)
{
    return strchr(text, '\n') + 1;
}

static void comes_back_the_same(void **state)
{
    fixture *f = *state;
    char *one = export_of(f, f->folder, NULL);
    assert_non_null(strstr(one, "\"same\":4,\"tokens\":[9,2147483647]"));
    assert_int_equal(import_text(f, one, false), PAWL_OK);
    char *two = export_of(f, f->other, NULL);
    assert_string_equal(body_of(one), body_of(two));
    store *s;
    store_response *c = NULL;
    assert_int_equal(sqlite_store_open(f->other, &s, &f->error), PAWL_OK);
    assert_int_equal(s->get(s, "c", 0, &c, &f->error), PAWL_OK);
    assert_int_equal(c->n_tokens, 6);
    assert_memory_equal(c->tokens, timeline, sizeof timeline);
    assert_string_equal(c->input, ITEMS);
    assert_true(help_has(s, "side", STORE_GET_REMOVED) && !help_has(s, "side", 0));
    free(c);
    s->close(s);
    /* A second time its ids exist; nothing changes. */
    assert_int_equal(import_text(f, one, false), PAWL_E_ARGUMENT);
    assert_non_null(strstr(f->error.message, "line 2: "));
    char *three = export_of(f, f->other, NULL);
    assert_string_equal(body_of(two), body_of(three));
    free(one);
    free(two);
    free(three);
}

/* One that was accepted and not ended has failed, for whoever reads the lines. */
static void queued_becomes_failed(void **state)
{
    fixture *f = *state;
    store *s;
    assert_int_equal(sqlite_store_open(f->folder, &s, &f->error), PAWL_OK);
    store_response q = response("q", "c", 0);
    q.status = STORE_QUEUED;
    assert_int_equal(help_put(s, &q, &f->error), PAWL_OK);
    s->close(s);
    char *text = export_of(f, f->folder, NULL);
    assert_null(strstr(text, "\"status\":\"" STORE_QUEUED "\""));
    assert_int_equal(import_text(f, text, false), PAWL_OK);
    store_response *got = NULL;
    assert_int_equal(sqlite_store_open(f->other, &s, &f->error), PAWL_OK);
    assert_int_equal(s->get(s, "q", 0, &got, &f->error), PAWL_OK);
    assert_string_equal(got->status, "failed");
    free(got);
    s->close(s);
    free(text);
}

static void new_ids_follow_their_links(void **state)
{
    fixture *f = *state;
    char *one = export_of(f, f->folder, NULL);
    assert_int_equal(import_text(f, one, false), PAWL_OK);
    assert_int_equal(import_text(f, one, true), PAWL_OK);
    free(one);
    store *s;
    store_conversation **list = NULL;
    size_t n = 0;
    assert_int_equal(sqlite_store_open(f->other, &s, &f->error), PAWL_OK);
    store_page page = {.title = "A", .limit = 9};
    assert_int_equal(s->conversation_list(s, &page, &list, &n, &f->error), PAWL_OK);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < 2; i++) {
        store_response *head = NULL;
        assert_int_equal(s->get(s, list[i]->head_id, 0, &head, &f->error), PAWL_OK);
        assert_string_equal(head->conversation_id, list[i]->id);
        assert_non_null(strstr(head->request, list[i]->id)); /* the echo, too */
        assert_memory_equal(head->tokens, timeline, sizeof timeline);
        free(head);
        free(list[i]);
    }
    free(list);
    s->close(s);
}

static void one_conversation_alone(void **state)
{
    fixture *f = *state;
    char *one = export_of(f, f->folder, "conv_b");
    assert_non_null(strstr(one, "\"responses\":2,\"conversations\":1")); /* a, b */
    assert_int_equal(import_text(f, one, false), PAWL_OK);
    free(one);
    /* Its responses were made in conv_a, which did not come along. */
    store *s;
    store_response *b = NULL;
    assert_int_equal(sqlite_store_open(f->other, &s, &f->error), PAWL_OK);
    assert_int_equal(s->get(s, "b", 0, &b, &f->error), PAWL_OK);
    assert_null(b->conversation_id);
    free(b);
    s->close(s);
    transfer_counts n;
    FILE *to = fopen("/dev/null", "w");
    assert_int_equal(transfer_export(f->folder, "conv_x", to, &n, &f->error), PAWL_E_NOT_FOUND);
    fclose(to);
}

#define HEADER "{\"pawl_export\":1,\"created_ms\":1}\n"
#define REST                                                                                       \
    ",\"model\":\"m\",\"status\":\"completed\",\"created_ms\":1,\"completed_ms\":2,\"request\":{}" \
    ","                                                                                            \
    "\"result\":{},\"input\":[],\"output\":[]"
#define RESPONSE(id, parent, tail)                                                                 \
    "{\"type\":\"response\",\"id\":\"" id "\",\"parent\":" parent ",\"tenant\":\"\"" REST tail "}" \
    "\n"
#define TOKENS ",\"n_prompt\":1,\"same\":0,\"tokens\":[1,2]"
#define TALK(id, more)                                                                             \
    "{\"type\":\"conversation\",\"id\":\"" id                                                      \
    "\",\"tenant\":\"\",\"title\":\"\",\"created_ms\":1,"                                          \
    "\"updated_ms\":1,\"metadata\":{},\"tail\":[]" more "}\n"
#define END(r, c) "{\"type\":\"end\",\"responses\":" r ",\"conversations\":" c "}\n"

static void what_is_refused(void **state)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"\n", "line 1: "},
        {"{}\n", "line 1: 'type'"},
        {END("0", "0"), "line 1: this is no export"},
        {"{\"pawl_export\":2}\n", "version 2"},
        {"{\"pawl_export\":\"x\"}\n", "'pawl_export'"},
        {HEADER, "line 2: the end is missing"},
        {HEADER HEADER, "line 2: a second header"},
        {HEADER "[]\n", "line 2: a line must be"},
        {HEADER "{\"type\":\"response\"", "line 2: "},
        {HEADER END("1", "0"), "1 responses"},
        {HEADER END("0", "0") END("0", "0"), "after the end"},
        {HEADER RESPONSE("r", "null", TOKENS) END("0", "0"), "line 3: "},
        {HEADER RESPONSE("", "null", TOKENS) END("1", "0"), "an id has"},
        {HEADER RESPONSE("r", "7", TOKENS) END("1", "0"), "'parent'"},
        {HEADER RESPONSE("r", "\"p\"", TOKENS) END("1", "0"), "its parent p is not"},
        {HEADER RESPONSE("r", "\"a\"", TOKENS) END("1", "0"), "its parent a is not"},
        {HEADER RESPONSE("r", "null", TOKENS) RESPONSE("r", "null", TOKENS), "line 3: the id r"},
        {HEADER RESPONSE("r", "null", ",\"n_prompt\":3,\"same\":0,\"tokens\":[1]"), "'n_prompt'"},
        {HEADER RESPONSE("r", "null", ",\"n_prompt\":0,\"same\":1,\"tokens\":[1]"), "'same'"},
        {HEADER RESPONSE("r", "null", ",\"n_prompt\":0,\"same\":0,\"tokens\":[1.5]"), "tokens[0]"},
        {HEADER RESPONSE("r", "null", ",\"n_prompt\":0,\"same\":0,\"tokens\":[1,-1]"), "tokens[1]"},
        {HEADER RESPONSE("r", "null", ",\"n_prompt\":0,\"same\":0,\"tokens\":[3e9]"), "tokens[0]"},
        {HEADER RESPONSE("r", "null", ",\"n_prompt\":0,\"same\":0,\"tokens\":{}"), "'tokens'"},
        {HEADER RESPONSE("r", "null", TOKENS)
             RESPONSE("s", "\"r\"", ",\"n_prompt\":0,\"same\":3,\"tokens\":[]"),
         "line 3: 'same' is more"},
        {HEADER RESPONSE("r", "null", TOKENS ",\"removed\":1"), "'removed'"},
        {HEADER "{\"type\":\"response\",\"id\":\"r\",\"tenant\":\"\",\"model\":\"m\",\"status\":"
                "\"done\"}\n",
         "'status'"},
        {HEADER "{\"type\":\"response\",\"id\":\"r\",\"tenant\":\"x\"" REST TOKENS
                "}\n" RESPONSE("s", "\"r\"", TOKENS),
         "line 3: its parent is another"},
        {HEADER TALK("c", ",\"head\":\"r\""), "its head r is not"},
        {HEADER TALK("c", ",\"base\":\"r\""), "its base r is not"},
        {HEADER RESPONSE("r", "null", TOKENS) TALK("c", ",\"head\":\"r\",\"base\":\"r\""),
         "line 3: a conversation with a head"},
        {HEADER TALK("c", "") TALK("c", ""), "line 3: there is a stored conversation c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture *f = *state;
        if (import_text(f, cases[i].text, false) == PAWL_OK)
            fail_msg("accepted: %s", cases[i].text);
        if (!strstr(f->error.message, cases[i].says))
            fail_msg("%s\n  said %s\n  wanted %s", cases[i].text, f->error.message, cases[i].says);
        char *left = export_of(f, f->other, NULL);
        assert_non_null(strstr(left, "\"responses\":0,\"conversations\":0"));
        free(left);
    }
}

/* What is said here belongs to nobody who comes with a file. */
static void a_stranger_cannot_join(void **state)
{
    fixture *f = *state;
    char *one = export_of(f, f->folder, NULL);
    assert_int_equal(import_text(f, one, false), PAWL_OK);
    free(one);
    assert_int_equal(import_text(f, HEADER RESPONSE("evil", "\"c\"", TOKENS) END("1", "0"), false),
                     PAWL_E_FORMAT);
    assert_int_equal(import_text(f, HEADER TALK("evil", ",\"head\":\"c\"") END("0", "1"), false),
                     PAWL_E_FORMAT);
    /* A response that says it was made in conv_a is not conv_a's. */
    assert_int_equal(
        import_text(
            f, HEADER RESPONSE("evil", "null", TOKENS ",\"conversation\":\"conv_a\"") END("1", "0"),
            false),
        PAWL_OK);
    store *s;
    help_waiter w = HELP_WAITER;
    assert_int_equal(sqlite_store_open(f->other, &s, &f->error), PAWL_OK);
    assert_int_equal(s->conversation_remove(s, "conv_a", help_done, &w, &f->error), PAWL_OK);
    assert_int_equal(help_wait(&w, 1), PAWL_OK);
    assert_true(help_has(s, "evil", 0));
    s->close(s);
}

static void a_held_folder_is_refused(void **state)
{
    fixture *f = *state;
    store *s;
    char pid[24];
    char *one = export_of(f, f->folder, NULL);
    assert_int_equal(sqlite_store_open(f->other, &s, &f->error), PAWL_OK);
    assert_int_equal(import_text(f, one, false), PAWL_E_BUSY);
    snprintf(pid, sizeof pid, "process %ld;", (long)getpid());
    assert_non_null(strstr(f->error.message, pid));
    s->close(s);
    free(one);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(comes_back_the_same),
        EACH(queued_becomes_failed),
        EACH(new_ids_follow_their_links),
        EACH(one_conversation_alone),
        EACH(what_is_refused),
        EACH(a_stranger_cannot_join),
        EACH(a_held_folder_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
