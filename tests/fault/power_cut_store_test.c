/*
 * power_cut_store_test.c - pawl.db after power cuts: every response whose done() was called is
 * there, every one that was removed is not, and the database is whole.
 *
 * PAWL_CUT_ROUNDS sets how many (20), PAWL_CUT_SEED their moments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <time.h>

#include <sqlite3.h>

#include "base/log.h"
#include "power_cut.h"
#include "store/sqlite_store.h"
#include "store_help.h"

enum { WRITES = 60, MAX_WORDS = 9000 };

/* What the store has said of one response. */
typedef struct history {
    help_waiter put, removed;
    bool asked_put, asked_removal;
} history;

static int setting(const char *name, int fallback)
{
    const char *text = getenv(name);
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : fallback;
}

static store_response response_of(int round, int i, char id[32], char parent[32],
                                  int32_t words[MAX_WORDS])
{
    snprintf(id, 32, "r%d_%d", round, i);
    snprintf(parent, 32, "r%d_%d", round, i - 1);
    store_response r = help_response(id, i % 4 == 3 ? parent : NULL);
    r.n_tokens = (uint64_t)(i % 7 == 0 ? MAX_WORDS : 10 + i);
    r.n_prompt = 1;
    for (uint64_t t = 0; t < r.n_tokens; t++)
        words[t] = (int32_t)((uint32_t)(round * 1000 + i) * 2654435761u + (uint32_t)t);
    r.tokens = words;
    return r;
}

/* Some one by one, some in groups; every ninth is removed again. */
static void write_until_dark(store *s, int round, history all[WRITES])
{
    char id[32], parent[32];
    static int32_t words[MAX_WORDS];
    for (int i = 0; i < WRITES; i++) {
        store_response r = response_of(round, i, id, parent, words);
        all[i] = (history){.put = HELP_WAITER, .removed = HELP_WAITER};
        all[i].asked_put = s->put(s, &r, help_done, &all[i].put, NULL) == PAWL_OK;
        if (i % 9 == 8)
            all[i].asked_removal = s->remove(s, id, help_done, &all[i].removed, NULL) == PAWL_OK;
        if (i % 3 == 0 && all[i].asked_put)
            help_wait(&all[i].put, 1);
    }
    for (int i = 0; i < WRITES; i++) {
        if (all[i].asked_put)
            help_wait(&all[i].put, 1);
        if (all[i].asked_removal)
            help_wait(&all[i].removed, 1);
    }
}

/* Returns how many were promised. */
static int check_promises(store *s, int round, const history all[WRITES])
{
    char id[32], parent[32];
    static int32_t words[MAX_WORDS];
    int promised = 0;
    for (int i = 0; i < WRITES; i++) {
        store_response want = response_of(round, i, id, parent, words), *got = NULL;
        if (all[i].asked_removal && all[i].removed.status == PAWL_OK)
            assert_false(help_has(s, id, 0));
        if (!all[i].asked_put || all[i].put.status != PAWL_OK || all[i].asked_removal)
            continue;
        if (s->get(s, id, 0, &got, NULL) != PAWL_OK)
            fail_msg("%s was promised and is lost", id);
        assert_int_equal(got->n_tokens, want.n_tokens);
        assert_memory_equal(got->tokens, want.tokens, want.n_tokens * sizeof words[0]);
        free(got);
        promised++;
    }
    return promised;
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

static void no_promise_is_broken(void **state)
{
    (void)state;
    static history all[WRITES];
    int rounds = setting("PAWL_CUT_ROUNDS", 20), promised = 0, cuts = 0, unflushed = 0;
    unsigned seed = (unsigned)setting("PAWL_CUT_SEED", (int)(time(NULL) & 0xffffff));
    char folder[64];
    print_message("%d rounds, PAWL_CUT_SEED=%u\n", rounds, seed);
    help_make_folder(folder);
    for (int round = 0; round < rounds; round++) {
        if (round % 4 == 3) { /* a new file has moments of its own */
            help_remove_folder(folder);
            help_make_folder(folder);
        }
        store *s;
        pawl_error error;
        memset(all, 0, sizeof all);
        power_cut_arm(1 + rand_r(&seed) % 300); /* opening takes about 20 */
        if (sqlite_store_open(folder, &s, &error) == PAWL_OK) {
            write_until_dark(s, round, all);
            s->close(s);
        }
        cuts += power_cut_happened();
        unflushed += power_cut_restore(&seed);
        if (sqlite_store_open(folder, &s, &error) != PAWL_OK)
            fail_msg("round %d: %s", round, error.message);
        promised += check_promises(s, round, all);
        s->close(s);
        assert_whole(folder);
        power_cut_restore(&seed); /* forgets the files; closing has flushed them */
    }
    print_message("%d cuts, %d writes had not been flushed, %d promises, all kept\n", cuts,
                  unflushed, promised);
    assert_true(cuts > rounds / 4 && promised > rounds);
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_promise_is_broken)};
    log_set_level(PAWL_LOG_ERROR + 1); /* dying disks complain */
    power_cut_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
