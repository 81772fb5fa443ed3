/*
 * loader/probe.h - asks a plugin whether it can run here, in a child process.
 *
 * A library's constructors run when it is loaded, and a bad one takes its process
 * along. So the first load happens in a child (child.h), which prints one line of
 * JSON:
 *
 *   pawl plugin probe LIBRARY INTERFACE...
 *   {"id":"dev.pawl.cpu","version":"0.1.0","minor":0,"score":2,"missing":"","reason":""}
 *
 * All children of a list run at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_PROBE_H
#define LOADER_PROBE_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define PROBE_LIMIT_MS 20000

typedef struct probe_task {
    const char *library;    /* in: absolute path                                  */
    const char *interfaces; /* in: ids joined by ' '                              */
    bool usable;            /* out: loaded, and probe() gave more than 0          */
    bool died;              /* out: of a fault of its own, or of our time limit   */
    int32_t score;          /* out                                                */
    uint32_t abi_minor;     /* out                                                */
    char id[160];           /* out: what the entry says, "" where it did not load */
    char version[72];       /* out                                                */
    char missing[160];      /* out: the first interface that it does not offer    */
    char reason[300];       /* out: why it is not usable                          */
} probe_task;

/* Probes all of them; one that crashes or hangs says so in its reason. [main] */
void probe_run(probe_task *tasks, size_t n_tasks, int64_t limit_ms);

/* What the child does: loads, asks, writes its line to descriptor `out`. The exit
 * status. argv: LIBRARY INTERFACE... */
int probe_serve(int argc, char **argv, int out);

#endif /* LOADER_PROBE_H */
