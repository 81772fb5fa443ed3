/*
 * tests/unit/loader/child_test.c - children that answer, die, hang and babble.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/child.h"

#include "loader/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int answer(int argc, char **argv, int out)
{
    if (strcmp(argv[0], "die") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(argv[0], "hang") == 0)
        pause();
    if (strcmp(argv[0], "hang-silently") == 0) {
        close(out);
        close(STDOUT_FILENO);
        pause();
    }
    if (strcmp(argv[0], "babble") == 0)
        while (child_answer(out, "0123456789abcdef", 16))
            continue;
    puts("lost"); /* standard output leads nowhere */
    child_answer(out, argv[0], strlen(argv[0]));
    return argc;
}

static void begin(child *c, const char *word, int64_t limit_ms)
{
    char plugin[] = "plugin", command[] = "test", text[32];
    snprintf(text, sizeof text, "%s", word);
    char *words[] = {plugin, command, text, NULL};
    assert_int_equal(child_start(c, words, answer, limit_ms, NULL), PAWL_OK);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void ends(const char *word, const char *how, const char *output)
{
    child c;
    char text[160];
    begin(&c, word, 400);
    child_wait(&c, 1);
    assert_false(child_succeeded(&c, text, sizeof text));
    if (!strstr(text, how))
        fail_msg("%s: \"%s\"", word, text);
    if (output)
        assert_string_equal(buf_text(&c.output), output);
    child_clear(&c);
}

static void says_how_it_ended(void **state)
{
    (void)state;
    ends("one", "status 1", "one"); /* argc is 1 */
    ends("die", "SIGSEGV (Segmentation fault)", "");
    ends("hang", "no answer within 0 s", "");
    ends("hang-silently", "no answer within 0 s", "");
    ends("babble", "", NULL);
}

static void many_run_at_once(void **state)
{
    child children[5];
    char how[160];
    int64_t start = now_ms();
    (void)state;
    for (int i = 0; i < 5; i++)
        begin(&children[i], i == 2 ? "answer" : "hang", 300);
    child_wait(children, 5);
    assert_true(now_ms() - start < 1200);
    for (int i = 0; i < 5; i++) {
        child_succeeded(&children[i], how, sizeof how);
        assert_string_equal(buf_text(&children[i].output), i == 2 ? "answer" : "");
        assert_int_equal(children[i].timed_out, i != 2);
        child_clear(&children[i]);
    }
}

static void a_hanging_probe_is_ended(void **state)
{
    probe_task tasks[] = {{.library = PAWL_BUILD_DIR "/tests/plugins/crash.so", .interfaces = ""},
                          {.library = PAWL_BUILD_DIR "/tests/plugins/replay.so",
                           .interfaces = "pawl.engine/1 pawl.chat/1"},
                          {.library = "/nonexistent.so", .interfaces = ""}};
    (void)state;
    setenv("PAWL_TEST_CRASH", "hang", 1);
    probe_run(tasks, 3, 1000);
    unsetenv("PAWL_TEST_CRASH");
    assert_false(tasks[0].usable);
    assert_non_null(strstr(tasks[0].reason, "no answer within 1 s"));
    assert_true(tasks[1].usable);
    assert_string_equal(tasks[1].id, "dev.pawl.test.replay");
    assert_string_equal(tasks[1].missing, "pawl.chat/1");
    assert_int_equal(tasks[1].score, 1);
    assert_false(tasks[2].usable);
    assert_non_null(strstr(tasks[2].reason, "No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_it_ended),
        cmocka_unit_test(many_run_at_once),
        cmocka_unit_test(a_hanging_probe_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
