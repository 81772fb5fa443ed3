/*
 * store_kill_test.c - the store's process is killed, again and again.
 *
 * A child writes and tells each done() over a pipe; the parent kills it with -9 at a
 * random moment and opens the folder itself: whatever was told is there, as it was
 * put, and the database is whole. The folder stays the same over all rounds.
 * PAWL_KILL_ROUNDS sets how many (20), PAWL_KILL_SEED their moments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include <sqlite3.h>

#include "base/log.h"
#include "store/sqlite_store.h"
#include "store_help.h"

enum {
    MAX_ROUNDS = 1000,
    MAX_WRITES = 4000, /* of one child                                  */
    REMOVED = 7,       /* every seventh is removed again after the next */
    MAX_WORDS = 20000
};

/* What the child tells: 'p' put, 'r' removed; fixed size, so that it is never split. */
typedef struct told {
    int32_t what;
    int32_t number;
} told;

typedef struct child_write {
    int pipe;
    told told;
} child_write;

static int setting(const char *name, int fallback)
{
    const char *text = getenv(name);
    int n = text ? atoi(text) : 0;
    return n > 0 ? n : fallback;
}

/* A response that follows from its number alone. Every third stands on the one
 * before. Its memory is the caller's `words`. */
static store_response response_of(int round, int number, char id[32], char parent[32],
                                  int32_t words[MAX_WORDS])
{
    snprintf(id, 32, "r%d_%d", round, number);
    snprintf(parent, 32, "r%d_%d", round, number - 1);
    store_response r = help_response(id, number % 3 == 2 ? parent : NULL);
    r.n_tokens = number % 10 == 0 ? MAX_WORDS : (uint64_t)(number * 37 % 500);
    r.n_prompt = r.n_tokens / 2;
    for (uint64_t i = 0; i < r.n_tokens; i++)
        words[i] = (int32_t)((uint32_t)number * 2654435761u + (uint32_t)i);
    r.tokens = words;
    r.created_ms = number;
    return r;
}

static void tell(void *arg, pawl_status status, const pawl_error *error)
{
    child_write *w = arg;
    (void)error;
    if (status != PAWL_OK || write(w->pipe, &w->told, sizeof w->told) != sizeof w->told)
        _exit(3);
}

/* Writes until it is killed. */
static void be_child(const char *folder, int round, int out)
{
    static child_write writes[2 * MAX_WRITES];
    static int32_t words[MAX_WORDS];
    char id[32], parent[32];
    store *s;
    if (sqlite_store_open(folder, &s, NULL) != PAWL_OK)
        _exit(2);
    for (int i = 0; i < MAX_WRITES; i++) {
        store_response r = response_of(round, i, id, parent, words);
        writes[2 * i] = (child_write){out, {'p', i}};
        writes[2 * i + 1] = (child_write){out, {'r', i - 1}};
        while (s->put(s, &r, tell, &writes[2 * i], NULL) == PAWL_E_BUSY)
            usleep(200);
        while (i % REMOVED == 1 && s->remove(s, parent, tell, &writes[2 * i + 1], NULL))
            usleep(200);
    }
    for (;;)
        pause();
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Notes what is told until the moment comes, kills, notes the rest. The moment is
 * counted from the start, when also opening is hit, or from what is told first. */
static void listen_and_kill(pid_t child, int in, int64_t moment_ms, bool from_start, bool put[],
                            bool removed[])
{
    bool killed = false, counting = from_start;
    int64_t end = now_ms() + moment_ms;
    for (;;) {
        int64_t left = counting ? end - now_ms() : 60000;
        if (left <= 0 && !killed) {
            kill(child, SIGKILL);
            killed = true;
        }
        struct pollfd ready = {.fd = in, .events = POLLIN};
        if (poll(&ready, 1, killed ? -1 : (int)left) == 0)
            continue;
        told one;
        if (read(in, &one, sizeof one) != sizeof one)
            break; /* the child's end is closed */
        if (!counting)
            end = now_ms() + moment_ms;
        counting = true;
        (one.what == 'p' ? put : removed)[one.number] = true;
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Returns how many that were told are there. */
static int check_round(store *s, int round, const bool put[], const bool removed[])
{
    static int32_t words[MAX_WORDS];
    char id[32], parent[32];
    int found = 0;
    for (int i = 0; i < MAX_WRITES; i++) {
        store_response *got = NULL, want = response_of(round, i, id, parent, words);
        if (removed[i])
            assert_false(help_has(s, id, 0));
        if (!put[i] || i % REMOVED == 0)
            continue;
        if (s->get(s, id, 0, &got, NULL) != PAWL_OK)
            fail_msg("%s was acknowledged and is lost", id);
        assert_int_equal(got->created_ms, i);
        assert_int_equal(got->n_tokens, want.n_tokens);
        assert_memory_equal(got->tokens, want.tokens, want.n_tokens * sizeof words[0]);
        assert_int_equal(got->parent_id != NULL, want.parent_id != NULL);
        free(got);
        found++;
    }
    return found;
}

static void assert_answer(sqlite3 *db, const char *pragma, const char *answer)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, pragma, -1, &statement, NULL), SQLITE_OK);
    int rc = sqlite3_step(statement);
    assert_int_equal(rc, answer ? SQLITE_ROW : SQLITE_DONE);
    if (answer)
        assert_string_equal((const char *)sqlite3_column_text(statement, 0), answer);
    sqlite3_finalize(statement);
}

static void assert_whole(const char *folder)
{
    char path[100];
    sqlite3 *db;
    snprintf(path, sizeof path, "%s/pawl.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_answer(db, "PRAGMA integrity_check", "ok");
    assert_answer(db, "PRAGMA foreign_key_check", NULL);
    sqlite3_close(db);
}

static void nothing_told_is_lost(void **state)
{
    (void)state;
    static bool put[MAX_ROUNDS][MAX_WRITES], removed[MAX_ROUNDS][MAX_WRITES];
    int rounds = setting("PAWL_KILL_ROUNDS", 20);
    unsigned seed = (unsigned)setting("PAWL_KILL_SEED", (int)(time(NULL) & 0xffffff));
    char folder[64];
    int told_of = 0;
    rounds = rounds > MAX_ROUNDS ? MAX_ROUNDS : rounds;
    print_message("%d rounds, PAWL_KILL_SEED=%u\n", rounds, seed);
    help_make_folder(folder);
    for (int round = 0; round < rounds; round++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork(); /* no store is open here, so there is one thread */
        if (child == 0) {
            close(ends[0]);
            be_child(folder, round, ends[1]);
        }
        close(ends[1]);
        listen_and_kill(child, ends[0], 5 + rand_r(&seed) % 120, round % 2 == 0, put[round],
                        removed[round]);
        close(ends[0]);
        store *s;
        pawl_error error;
        assert_int_equal(sqlite_store_open(folder, &s, &error), PAWL_OK);
        told_of += check_round(s, round, put[round], removed[round]);
        if (round)
            check_round(s, round - 1, put[round - 1], removed[round - 1]);
        s->close(s);
        assert_whole(folder);
    }
    print_message("%d responses were acknowledged and all are there\n", told_of);
    assert_true(told_of > rounds);
    help_remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_told_is_lost)};
    log_set_level(PAWL_LOG_WARN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
