/*
 * script/child_setup.c - the first moments of a child process. See child_setup.h.
 *
 * The process is made by clone() as vfork() would: it runs on our memory, and the thread that
 * made it waits until it has become another program. fork() would copy the page tables of a
 * process that holds models, and make each of its threads pay for the pages it touches next.
 * So the code that runs in the child calls the kernel and touches nothing but its setup.
 *
 * It is confined twice, and where the kernel refuses one the other remains:
 *
 *   namespaces  of users, processes, network, IPC: there is no interface but a loopback that
 *               is down, and what it starts dies with it, whatever session it moves to
 *   a filter    of system calls: no sockets, no tracing of others, no further namespaces;
 *               without namespaces no leaving of the process group, which then is what is killed
 *
 * Where neither is to be had the program is not started.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/child_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#define OTHER_ABI 0x40000000u /* system calls of x32 */
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#define OTHER_ABI UINT32_MAX
#endif

/* ThreadSanitizer takes clone() for fork(), and must not find the child's notes in its own. */
#if defined(__SANITIZE_THREAD__)
#define SHARED_MEMORY 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHARED_MEMORY 0
#endif
#endif
#ifndef SHARED_MEMORY
#define SHARED_MEMORY CLONE_VM
#endif

#define STACK_BYTES (64u << 10)
#define MAX_FILTER 96
#define SPACES (CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC)

typedef struct filter {
    struct sock_filter code[MAX_FILTER];
    unsigned short n;
} filter;

typedef struct setup {
    const child_spec *spec;
    const char *path;
    int out, err;
    bool spaces;
    filter filter;
    int failed; /* written by the child: errno; 0: it is the program now */
} setup;

/* ------------------------------------------------------------- the filter */

#ifdef THIS_ARCH
static void add(filter *f, uint16_t code, uint8_t yes, uint8_t no, uint32_t value)
{
    f->code[f->n++] = (struct sock_filter){.code = code, .jt = yes, .jf = no, .k = value};
}

static void deny(filter *f, long number, uint32_t with)
{
    add(f, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)number);
    add(f, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | with);
}

static void make_filter(filter *f, const child_limits *limits, bool spaces)
{
    static const long never[] = {SYS_ptrace,
                                 SYS_process_vm_readv,
                                 SYS_process_vm_writev,
                                 SYS_unshare,
                                 SYS_setns,
                                 SYS_mount,
                                 SYS_bpf,
                                 SYS_userfaultfd,
                                 SYS_perf_event_open,
                                 SYS_io_uring_setup,
                                 SYS_keyctl,
                                 SYS_add_key};
    *f = (filter){.n = 0};
    add(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
    add(f, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, THIS_ARCH);
    add(f, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS);
    add(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    add(f, BPF_JMP | BPF_JGE | BPF_K, 0, 1, OTHER_ABI);
    add(f, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        deny(f, never[i], EPERM);
    if (!limits->network)
        deny(f, SYS_socket, EPERM);
    if (!spaces) {
        deny(f, SYS_setsid, EPERM);
        deny(f, SYS_setpgid, EPERM);
    }
    if (limits->processes <= 1) {
        deny(f, SYS_clone, EAGAIN);
        deny(f, SYS_clone3, EAGAIN);
#ifdef SYS_fork
        deny(f, SYS_fork, EAGAIN);
        deny(f, SYS_vfork, EAGAIN);
#endif
    }
    add(f, BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW);
}
#else
static void make_filter(filter *f, const child_limits *limits, bool spaces)
{
    (void)limits;
    (void)spaces;
    *f = (filter){.n = 0};
}
#endif

/* ------------------------------------------------------------- in the child */

/* Standard descriptors and no others. */
static bool set_descriptors(const setup *s)
{
    int in = fcntl(s->spec->in, F_DUPFD, 3); /* so that no dup2() overwrites one of them */
    int out = fcntl(s->out, F_DUPFD, 3), err = fcntl(s->err, F_DUPFD, 3);
    if (in < 0 || out < 0 || err < 0)
        return false;
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0)
        return false;
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0)
        return true;
#endif
    struct rlimit most = {.rlim_cur = 65536};
    getrlimit(RLIMIT_NOFILE, &most);
    for (rlim_t fd = 3; fd < most.rlim_cur && fd < 1u << 20; fd++)
        close((int)fd);
    return true;
}

static bool limit(int what, uint64_t value)
{
    struct rlimit now, wanted = {value, value};
    if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < value)
        wanted = (struct rlimit){now.rlim_max, now.rlim_max};
    return setrlimit((__rlimit_resource_t)what, &wanted) == 0;
}

/* Without a namespace RLIMIT_NPROC would count all that the user runs. */
static bool set_limits(const child_limits *limits, bool spaces)
{
    return limit(RLIMIT_CPU, limits->cpu_s) && limit(RLIMIT_AS, limits->memory) &&
           limit(RLIMIT_FSIZE, limits->file_bytes) && limit(RLIMIT_NOFILE, limits->files) &&
           limit(RLIMIT_CORE, 0) && (!spaces || limit(RLIMIT_NPROC, limits->processes));
}

/* What is ignored stays so over execve(), and so does the mask. */
static void reset_signals(void)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Whoever reads its output has gone before this process asked to be told of that. */
static bool is_orphan(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

static int become_program(void *arg)
{
    setup *s = arg;
    const child_spec *spec = s->spec;
    const struct sock_fprog program = {.len = s->filter.n, .filter = s->filter.code};
    bool good = setsid() >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && set_descriptors(s) &&
                !is_orphan() && chdir("/") == 0 && set_limits(&spec->limits, s->spaces) &&
                prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    if (good) {
        reset_signals();
        good = !program.len || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    }
    if (good)
        execve(s->path, (char *const *)(uintptr_t)spec->argv, (char *const *)(uintptr_t)spec->env);
    s->failed = errno ? errno : EIO;
    _exit(127);
}

/* ------------------------------------------------------------- in the parent */

static pid_t start(setup *s, char *stack, bool spaces)
{
    int which = SHARED_MEMORY | CLONE_VFORK | SIGCHLD;
    if (spaces)
        which |= s->spec->limits.network ? SPACES & ~CLONE_NEWNET : SPACES;
    s->spaces = spaces;
    make_filter(&s->filter, &s->spec->limits, spaces);
    if (!spaces && s->filter.n == 0) {
        errno = ENOTSUP;
        return -1;
    }
    return clone(become_program, stack + STACK_BYTES, which, s);
}

/* The setup and the child's stack are in pages that both see, whatever else they share. */
typedef struct shared {
    setup setup;
    char stack[STACK_BYTES] __attribute__((aligned(16)));
} shared;

pid_t child_setup_start(const child_spec *spec, const char *path, int out, int err, int *failed)
{
    sigset_t all, before;
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) {
        *failed = ENOMEM;
        return 0;
    }
    s->setup = (setup){.spec = spec, .path = path, .out = out, .err = err};
    sigfillset(&all); /* no handler of ours runs in the child, on our memory */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = start(&s->setup, s->stack, true);
    if (pid < 0)
        pid = start(&s->setup, s->stack, false);
    *failed = pid < 0 ? errno : s->setup.failed;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(s, sizeof *s);
    return pid < 0 ? 0 : pid;
}
