/*
 * base/metrics.h - counters, gauges and histograms, and their text for Prometheus.
 *
 * A family has a name, a help text and label names; a series is a family with one
 * value for each label. Whoever measures looks its series up once and keeps the
 * pointer: changing one is an atomic addition without a lock. Families and series
 * live until metrics_close(). How many series a family can have is bounded: beyond
 * that everything is counted under the label values "other", so that no client can
 * make the server's memory grow by the names it sends.
 *
 * Everything takes NULL where it takes a metrics, a family or a series, and then does
 * nothing: a room that is not measured needs no other code. All functions are [any],
 * but for opening and closing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include "base/buf.h"

#define METRIC_MAX_LABELS 2
#define METRIC_MAX_SERIES 128 /* of one family, "other" not counted */
#define METRIC_MAX_FAMILIES 256
#define METRIC_MAX_COLLECTORS 16
#define METRIC_MAX_BOUNDS 32

typedef struct metrics metrics;
typedef struct metric_family metric_family;
typedef struct metric metric; /* one series */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* Upper bounds of a histogram's buckets, ascending, without the last one (+Inf). */
typedef struct metric_bounds {
    const double *values;
    size_t count;
} metric_bounds;

/* What all histograms of one kind use, so that they can be compared. */
extern const metric_bounds metric_seconds; /* 0.5 ms to 600 s */
extern const metric_bounds metric_tokens;  /* 1 to 4 Mi, by fours */
extern const metric_bounds metric_slots;   /* 1 to 256, by twos */

typedef struct metric_spec {
    enum metric_type type;
    const char *name; /* as Prometheus has them; a counter's ends in _total */
    const char *help;
    const char *labels[METRIC_MAX_LABELS]; /* names; NULL: none              */
    const metric_bounds *bounds;           /* of a histogram                 */
} metric_spec;

metrics *metrics_open(void); /* NULL without memory */
void metrics_close(metrics *all);

/* The family, made where there is none of the name. NULL: the name is not one, or has
 * another type already, or there are too many. Copies the texts. */
metric_family *metrics_family(metrics *all, const metric_spec *spec);
/* The series of these label values, made on first use; NULL for labels it has not. */
metric *metric_with(metric_family *family, const char *first, const char *second);
/* A family without labels, and its only series. */
metric *metrics_single(metrics *all, const metric_spec *spec);

void metric_add(metric *m, double more);      /* counters: more >= 0; gauges */
void metric_set(metric *m, double value);     /* gauges                      */
void metric_observe(metric *m, double value); /* histograms                  */
/* For counters whose truth is kept elsewhere: never lets it fall. */
void metric_raise_to(metric *m, double value);
double metric_value(const metric *m); /* of a histogram: how many observations */

/* Calls collect(arg) before each metrics_write(), to set what is not worth keeping. */
void metrics_on_write(metrics *all, void (*collect)(void *arg), void *arg);
/* Appends all series in the text format 0.0.4; families without a series are left out. */
void metrics_write(metrics *all, buf *out);

/* Adds what the system says of this process, and build_info. metrics_process.c */
void metrics_add_process(metrics *all, const char *version);

#endif /* BASE_METRICS_H */
