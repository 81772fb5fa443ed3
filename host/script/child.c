/*
 * script/child.c - another program, run once under limits. See child.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/child.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "script/child_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SAID 512 /* bytes of standard error that are kept        */
#define LOOK_MS 5    /* without a pidfd: how often we look for an end */

typedef struct running {
    const child_spec *spec;
    child_result *result;
    pid_t pid;
    int end_fd;   /* can be read once it has ended; -1: the kernel knows none */
    int out, err; /* we read these; -1: at their end                          */
    size_t n_said;
    char said[MAX_SAID + 1];
    bool decided; /* result.end is one that we brought about */
} running;

static int64_t now_ms(void)
{
    const base_clock *clock = clock_system();
    return clock->monotonic_ns(clock->context) / 1000000;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ------------------------------------------------------------- before */

/* Finds a program's file. */
static bool find_program(const char *name, char path[PATH_MAX])
{
    const char *folder = CHILD_PATH;
    if (strchr(name, '/')) {
        int n = snprintf(path, PATH_MAX, "%s", name);
        return n < PATH_MAX && access(path, X_OK) == 0;
    }
    while (*folder) {
        size_t size = strcspn(folder, ":");
        int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)size, folder, name);
        if (n < PATH_MAX && access(path, X_OK) == 0)
            return true;
        folder += size + (folder[size] == ':');
    }
    return false;
}

bool child_exists(const char *program)
{
    char path[PATH_MAX];
    return find_program(program, path);
}

