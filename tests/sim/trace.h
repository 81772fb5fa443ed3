/*
 * sim/trace.h - what happened: the last actions, and a digest of all of them.
 *
 * Lies in memory that the parent process shares, so that it can tell what came last
 * before a crash. Two runs of a seed must have the same digest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define TRACE_KEPT 60

enum sim_action {
    ACT_ARRIVE,
    ACT_WHOSE,
    ACT_REFUSED,
    ACT_CANCEL,
    ACT_DEMOTE,
    ACT_EVENT,
    ACT_PASS,
    ACT_SLOT,
    ACT_SLOT_FAULT,
    ACT_PASS_FAULT,
    ACT_OPEN,
    ACT_RESERVE,
    ACT_FORK,
    ACT_TRUNCATE,
    ACT_CLOSE,
    ACT_PUT,
    ACT_STORED,
    ACT_SHUTDOWN
};

typedef struct sim_record {
    int64_t at;   /* virtual ns        */
    int64_t a, b; /* as trace.c has it */
    uint32_t who; /* turn or sequence  */
    enum sim_action action;
} sim_record;

typedef struct sim_trace {
    uint64_t seed; /* that is being played */
    uint64_t digest;
    uint64_t n; /* actions so far; the last TRACE_KEPT are kept */
    bool verbose;
    bool reported; /* a broken rule was printed */
    sim_record kept[TRACE_KEPT];
} sim_trace;

struct sim;

void trace_begin(sim_trace *t, uint64_t seed);
void trace_add(struct sim *s, enum sim_action action, uint32_t who, int64_t a, int64_t b);
/* The last actions and how to play them again. */
void trace_report(const sim_trace *t);
/* A rule is broken: says which, reports, ends the process with 1. */
_Noreturn void sim_broken(struct sim *s, const char *format, ...) PAWL_PRINTF(2, 3);

#endif /* SIM_TRACE_H */
