/*
 * loader/child.c - starting, reading, limiting and explaining child processes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/child.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_OUTPUT (1u << 20)
#define MAX_CHILDREN 256

extern char **environ;

/* ---- in the child ---- */

int child_begin(void)
{
    const struct rlimit none = {0, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &none);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (out < 0 || null < 0 || dup2(null, STDOUT_FILENO) < 0)
        return -1;
    close(null);
    return out;
}

bool child_answer(int out, const char *text, size_t size)
{
    while (size) {
        ssize_t n = write(out, text, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text += n;
        size -= (size_t)n;
    }
    return true;
}

/* ---- in the parent ---- */

/* Only `pawl` understands the words of argv. A binary that was replaced while it
 * runs reads as "pawl (deleted)" and can still be started. */
static bool own_binary_is_pawl(void)
{
    char path[4096];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return false;
    path[size] = '\0';
    const char *name = strrchr(path, '/');
    return name && (strcmp(name, "/pawl") == 0 || strcmp(name, "/pawl (deleted)") == 0);
}

static int spawn(pid_t *pid, char *const *argv, int to)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *words[64] = {(char *)(uintptr_t) "pawl"};
    for (size_t i = 0; argv[i] && i < 62; i++)
        words[i + 1] = argv[i];
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int failed = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

static void forked(char *const *argv, child_main run, int to)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int argc = 0;
    while (argv[argc])
        argc++;
    setpgid(0, 0);
    for (int s = 1; s < NSIG; s++)
        signal(s, SIG_DFL);
    dup2(null, STDIN_FILENO);
    dup2(null, STDERR_FILENO);
    dup2(to, STDOUT_FILENO);
    int out = child_begin();
    _exit(out < 0 ? 1 : run(argc - 2, (char **)(uintptr_t)argv + 2, out));
}

pawl_status child_start(child *c, char *const *argv, child_main run, int64_t limit_ms,
                        pawl_error *error)
{
    int ends[2];
    pid_t pid;
    int failed = 0;
    *c = (child){.fd = -1, .limit_ms = limit_ms};
    buf_init(&c->output, MAX_OUTPUT);
    if (pipe2(ends, O_CLOEXEC))
        return pawl_fail(error, PAWL_E_MEMORY, "no pipe: %s", strerror(errno));
    if (own_binary_is_pawl()) {
        failed = spawn(&pid, argv, ends[1]);
    } else {
        pid = fork();
        if (pid == 0)
            forked(argv, run, ends[1]);
        failed = pid < 0 ? errno : 0;
    }
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        return pawl_fail(error, PAWL_E_MEMORY, "no child process: %s", strerror(failed));
    }
    c->pid = pid;
    c->fd = ends[0];
    return PAWL_OK;
}

static int64_t now_ms(void)
{
    const base_clock *clock = clock_system();
    return clock->monotonic_ns(clock->context) / 1000000;
}

/* One read; at the end, or when it says too much, the pipe is closed. */
static void take_output(child *c)
{
    char block[4096];
    ssize_t n = read(c->fd, block, sizeof block);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0 || !buf_add(&c->output, block, (size_t)n)) {
        close(c->fd);
        c->fd = -1;
    }
}

/* Whoever closed its output is given the rest of the limit to end, in small steps:
 * there is no other way to wait for a process with a limit in plain POSIX. */
static void reap(child *c, int64_t deadline)
{
    const struct timespec step = {0, 1000000};
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    while (c->pid && waitpid(c->pid, &c->status, WNOHANG) == 0) {
        if (now_ms() >= deadline || c->output.failed) {
            c->timed_out = !c->output.failed;
            kill(-c->pid, SIGKILL);
            kill(c->pid, SIGKILL);
            waitpid(c->pid, &c->status, 0);
            break;
        }
        nanosleep(&step, NULL);
    }
    c->pid = 0;
}

void child_wait(child *children, size_t n)
{
    struct pollfd ends[MAX_CHILDREN];
    int64_t begin = now_ms();
    n = n < MAX_CHILDREN ? n : MAX_CHILDREN;
    for (size_t open = n; open;) {
        int64_t wait = INT32_MAX;
        open = 0;
        for (size_t i = 0; i < n; i++) {
            int64_t left = begin + children[i].limit_ms - now_ms();
            ends[i] = (struct pollfd){.fd = children[i].fd, .events = POLLIN};
            if (children[i].fd >= 0 && left <= 0)
                reap(&children[i], 0);
            if (children[i].fd < 0)
                continue;
            open++;
            wait = left < wait ? left : wait;
        }
        if (open && poll(ends, n, (int)wait) > 0)
            for (size_t i = 0; i < n; i++)
                if (children[i].fd >= 0 && ends[i].revents)
                    take_output(&children[i]);
    }
    for (size_t i = 0; i < n; i++)
        reap(&children[i], begin + children[i].limit_ms);
}

bool child_succeeded(const child *c, char *how, size_t size)
{
    how[0] = '\0';
    if (c->timed_out) {
        snprintf(how, size, "it gave no answer within %lld s and was killed",
                 (long long)c->limit_ms / 1000);
    } else if (WIFSIGNALED(c->status)) {
        int number = WTERMSIG(c->status);
        snprintf(how, size, "it died of signal %d, SIG%s (%s)", number, sigabbrev_np(number),
                 sigdescr_np(number));
    } else if (WEXITSTATUS(c->status)) {
        snprintf(how, size, "it ended its process with status %d", WEXITSTATUS(c->status));
    }
    return how[0] == '\0';
}

bool child_died(const child *c)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    if (c->timed_out)
        return true;
    for (size_t i = 0; WIFSIGNALED(c->status) && i < sizeof faults / sizeof *faults; i++)
        if (WTERMSIG(c->status) == faults[i])
            return true;
    return false;
}

void child_clear(child *c)
{
    reap(c, 0);
    buf_clear(&c->output);
}
