/*
 * tests/unit/script/child_test.c - limited child processes, and programs that resist.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/child.h"
#include "script/crew.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const environment[] = {("PATH=" CHILD_PATH), "LANG=C", NULL};

static child_spec a_spec(const char *const *argv)
{
    return (child_spec){.argv = argv,
                        .env = environment,
                        .in = child_input("hello", 5),
                        .stop_fd = -1,
                        .limits = {.wall_ms = 20000,
                                   .cpu_s = 10,
                                   .memory = 256u << 20,
                                   .file_bytes = 1 << 20,
                                   .files = 32,
                                   .processes = 64,
                                   .output = 1 << 20}};
}

/* Runs a line of shell, under the limits of a_spec() or those that are given. */
static child_result shell(const char *line, const child_limits *limits)
{
    const char *const argv[] = {"sh", "-c", line, NULL};
    child_spec spec = a_spec(argv);
    child_result result;
    if (limits)
        spec.limits = *limits;
    child_run(&spec, &result);
    close(spec.in);
    return result;
}

static child_limits limits_of_most(void)
{
    const char *const none[] = {NULL};
    child_spec spec = a_spec(none);
    close(spec.in);
    return spec.limits;
}

static void gives(const char *line, const char *output)
{
    child_result result = shell(line, NULL);
    if (result.end != CHILD_DONE || strcmp(buf_text(&result.output), output) != 0)
        fail_msg("%s\nend %d (%s), output: %s", line, result.end, result.why,
                 buf_text(&result.output));
    child_result_clear(&result);
}

static void ends(const char *line, const child_limits *limits, enum child_end end, const char *why)
{
    child_result result = shell(line, limits);
    if (result.end != end || !strstr(result.why, why))
        fail_msg("%s\nend %d, wanted %d: %s", line, result.end, end, result.why);
    child_result_clear(&result);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void it_reads_and_writes(void **state)
{
    (void)state;
    gives("cat", "hello");
    gives("echo out; echo err >&2", "out\n");
    gives("pwd; echo $HOME$USER$PAWL_API_KEY", "/\n\n");
    gives("exit 0", "");
}

static void how_it_ended(void **state)
{
    (void)state;
    const char *const absent[] = {"no-such-program-here", NULL};
    const char *const folder[] = {"/", NULL};
    child_spec spec = a_spec(absent);
    child_result result;
    child_run(&spec, &result);
    assert_int_equal(result.end, CHILD_ABSENT);
    child_result_clear(&result);
    spec.argv = folder;
    child_run(&spec, &result);
    assert_int_equal(result.end, CHILD_NOT_STARTED);
    child_result_clear(&result);
    close(spec.in);
    ends("printf 'first\\033[2J \\303\\244\\377\\nsecond\\n' >&2; exit 3", NULL, CHILD_FAILED,
         "first[2J \xC3\xA4\xEF\xBF\xBD");
    ends("exit 4", NULL, CHILD_FAILED, "status 4");
    ends("sleep 60",
         &(child_limits){.wall_ms = 200,
                         .cpu_s = 10,
                         .memory = 256u << 20,
                         .files = 32,
                         .processes = 64,
                         .output = 100},
         CHILD_TIMEOUT, "0.2 s");
    assert_true(child_exists("sh") && child_exists("/bin/sh") && !child_exists("no-such"));
}

static void nothing_of_ours_is_inherited(void **state)
{
    (void)state;
    int leak[2];
    assert_int_equal(pipe(leak), 0); /* without O_CLOEXEC */
    gives("ls /proc/self/fd | tr '\\n' ' '", "0 1 2 3 ");
    close(leak[0]);
    close(leak[1]);
    signal(SIGPIPE, SIG_IGN);
    gives("grep -c 'SigIgn:.0*$' /proc/self/status", "1\n");
    gives("grep -c 'SigBlk:.0*$' /proc/self/status", "1\n");
    gives("grep -c 'NoNewPrivs:.1$' /proc/self/status", "1\n");
}

static void limits_hold(void **state)
{
    (void)state;
    child_limits limits = limits_of_most();
    double begun = seconds();
    ends("yes", NULL, CHILD_TOO_LARGE, "1.0 MiB");
    limits.wall_ms = 500;
    ends("yes >&2", &limits, CHILD_TIMEOUT, "0.5 s");
    limits = limits_of_most();
    limits.cpu_s = 1;
    ends("while :; do :; done", &limits, CHILD_KILLED, "SIG");
    ends("exec sort -S 1G /dev/zero", NULL, CHILD_FAILED, "");
    ends("trap '' XFSZ; exec head -c 2000000 /dev/zero > /tmp/pawl-child-test", NULL, CHILD_FAILED,
         "too large");
    unlink("/tmp/pawl-child-test");
    gives("ulimit -c; ulimit -n", "0\n32\n");
    assert_true(seconds() - begun < 60);
}

static void there_is_no_network(void **state)
{
    (void)state;
    if (!child_exists("python3")) {
        print_message("SKIP: python3 is not there\n");
        return;
    }
    child_limits limits = limits_of_most();
    static const char connect[] =
        "exec python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 9), 1)'";
    ends(connect, &limits, CHILD_FAILED, "Traceback");
    gives("exec python3 -c 'import socket\ntry: socket.socket()\nexcept PermissionError: print(1)'",
          "1\n");
    gives("exec python3 -c 'import socket\ntry: socket.socket(socket.AF_UNIX)\n"
          "except PermissionError: print(1)'",
          "1\n");
    gives("exec python3 -c 'import socket; print(len(socket.socketpair()))'", "2\n");
    limits.network = true;
    child_result result = shell("exec python3 -c 'import socket; socket.socket()'", &limits);
    assert_int_equal(result.end, CHILD_DONE);
    child_result_clear(&result);
}

/* Sleepers that no other test, nor another run of this one, has: by how long they sleep. */
static int sleep_seconds(void)
{
    return 100000 + (int)getpid();
}

static int count_sleepers(void)
{
    char command[200], answer[32] = "";
    snprintf(command, sizeof command,
             "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'slee[p] %d' | wc -l",
             sleep_seconds());
    FILE *all = popen(command, "r");
    assert_non_null(all);
    assert_non_null(fgets(answer, sizeof answer, all));
    pclose(all);
    return atoi(answer);
}

/* Those that were killed may take a moment to go. */
static void no_sleeper_is_left(const char *line)
{
    int left = count_sleepers();
    for (int i = 0; left && i < 200; i++) {
        usleep(50000);
        left = count_sleepers();
    }
    if (left)
        fail_msg("%s\nleft %d processes behind", line, left);
}

/* What it started dies with it: in its group, and in a session of its own. */
static void nothing_is_left_behind(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "for i in 1 2 3 4 5 6 7 8; do sleep %d & done; echo begun",
        "setsid sleep %d 2>/dev/null & sleep 0.2; echo begun",
        "for i in 1 2 3 4 5 6 7 8; do sleep %d & done; echo begun; wait",
    };
    child_limits limits = limits_of_most();
    limits.wall_ms = 3000;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char line[200];
        double begun = seconds();
        snprintf(line, sizeof line, lines[i], sleep_seconds());
        child_result result = shell(line, &limits);
        assert_string_equal(buf_text(&result.output), "begun\n");
        assert_int_equal(result.end, i < 2 ? CHILD_DONE : CHILD_TIMEOUT);
        assert_true(seconds() - begun < 60); /* their hold on its output does not count */
        child_result_clear(&result);
        no_sleeper_is_left(line);
    }
    limits.processes = 1;
    ends("/bin/true; exit 7", &limits, CHILD_FAILED, "fork");
}

