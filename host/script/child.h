/*
 * script/child.h - another program, run once under limits.
 *
 * For what reads hostile files (pdftotext) and for tools that are commands. The program gets
 * a standard input, an environment and nothing else: no descriptor of ours, no network, a
 * session of its own, limits on time, memory, files and processes. Its standard output is
 * kept up to a size; of what it says on standard error the first line. It never outlives the
 * call, nor does what it started: child_run() kills and reaps, however it ends. If our process
 * dies, so does the program; and what it started, where it has a namespace.
 *
 * What it does not get is a file system of its own: it reads and writes what we may.
 *
 * Called on a thread that lives on (crew.h): the program dies with the thread. No Lua.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_CHILD_H
#define SCRIPT_CHILD_H

#include "base/buf.h"

#define CHILD_MAX_WHY 240 /* bytes of a reason */

typedef struct child_limits {
    int64_t wall_ms;
    uint64_t cpu_s;
    uint64_t memory;     /* bytes of address space                         */
    uint64_t file_bytes; /* of each file that it writes                    */
    uint32_t files;      /* descriptors                                    */
    uint32_t processes;  /* with threads; 1: it can start none             */
    size_t output;       /* bytes of standard output                       */
    bool network;        /* it may use the network                         */
} child_limits;

typedef struct child_spec {
    const char *const *argv; /* argv[0]: a path, or a name in CHILD_PATH; ends with NULL */
    const char *const *env;  /* the whole environment, NAME=VALUE; ends with NULL        */
    int in;                  /* its standard input; stays the caller's                   */
    int stop_fd;             /* can be read once the program is not wanted; -1: always is */
    child_limits limits;
} child_spec;

#define CHILD_PATH "/usr/local/bin:/usr/bin:/bin"

enum child_end {
    CHILD_DONE,       /* with status 0                              */
    CHILD_FAILED,     /* with another one                           */
    CHILD_KILLED,     /* by a signal: a fault, or a limit           */
    CHILD_TIMEOUT,    /* by us: its time was over                   */
    CHILD_TOO_LARGE,  /* by us: it wrote more than it may           */
    CHILD_STOPPED,    /* by us: it was not wanted any more          */
    CHILD_ABSENT,     /* there is no such program                   */
    CHILD_NOT_STARTED /* the system refused                         */
};

typedef struct child_result {
    enum child_end end;
    int status;              /* exit status of CHILD_FAILED, signal of CHILD_KILLED */
    buf output;              /* what it wrote until then                            */
    char why[CHILD_MAX_WHY]; /* unless done: UTF-8, one line                        */
} child_result;

/* Runs it to its end. The result is the caller's to clear. */
void child_run(const child_spec *spec, child_result *result);
void child_result_clear(child_result *result);

/* A descriptor from which these bytes can be read, for child_spec.in; -1: no memory. */
int child_input(const void *data, size_t size);
/* Whether there is such a program. */
bool child_exists(const char *program);

#endif /* SCRIPT_CHILD_H */
