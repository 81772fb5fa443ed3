/*
 * host/cmd_run_terminal.h - what runs of pipelines look like in a terminal.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_CMD_RUN_TERMINAL_H
#define HOST_CMD_RUN_TERMINAL_H

#include "base/progress.h"
#include "script/instance.h"

typedef struct run_terminal {
    bool live;  /* standard error is a terminal       */
    bool shown; /* the progress line stands there now */
    bool debug; /* debug lines are shown              */
    progress progress;
    int64_t printed_ns; /* when the latest line of it came; 0: none did */
} run_terminal;

/* A listener: results go to standard output, the rest to standard error. arg: a run_terminal. */
void run_terminal_event(void *arg, const char *type, const char *data);
/* Takes the progress line away. */
void run_terminal_clear(run_terminal *t);
/* A line for people on standard error, without what could steer their terminal. */
void run_terminal_say(const char *text);

/* One line a run, the latest first. */
pawl_status run_terminal_list(store *kept, pawl_error *error);
/* The stored events of a run, one JSON object a line. */
pawl_status run_terminal_events(store *kept, const char *id, uint64_t after, pawl_error *error);

#endif /* HOST_CMD_RUN_TERMINAL_H */
