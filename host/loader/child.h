/*
 * loader/child.h - runs a piece of this program in a child process.
 *
 * Code of a plugin may crash, hang or exit. What must not take the host along runs
 * in a child: our own binary, started afresh with the words of argv; its standard
 * output comes back through a pipe, its other descriptors are /dev/null. A program
 * that is not `pawl` (a test) forks instead and calls `run`, which is sound as long
 * as it has one thread.
 *
 * Children belong to whoever declared them: start, then wait, then clear. A child is
 * a process group of its own and dies with us. [main]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_CHILD_H
#define LOADER_CHILD_H

#include "base/buf.h"

#include <sys/types.h>

/* The child's work: the words after "plugin" and the subcommand, and where its answer goes.
 * Gives the exit status. */
typedef int (*child_main)(int argc, char **argv, int out);

typedef struct child {
    pid_t pid;      /* 0: not started, or waited for                       */
    int fd;         /* we read its standard output here; -1: at its end    */
    buf output;     /* at most 1 MiB                                       */
    int status;     /* as from waitpid()                                   */
    bool timed_out; /* killed by us                                        */
    int64_t limit_ms;
} child;

/* argv: "plugin", a subcommand, its words; NULL-terminated. */
pawl_status child_start(child *c, char *const *argv, child_main run, int64_t limit_ms,
                        pawl_error *error);
/* Reads all of them to their ends; one over its limit is killed. */
void child_wait(child *children, size_t n);
/* True: it ended by itself with status 0. Else `how` says what happened. */
bool child_succeeded(const child *c, char *how, size_t size);
/* True if a fault of its own ended it (SIGSEGV, SIGABRT and their kind), or our limit;
 * not if somebody else killed it. */
bool child_died(const child *c);
void child_clear(child *c);

/* In the child, first thing: no core dump, ends with its parent, standard output
 * leads nowhere. Gives the descriptor for the answer, or -1. */
int child_begin(void);
/* Writes everything; false where the parent has gone. */
bool child_answer(int out, const char *text, size_t size);

#endif /* LOADER_CHILD_H */
