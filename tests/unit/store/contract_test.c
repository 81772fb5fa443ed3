/*
 * contract_test.c - what store.h promises, on every implementation of it.
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

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "contract.h"

static void put(fixture *f, const char *id, const char *parent_id)
{
    store_response r = help_response(id, parent_id);
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_OK);
}

static void assert_same(const store_response *a, const store_response *b)
{
    assert_string_equal(a->id, b->id);
    assert_int_equal(a->parent_id == NULL, b->parent_id == NULL);
    if (a->parent_id)
        assert_string_equal(a->parent_id, b->parent_id);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->status, b->status);
    assert_string_equal(a->request, b->request);
    assert_string_equal(a->input, b->input);
    assert_string_equal(a->output, b->output);
    assert_string_equal(a->result, b->result);
    assert_int_equal(a->created_ms, b->created_ms);
    assert_int_equal(a->completed_ms, b->completed_ms);
    assert_int_equal(a->n_prompt, b->n_prompt);
    assert_int_equal(a->n_tokens, b->n_tokens);
    if (a->n_tokens)
        assert_memory_equal(a->tokens, b->tokens, a->n_tokens * sizeof a->tokens[0]);
}

/* Every member comes back as it was put, also after the store was closed. */
static void comes_back(void **state)
{
    fixture *f = *state;
    char *large = malloc((5u << 20) + 1);
    memset(large, 'x', 5u << 20);
    large[5u << 20] = '\0';
    store_response list[] = {help_response("resp_a", NULL), help_response("resp_b", "resp_a"),
                             help_response("resp_c", "resp_b")};
    list[1].output = "[\"\xC3\xA4 \xF0\x9F\x98\x80 \\u0000 \\\" ' ; DROP TABLE response; --\"]";
    list[1].tokens = NULL;
    list[1].n_tokens = list[1].n_prompt = 0;
    list[1].status = "incomplete";
    list[2].input = large;
    list[2].request = list[2].model = "";
    list[2].created_ms = INT64_MIN;
    list[2].completed_ms = INT64_MAX;
    for (int i = 0; i < 3; i++)
        assert_int_equal(help_put(f->s, &list[i], &f->error), PAWL_OK);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 3; i++) {
            store_response *got = NULL;
            assert_int_equal(f->s->get(f->s, list[i].id, 0, &got, &f->error), PAWL_OK);
            assert_same(got, &list[i]);
            free(got);
        }
        reopen(f);
    }
    free(large);
}

static void refuses_what_cannot_be(void **state)
{
    fixture *f = *state;
    char long_id[66];
    memset(long_id, 'i', 65);
    long_id[65] = '\0';
    help_waiter w = HELP_WAITER;
    store_response bad[8];
    for (int i = 0; i < 8; i++)
        bad[i] = help_response("resp_x", NULL);
    bad[0].id = NULL;
    bad[1].id = "";
    bad[2].id = long_id;
    bad[3].parent_id = long_id;
    bad[4].n_prompt = 5;
    bad[5].tokens = NULL;
    bad[6].output = NULL;
    bad[7].model = NULL;
    for (int i = 0; i < 8; i++)
        assert_int_equal(f->s->put(f->s, &bad[i], help_done, &w, &f->error), PAWL_E_ARGUMENT);
    assert_int_equal(w.calls, 0);

    put(f, "resp_a", NULL);
    store_response again = help_response("resp_a", NULL), orphan = help_response("b", "nobody");
    assert_int_equal(help_put(f->s, &again, &f->error), PAWL_E_ARGUMENT);
    assert_non_null(strstr(f->error.message, "resp_a"));
    assert_int_equal(help_put(f->s, &orphan, &f->error), PAWL_E_NOT_FOUND);
    assert_non_null(strstr(f->error.message, "nobody"));
    store_response self = help_response("resp_s", "resp_s");
    assert_int_equal(help_put(f->s, &self, &f->error), PAWL_E_NOT_FOUND);
}

