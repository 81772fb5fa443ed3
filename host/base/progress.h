/*
 * base/progress.h - how far a long job is, how fast, and how long it will take.
 *
 * The rate is that of the last minutes, so that a job that first skips what an earlier run has
 * done, or that slows down, is soon told right. Owned by whoever declares it; no threads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/buf.h"

#define PROGRESS_SAMPLES 64

typedef struct progress {
    struct {
        int64_t at_ns;
        double done;
    } samples[PROGRESS_SAMPLES]; /* a ring, the oldest first */
    unsigned first, n;
} progress;

/* So much is done now. Less than before: the job has begun anew. */
void progress_note(progress *p, int64_t now_ns, double done);
/* A second; 0: not known yet. */
double progress_rate(const progress *p, int64_t now_ns);

/* Appends "[####....] 45% 450/1000 1.3/s 7m12s left NOTE", of at most so many characters;
 * width 0: of any number, and without the bar. total 0: not known. What could steer a terminal
 * is replaced. */
void progress_describe(const progress *p, int64_t now_ns, double total, const char *note,
                       unsigned width, buf *out);

#endif /* BASE_PROGRESS_H */
