/*
 * sim/trace.c - what happened. See trace.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

void trace_begin(sim_trace *t, uint64_t seed)
{
    t->seed = seed;
    t->digest = seed;
    t->n = 0;
}

/* The words for the two numbers of an action. */
static const char *const formats[] = {
    [ACT_ARRIVE] = "turn %u arrives: prompt %" PRId64 ", at most %" PRId64 " tokens",
    [ACT_WHOSE] = "turn %u is key %" PRId64 "'s, batch: %" PRId64,
    [ACT_REFUSED] = "turn %u finds the queue full (%" PRId64 " wait, %" PRId64 " wanted)",
    [ACT_CANCEL] = "turn %u is cancelled (%" PRId64 " deltas, in progress: %" PRId64 ")",
    [ACT_DEMOTE] =
        "turn %u sinks to the batch class (was there: %" PRId64 ", in progress: %" PRId64 ")",
    [ACT_EVENT] = "turn %u says event %" PRId64 " (%" PRId64 ")",
    [ACT_PASS] = "pass of %u slots, %" PRId64 " tokens, free pages %" PRId64,
    [ACT_SLOT] = "turn %u has %" PRId64 " tokens and takes %" PRId64,
    [ACT_SLOT_FAULT] = "turn %u: its slot fails with %" PRId64 " at %" PRId64,
    [ACT_PASS_FAULT] = "pass of %u slots fails with %" PRId64 " (in wait: %" PRId64 ")",
    [ACT_OPEN] = "sequence %u opens with status %" PRId64 "; %" PRId64 " are open",
    [ACT_RESERVE] = "sequence %u reserves %" PRId64 " tokens: %" PRId64,
    [ACT_FORK] = "sequence %u is forked at %" PRId64 ": %" PRId64,
    [ACT_TRUNCATE] = "sequence %u is cut to %" PRId64 ": %" PRId64,
    [ACT_CLOSE] = "sequence %u closes at %" PRId64 "; %" PRId64 " stay",
    [ACT_PUT] = "turn %u is put into the store: %" PRId64 " (%" PRId64 " tokens)",
    [ACT_STORED] = "turn %u is stored: %" PRId64 " (%" PRId64 " wait)",
    [ACT_SHUTDOWN] = "shutdown with %u turns (%" PRId64 " ended, %" PRId64 " in the queue)",
};

static void print(const sim_record *r)
{
    fprintf(stderr, "%12.3f ms  ", (double)r->at / 1e6);
    fprintf(stderr, formats[r->action], r->who, r->a, r->b);
    fputc('\n', stderr);
}

void trace_add(sim *s, enum sim_action action, uint32_t who, int64_t a, int64_t b)
{
    sim_trace *t = s->trace;
    sim_record r = {s->now, a, b, who, action};
    uint64_t of = rng_mix((uint64_t)r.at + action) ^ rng_mix((uint64_t)a * 3 + who) ^
                  rng_mix((uint64_t)b * 5 + 1);
    t->digest = rng_mix(t->digest ^ of) + 1;
    t->kept[t->n++ % TRACE_KEPT] = r;
    if (t->verbose)
        print(&r);
}

void trace_report(const sim_trace *t)
{
    uint64_t from = t->n > TRACE_KEPT ? t->n - TRACE_KEPT : 0;
    if (!t->verbose) {
        fprintf(stderr, "the last %" PRIu64 " of %" PRIu64 " actions:\n", t->n - from, t->n);
        for (uint64_t i = from; i < t->n; i++)
            print(&t->kept[i % TRACE_KEPT]);
    }
    fprintf(stderr, "again: sim --seed %" PRIu64 " --verbose\n", t->seed);
}

void sim_broken(sim *s, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    fprintf(stderr, "seed %" PRIu64 ": %s\n", s->seed, what);
    trace_report(s->trace);
    s->trace->reported = true;
    _exit(1); /* the schedule is in the middle of something */
}