static void refuses_what_is_too_large(void **state)
{
    fixture *f = *state;
    const size_t most = (size_t)64 << 20;
    char *text = malloc(most + 2);
    memset(text, ' ', most + 1);
    text[most + 1] = '\0';
    store_response r = help_response("resp_a", NULL);
    r.output = text;
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_LIMIT);
    assert_non_null(strstr(f->error.message, "output"));
    text[most] = '\0'; /* exactly the most */
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_OK);
    store_response *got = NULL;
    assert_int_equal(f->s->get(f->s, "resp_a", 0, &got, &f->error), PAWL_OK);
    assert_int_equal(strlen(got->output), most);
    free(got);
    free(text);
    r = help_response("resp_b", NULL);
    r.n_tokens = ((uint64_t)16 << 20) + 1;
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_LIMIT);
    r.n_tokens = UINT64_MAX;
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_LIMIT);
}

static void unknown_is_not_found(void **state)
{
    fixture *f = *state;
    char hostile[5000];
    memset(hostile, 'x', sizeof hostile - 1);
    hostile[sizeof hostile - 1] = '\0';
    const char *const ids[] = {"resp_none", "", "' OR 1=1 --", "\xFF\xFE", hostile};
    store_response *got = NULL;
    put(f, "resp_a", NULL);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        assert_int_equal(f->s->get(f->s, ids[i], 1, &got, &f->error), PAWL_E_NOT_FOUND);
        assert_int_equal(help_remove(f->s, ids[i], &f->error), PAWL_E_NOT_FOUND);
    }
    assert_null(got);
    assert_true(help_has(f->s, "resp_a", 0));
}

/* a - b - c, b - d: a removed node is kept as long as something stands on it. */
static void removal_keeps_ancestors(void **state)
{
    fixture *f = *state;
    put(f, "a", NULL);
    put(f, "b", "a");
    put(f, "c", "b");
    put(f, "d", "b");
    assert_int_equal(help_remove(f->s, "b", &f->error), PAWL_OK);
    assert_false(help_has(f->s, "b", 0));
    assert_true(help_has(f->s, "b", 1));
    assert_int_equal(help_remove(f->s, "b", &f->error), PAWL_E_NOT_FOUND);
    store_response again = help_response("b", NULL), late = help_response("e", "b");
    assert_int_equal(help_put(f->s, &again, &f->error), PAWL_E_ARGUMENT);
    assert_int_equal(help_put(f->s, &late, &f->error), PAWL_E_NOT_FOUND);
    assert_int_equal(help_remove(f->s, "c", &f->error), PAWL_OK);
    assert_false(help_has(f->s, "c", 1));
    assert_true(help_has(f->s, "b", 1));
    reopen(f);
    assert_true(help_has(f->s, "b", 1));
    assert_int_equal(help_remove(f->s, "d", &f->error), PAWL_OK);
    assert_false(help_has(f->s, "d", 1));
    assert_false(help_has(f->s, "b", 1));
    assert_true(help_has(f->s, "a", 0));
    put(f, "b", "a"); /* its row is gone, so the id is free */
}

/* A whole chain that was removed from the root down goes when its leaf goes. */
static void removal_collects_a_chain(void **state)
{
    enum { LENGTH = 300 };
    fixture *f = *state;
    char id[16], parent[16];
    help_waiter w = HELP_WAITER;
    for (int i = 0; i < LENGTH; i++) {
        snprintf(id, sizeof id, "n%d", i);
        snprintf(parent, sizeof parent, "n%d", i - 1);
        store_response r = help_response(id, i ? parent : NULL);
        while (f->s->put(f->s, &r, help_done, &w, &f->error) == PAWL_E_BUSY)
            usleep(1000);
    }
    assert_int_equal(help_wait(&w, LENGTH), PAWL_OK);
    for (int i = 0; i < LENGTH - 1; i++) {
        snprintf(id, sizeof id, "n%d", i);
        while (f->s->remove(f->s, id, help_done, &w, &f->error) == PAWL_E_BUSY)
            usleep(1000);
    }
    assert_int_equal(help_wait(&w, 2 * LENGTH - 1), PAWL_OK);
    assert_true(help_has(f->s, "n0", 1));
    assert_false(help_has(f->s, "n0", 0));
    snprintf(id, sizeof id, "n%d", LENGTH - 1);
    assert_int_equal(help_remove(f->s, id, &f->error), PAWL_OK);
    for (int i = 0; i < LENGTH; i++) {
        snprintf(id, sizeof id, "n%d", i);
        assert_false(help_has(f->s, id, 1));
    }
}