int child_input(const void *data, size_t size)
{
    const char *at = data;
    int fd = memfd_create("input", MFD_CLOEXEC);
    while (fd >= 0 && size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += n;
        size -= (size_t)n;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

static void refuse(child_result *result, enum child_end end, const char *what, const char *why)
{
    result->end = end;
    snprintf(result->why, sizeof result->why, "%.150s: %s", what, why);
}

/* Starts it; false: the result says why not. */
static bool begin(running *r)
{
    char path[PATH_MAX];
    int out[2], err[2], failed = 0;
    const char *name = r->spec->argv[0];
    if (!find_program(name, path)) {
        refuse(r->result, CHILD_ABSENT, name, "there is no such program");
        return false;
    }
    if (pipe2(out, O_CLOEXEC)) {
        refuse(r->result, CHILD_NOT_STARTED, name, strerror(errno));
        return false;
    }
    if (pipe2(err, O_CLOEXEC)) {
        refuse(r->result, CHILD_NOT_STARTED, name, strerror(errno));
        close(out[0]);
        close(out[1]);
        return false;
    }
    r->pid = child_setup_start(r->spec, path, out[1], err[1], &failed);
    close(out[1]);
    close(err[1]);
    r->out = out[0];
    r->err = err[0];
    fcntl(r->out, F_SETFL, O_NONBLOCK);
    fcntl(r->err, F_SETFL, O_NONBLOCK);
    if (failed)
        refuse(r->result, CHILD_NOT_STARTED, name, strerror(failed));
#ifdef SYS_pidfd_open
    if (r->pid && !failed)
        r->end_fd = (int)syscall(SYS_pidfd_open, r->pid, 0);
#endif
    r->decided = failed != 0;
    return true;
}

/* ------------------------------------------------------------- meanwhile */

static void decide(running *r, enum child_end end)
{
    if (!r->decided)
        r->result->end = end;
    r->decided = true;
}

/* Reads what is there; at the end of the stream the descriptor becomes -1. */
static void take_output(running *r)
{
    char block[16384];
    ssize_t n;
    while (r->out >= 0 && !r->decided && (n = read(r->out, block, sizeof block)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return;
        if (!buf_add(&r->result->output, block, (size_t)n))
            decide(r, CHILD_TOO_LARGE);
    }
    close_fd(&r->out);
}

/* Bounded, so that one that floods its error stream does not keep us from the clock. */
static void take_said(running *r)
{
    char block[4096];
    for (int i = 0; i < 16 && r->err >= 0; i++) {
        ssize_t n = read(r->err, block, sizeof block);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return;
        if (n == 0)
            close_fd(&r->err);
        size_t room = MAX_SAID - r->n_said, more = (size_t)n < room ? (size_t)n : room;
        memcpy(r->said + r->n_said, block, more);
        r->n_said += more;
    }
}

static bool has_ended(const running *r)
{
    siginfo_t end = {.si_pid = 0};
    return waitid(P_PID, (id_t)r->pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid;
}

/* Until it has ended, or we have decided that it must. */
static void watch(running *r)
{
    int64_t deadline = now_ms() + r->spec->limits.wall_ms;
    while (!r->decided && !has_ended(r)) {
        struct pollfd fds[] = {{.fd = r->out, .events = POLLIN},
                               {.fd = r->err, .events = POLLIN},
                               {.fd = r->spec->stop_fd, .events = POLLIN},
                               {.fd = r->end_fd, .events = POLLIN}};
        int64_t left = deadline - now_ms();
        if (left <= 0) {
            decide(r, CHILD_TIMEOUT);
            break;
        }
        if (r->end_fd < 0 && left > LOOK_MS)
            left = LOOK_MS;
        if (poll(fds, 4, (int)(left < INT_MAX ? left : INT_MAX)) <= 0)
            continue;
        if (fds[2].revents)
            decide(r, CHILD_STOPPED);
        if (fds[0].revents)
            take_output(r);
        if (fds[1].revents)
            take_said(r);
    }
}

/* ------------------------------------------------------------- after */

/* The first line of what it said, as UTF-8 without control characters. */
static void first_line(const running *r, char line[CHILD_MAX_WHY])
{
    size_t size = strcspn(r->said, "\n"), n = 0;
    utf8_tail tail = {.size = 0};
    buf text;
    buf_init(&text, 4 * MAX_SAID);
    utf8_feed(&tail, r->said, size, &text);
    utf8_finish(&tail, &text);
    const char *from = buf_text(&text);
    for (; *from && n < CHILD_MAX_WHY - 40; from++)
        if ((unsigned char)*from >= ' ' && *from != 0x7f)
            line[n++] = *from;
    line[utf8_valid_prefix(line, n)] = '\0'; /* the last character may be cut */
    buf_clear(&text);
}

static void explain(running *r, int status)
{
    child_result *result = r->result;
    const child_limits *limits = &r->spec->limits;
    char line[CHILD_MAX_WHY], *why = result->why;
    first_line(r, line);
    if (!r->decided) {
        bool killed = WIFSIGNALED(status);
        result->status = killed ? WTERMSIG(status) : WEXITSTATUS(status);
        result->end = killed ? CHILD_KILLED : result->status ? CHILD_FAILED : CHILD_DONE;
    }
    switch (result->end) {
    case CHILD_FAILED:
        if (*line)
            snprintf(why, CHILD_MAX_WHY, "%s", line);
        else
            snprintf(why, CHILD_MAX_WHY, "it ended with status %d", result->status);
        return;
    case CHILD_KILLED:
        snprintf(why, CHILD_MAX_WHY, "it died of SIG%s%s%.200s", sigabbrev_np(result->status),
                 *line ? ": " : "", line);
        return;
    case CHILD_TIMEOUT:
        snprintf(why, CHILD_MAX_WHY, "it took longer than its %.1f s",
                 (double)limits->wall_ms / 1000);
        return;
    case CHILD_TOO_LARGE:
        snprintf(why, CHILD_MAX_WHY, "it wrote more than its %.1f MiB",
                 (double)limits->output / (1 << 20));
        return;
    case CHILD_STOPPED:
        snprintf(why, CHILD_MAX_WHY, "it was cancelled");
        return;
    default:
        return;
    }
}

void child_run(const child_spec *spec, child_result *result)
{
    running r = {.spec = spec, .result = result, .end_fd = -1, .out = -1, .err = -1};
    int status = 0;
    *result = (child_result){.end = CHILD_DONE};
    buf_init(&result->output, spec->limits.output);
    if (!begin(&r))
        return;
    if (r.pid) {
        watch(&r);
        kill(-r.pid, SIGKILL); /* its group, before its number can be another's */
        kill(r.pid, SIGKILL);
        while (waitpid(r.pid, &status, 0) < 0 && errno == EINTR)
            ;
        take_output(&r);
        take_said(&r);
        explain(&r, status);
    }
    close_fd(&r.out);
    close_fd(&r.err);
    close_fd(&r.end_fd);
}

void child_result_clear(child_result *result)
{
    buf_clear(&result->output);
}