static void *stop_later(void *arg)
{
    const uint64_t one = 1;
    usleep(200000);
    assert_int_equal(write(*(int *)arg, &one, sizeof one), sizeof one);
    return NULL;
}

static void it_can_be_stopped(void **state)
{
    (void)state;
    const char *const argv[] = {"sleep", "100", NULL};
    child_spec spec = a_spec(argv);
    child_result result;
    pthread_t thread;
    spec.stop_fd = eventfd(0, EFD_CLOEXEC);
    pthread_create(&thread, NULL, stop_later, &spec.stop_fd);
    child_run(&spec, &result);
    pthread_join(thread, NULL);
    assert_int_equal(result.end, CHILD_STOPPED);
    child_result_clear(&result);
    close(spec.in);
    close(spec.stop_fd);
}

/* ------------------------------------------------------------- the crew */

static void run_true(void *work, int stop_fd)
{
    const char *const argv[] = {"echo", "x", NULL};
    child_spec spec = a_spec(argv);
    child_result result;
    spec.stop_fd = stop_fd;
    child_run(&spec, &result);
    *(enum child_end *)work = result.end;
    child_result_clear(&result);
    close(spec.in);
}

static void keep(void *work)
{
    (void)work;
}

static void many_at_once(void **state)
{
    (void)state;
    enum { N = 40 };
    enum child_end end[N];
    crew_job *jobs[N];
    crew *p = crew_open(4);
    pending_hub *hub = pending_hub_open(NULL, NULL);
    assert_non_null(p);
    for (int i = 0; i < N; i++) {
        end[i] = CHILD_ABSENT;
        jobs[i] = crew_start(p, hub, run_true, keep, &end[i]);
        assert_non_null(jobs[i]);
    }
    for (int i = 0; i < N / 2; i++) {
        while (!pending_ended(&jobs[i]->base))
            pending_hub_wait(hub, 1000);
        assert_int_equal(end[i], CHILD_DONE);
    }
    for (int i = 0; i < N; i++) /* the rest is given up: it is not begun, or stopped */
        pending_close(&jobs[i]->base);
    pending_hub_close(hub);
    crew_close(p);
}

/* Whether this process, from now on, can make no namespaces. */
static bool give_up_namespaces(void)
{
    if (unshare(CLONE_NEWUSER))
        return false;
    FILE *limit = fopen("/proc/sys/user/max_user_namespaces", "w");
    bool written = limit && fputs("0", limit) >= 0;
    return limit && fclose(limit) == 0 && written;
}

/* All of it twice: with namespaces, and in a process that is refused them. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_reads_and_writes),
        cmocka_unit_test(how_it_ended),
        cmocka_unit_test(nothing_of_ours_is_inherited),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(there_is_no_network),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(it_can_be_stopped),
        cmocka_unit_test(many_at_once),
    };
    int status = 0;
    pid_t plain = fork();
    if (plain == 0 && !give_up_namespaces()) {
        print_message("SKIP: this system does not let us do without namespaces\n");
        return 0;
    }
    if (plain == 0)
        return cmocka_run_group_tests_name("without namespaces", tests, NULL, NULL);
    waitpid(plain, &status, 0);
    return cmocka_run_group_tests_name("with namespaces", tests, NULL, NULL) || status;
}