typedef struct trail {
    atomic_int next;        /* how many were done                  */
    pawl_status status[16]; /* of each, in the order of done()     */
    int order[16];          /* which it was                        */
} trail;

typedef struct step {
    trail *trail;
    int which;
} step;

static void note(void *arg, pawl_status status, const pawl_error *error)
{
    step *s = arg;
    (void)error;
    int at = atomic_load(&s->trail->next);
    s->trail->status[at] = status;
    s->trail->order[at] = s->which;
    atomic_store(&s->trail->next, at + 1);
}

/* Writes that nobody waits for take effect, and are answered, in their order; one
 * that is refused does not take its neighbours with it. */
static void order_is_kept(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *put, *parent, *remove;
        pawl_status status;
    } script[] = {
        {"a", NULL, NULL, PAWL_OK},          {"b", "a", NULL, PAWL_OK},
        {"b", "a", NULL, PAWL_E_ARGUMENT},   {NULL, NULL, "a", PAWL_OK},
        {"c", "a", NULL, PAWL_E_NOT_FOUND},  {"d", "b", NULL, PAWL_OK},
        {NULL, NULL, "x", PAWL_E_NOT_FOUND}, {NULL, NULL, "d", PAWL_OK},
        {NULL, NULL, "b", PAWL_OK},          {"a", NULL, NULL, PAWL_OK},
    };
    enum { STEPS = sizeof script / sizeof script[0] };
    trail seen = {0};
    step steps[STEPS];
    for (int i = 0; i < STEPS; i++) {
        steps[i] = (step){&seen, i};
        store_response r = help_response(script[i].put, script[i].parent);
        pawl_status status = script[i].put
                                 ? f->s->put(f->s, &r, note, &steps[i], &f->error)
                                 : f->s->remove(f->s, script[i].remove, note, &steps[i], &f->error);
        assert_int_equal(status, PAWL_OK);
    }
    while (atomic_load(&seen.next) < STEPS)
        usleep(1000);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(seen.order[i], i);
        assert_int_equal(seen.status[i], script[i].status);
    }
    assert_false(help_has(f->s, "b", 1));
    assert_true(help_has(f->s, "a", 0));
}

typedef struct gate {
    pthread_mutex_t lock; /* held by the test: done() waits  */
    atomic_int done;
} gate;

static void wait_at_gate(void *arg, pawl_status status, const pawl_error *error)
{
    gate *g = arg;
    (void)status;
    (void)error;
    pthread_mutex_lock(&g->lock);
    pthread_mutex_unlock(&g->lock);
    atomic_fetch_add(&g->done, 1);
}

/* A full queue is an answer, at once; what was taken is done nevertheless. */
static void full_queue_is_busy(void **state)
{
    fixture *f = *state;
    gate g = {.lock = PTHREAD_MUTEX_INITIALIZER};
    char id[16];
    int taken = 0;
    pawl_status status = PAWL_OK;
    pthread_mutex_lock(&g.lock);
    while (taken < 100000) {
        snprintf(id, sizeof id, "n%d", taken);
        store_response r = help_response(id, NULL);
        status = f->s->put(f->s, &r, wait_at_gate, &g, &f->error);
        if (status)
            break;
        taken++;
    }
    assert_int_equal(status, PAWL_E_BUSY);
    assert_int_equal(f->s->remove(f->s, "n0", wait_at_gate, &g, &f->error), PAWL_E_BUSY);
    assert_int_equal(atomic_load(&g.done), 0);
    pthread_mutex_unlock(&g.lock);
    while (atomic_load(&g.done) < taken)
        usleep(1000);
    for (int i = 0; i < taken; i++) {
        snprintf(id, sizeof id, "n%d", i);
        assert_true(help_has(f->s, id, 0));
    }
    assert_false(help_has(f->s, "n100000", 0));
    put(f, "after", NULL);
}

typedef struct chain {
    store *s;
    help_waiter end;
    int length;
} chain;

static void put_next(void *arg, pawl_status status, const pawl_error *error)
{
    chain *c = arg;
    char id[16], parent[16];
    if (status || c->length == 20) {
        help_done(&c->end, status, error);
        return;
    }
    snprintf(id, sizeof id, "n%d", c->length);
    snprintf(parent, sizeof parent, "n%d", c->length - 1);
    store_response r = help_response(id, c->length++ ? parent : NULL);
    pawl_error refused;
    status = c->s->put(c->s, &r, put_next, c, &refused);
    if (status)
        help_done(&c->end, status, &refused);
}

static void done_may_put(void **state)
{
    fixture *f = *state;
    chain c = {.s = f->s, .end = HELP_WAITER};
    put_next(&c, PAWL_OK, NULL);
    assert_int_equal(help_wait(&c.end, 1), PAWL_OK);
    assert_true(help_has(f->s, "n19", 0));
}

static void done_is_optional(void **state)
{
    fixture *f = *state;
    store_response r = help_response("a", NULL);
    assert_int_equal(f->s->put(f->s, &r, NULL, NULL, &f->error), PAWL_OK);
    put(f, "b", "a");
    assert_int_equal(f->s->put(f->s, &r, NULL, NULL, NULL), PAWL_OK);
}

static void close_finishes_the_queue(void **state)
{
    fixture *f = *state;
    help_waiter w = HELP_WAITER;
    char id[16];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "n%d", i);
        store_response r = help_response(id, NULL);
        assert_int_equal(f->s->put(f->s, &r, help_done, &w, &f->error), PAWL_OK);
    }
    f->s->close(f->s);
    f->s = NULL;
    assert_int_equal(w.calls, 100);
    assert_int_equal(w.status, PAWL_OK);
    reopen(f);
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "n%d", i);
        assert_true(help_has(f->s, id, 0));
    }
}

enum { PLAYERS = 4, ROUNDS = 60 };

typedef struct player {
    store *s;
    int which;
    atomic_int *faults; /* what went wrong, of all of them */
} player;

/* Builds a chain, reads each node back as soon as it is done, removes some. */
static void *play(void *arg)
{
    player *p = arg;
    char id[32], parent[32] = "";
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(id, sizeof id, "p%d_%d", p->which, i);
        store_response r = help_response(id, parent[0] ? parent : NULL);
        if (help_put(p->s, &r, NULL) != PAWL_OK || !help_has(p->s, id, 0))
            atomic_fetch_add(p->faults, 1);
        if (i % 5 == 4 && (help_remove(p->s, parent, NULL) != PAWL_OK || help_has(p->s, parent, 0)))
            atomic_fetch_add(p->faults, 1);
        strcpy(parent, id);
    }
    return NULL;
}

static void *watch(void *arg)
{
    player *p = arg;
    char id[32];
    for (int i = 0; i < 2000; i++) {
        store_response *got = NULL;
        snprintf(id, sizeof id, "p%d_%d", i % PLAYERS, i % ROUNDS);
        pawl_status status = p->s->get(p->s, id, i % 2, &got, NULL);
        if (status ? status != PAWL_E_NOT_FOUND : strcmp(got->id, id) != 0)
            atomic_fetch_add(p->faults, 1);
        free(got);
    }
    return NULL;
}

static void threads_together(void **state)
{
    fixture *f = *state;
    atomic_int faults = 0;
    pthread_t threads[PLAYERS + 2];
    player players[PLAYERS + 2];
    for (int i = 0; i < PLAYERS + 2; i++) {
        players[i] = (player){f->s, i, &faults};
        assert_int_equal(pthread_create(&threads[i], NULL, i < PLAYERS ? play : watch, &players[i]),
                         0);
    }
    for (int i = 0; i < PLAYERS + 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&faults), 0);
    for (int p = 0; p < PLAYERS; p++) {
        char id[32];
        snprintf(id, sizeof id, "p%d_%d", p, ROUNDS - 1);
        assert_true(help_has(f->s, id, 0));
    }
}

/* A queued response is replaced by the one that it becomes; nothing else is. */
static void queued_is_replaced(void **state)
{
    fixture *f = *state;
    store_response *got = NULL;
    store_response r = help_response("resp_q", NULL);
    put(f, "resp_root", NULL);
    r.parent_id = "resp_root";
    r.status = STORE_QUEUED;
    for (int i = 0; i < 2; i++)
        assert_int_equal(help_put(f->s, &r, &f->error), PAWL_OK);
    r.status = "completed";
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_OK);
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_ARGUMENT);
    assert_int_equal(f->s->get(f->s, "resp_q", 0, &got, &f->error), PAWL_OK);
    assert_string_equal(got->status, "completed");
    assert_string_equal(got->parent_id, "resp_root");
    free(got);
}

static pawl_status answer_of(fixture *f, const char *tenant, const char *key, int64_t since,
                             const char *id)
{
    store_answer answer;
    pawl_status status = f->s->answer_find(f->s, tenant, key, since, &answer, &f->error);
    if (!status) {
        assert_string_equal(answer.response_id, id);
        assert_string_equal(answer.hash, "hash");
    }
    return status;
}

static void put_answer(fixture *f, const char *id, const char *tenant, const char *key,
                       int64_t when)
{
    store_response r = help_response(id, NULL);
    r.tenant = tenant;
    r.key = key;
    r.key_hash = "hash";
    r.completed_ms = when;
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_OK);
}

static void keys_have_answers(void **state)
{
    fixture *f = *state;
    int64_t now = 1000 * STORE_ANSWER_MS;
    put_answer(f, "resp_1", "a", "k", now);
    put_answer(f, "resp_2", "b", "k", now);
    put_answer(f, "resp_3", "a", "other ' key", now);
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(answer_of(f, "a", "k", now, "resp_1"), PAWL_OK);
        assert_int_equal(answer_of(f, "b", "k", now - 5, "resp_2"), PAWL_OK);
        assert_int_equal(answer_of(f, "a", "other ' key", 0, "resp_3"), PAWL_OK);
        assert_int_equal(answer_of(f, "", "k", 0, ""), PAWL_E_NOT_FOUND);
        assert_int_equal(answer_of(f, "a", "K", 0, ""), PAWL_E_NOT_FOUND);
        assert_int_equal(answer_of(f, "a", "k", now + 1, ""), PAWL_E_NOT_FOUND);
        reopen(f);
    }
    put_answer(f, "resp_4", "a", "k", now + 1); /* the later one counts */
    assert_int_equal(answer_of(f, "a", "k", 0, "resp_4"), PAWL_OK);
    assert_int_equal(help_remove(f->s, "resp_4", &f->error), PAWL_OK);
    assert_int_equal(answer_of(f, "a", "k", 0, ""), PAWL_E_NOT_FOUND);
    put_answer(f, "resp_5", "c", "k", now + STORE_ANSWER_MS + 1); /* the others are too old */
    assert_int_equal(answer_of(f, "b", "k", 0, ""), PAWL_E_NOT_FOUND);
    assert_int_equal(answer_of(f, "c", "k", 0, "resp_5"), PAWL_OK);
    assert_true(help_has(f->s, "resp_2", 0));
    char long_key[STORE_MAX_KEY + 2] = {0};
    memset(long_key, 'k', STORE_MAX_KEY + 1);
    store_response r = help_response("resp_6", NULL);
    r.key = long_key;
    r.key_hash = "hash";
    assert_int_equal(help_put(f->s, &r, &f->error), PAWL_E_LIMIT);
}

int main(void)
{
#define EACH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        EACH(comes_back),           EACH(refuses_what_cannot_be),   EACH(refuses_what_is_too_large),
        EACH(unknown_is_not_found), EACH(removal_keeps_ancestors),  EACH(removal_collects_a_chain),
        EACH(order_is_kept),        EACH(full_queue_is_busy),       EACH(done_may_put),
        EACH(done_is_optional),     EACH(close_finishes_the_queue), EACH(threads_together),
        EACH(queued_is_replaced),   EACH(keys_have_answers),
    };
    int failed = 0;
    for (size_t i = 0; i < N_IMPLEMENTATIONS; i++) {
        tested = &implementations[i];
        failed += cmocka_run_group_tests_name(tested->name, tests, NULL, NULL);
    }
    return failed;
}
