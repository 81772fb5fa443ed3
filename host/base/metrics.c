/*
 * base/metrics.c - counters, gauges and histograms. See metrics.h.
 *
 * Families and series are lists that only grow, under one lock; values are atomics
 * outside of it. A value is a double in the bits of a 64-bit atomic: whole numbers are
 * exact up to 2^53.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/metrics.h"

#include "base/utf8.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LABEL_BYTES 128

struct metric {
    metric *next; /* in its family                                */
    const metric_family *family;
    char *values[METRIC_MAX_LABELS]; /* NULL: there is no such label                 */
    atomic_uint_fast64_t value;      /* a double's bits; of a histogram, the sum     */
    atomic_uint_fast64_t *buckets;   /* of a histogram: bounds.count + 1, not summed */
};

struct metric_family {
    metric_family *next;
    metrics *of;
    enum metric_type type;
    char *name;
    char *help;
    char *labels[METRIC_MAX_LABELS];
    metric_bounds bounds;
    metric *first; /* series in the order they came */
    metric **last;
    size_t n_series;
};

typedef struct collector {
    void (*collect)(void *arg);
    void *arg;
} collector;

struct metrics {
    pthread_mutex_t lock; /* of all lists */
    metric_family *first;
    metric_family **last;
    size_t n_families;
    collector collectors[METRIC_MAX_COLLECTORS];
    size_t n_collectors;
};

static const double seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01,   0.02,   0.04,
                                 0.08,   0.16,  0.32,   0.64,  1.28,   2.56,   5.12,
                                 10.24,  20.48, 40.96,  81.92, 163.84, 327.68, 600};
static const double tokens[] = {1,    4,     16,    64,     256,     1024,
                                4096, 16384, 65536, 262144, 1048576, 4194304};
static const double slots[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};

const metric_bounds metric_seconds = {seconds, sizeof seconds / sizeof *seconds};
const metric_bounds metric_tokens = {tokens, sizeof tokens / sizeof *tokens};
const metric_bounds metric_slots = {slots, sizeof slots / sizeof *slots};

/* ---------------------------------------------------------------------- values ---- */

static double to_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double load(const atomic_uint_fast64_t *at)
{
    return to_double(atomic_load_explicit(at, memory_order_relaxed));
}

static void add(atomic_uint_fast64_t *at, double more)
{
    uint_fast64_t seen = atomic_load_explicit(at, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(at, &seen, to_bits(to_double(seen) + more),
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

void metric_add(metric *m, double more)
{
    if (m && !m->buckets && (m->family->type == METRIC_GAUGE || more > 0) && isfinite(more))
        add(&m->value, more);
}

void metric_set(metric *m, double value)
{
    if (m && m->family->type == METRIC_GAUGE)
        atomic_store_explicit(&m->value, to_bits(value), memory_order_relaxed);
}

void metric_raise_to(metric *m, double value)
{
    if (!m || m->family->type != METRIC_COUNTER || !isfinite(value))
        return;
    uint_fast64_t seen = atomic_load_explicit(&m->value, memory_order_relaxed);
    while (to_double(seen) < value &&
           !atomic_compare_exchange_weak_explicit(&m->value, &seen, to_bits(value),
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

void metric_observe(metric *m, double value)
{
    if (!m || !m->buckets || !isfinite(value))
        return;
    const metric_bounds *bounds = &m->family->bounds;
    size_t at = 0;
    while (at < bounds->count && value > bounds->values[at])
        at++;
    atomic_fetch_add_explicit(&m->buckets[at], 1, memory_order_relaxed);
    add(&m->value, value);
}

double metric_value(const metric *m)
{
    double total = 0;
    if (!m)
        return 0;
    if (!m->buckets)
        return load(&m->value);
    for (size_t i = 0; i <= m->family->bounds.count; i++)
        total += (double)atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
    return total;
}

/* ---------------------------------------------------------------------- making ---- */

metrics *metrics_open(void)
{
    metrics *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->last = &all->first;
    pthread_mutex_init(&all->lock, NULL);
    return all;
}

static void free_series(metric *m)
{
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++)
        free(m->values[i]);
    free(m->buckets);
    free(m);
}

static void free_family(metric_family *f)
{
    while (f->first) {
        metric *m = f->first;
        f->first = m->next;
        free_series(m);
    }
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++)
        free(f->labels[i]);
    free(f->name);
    free(f->help);
    free(f);
}

void metrics_close(metrics *all)
{
    if (!all)
        return;
    while (all->first) {
        metric_family *f = all->first;
        all->first = f->next;
        free_family(f);
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
}

/* Letters, digits and '_', no digit first; ':' is for the rules of those who query. */
static bool is_name(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_";
    size_t size = strspn(text, allowed);
    return size > 0 && size < 128 && !text[size] && !(text[0] >= '0' && text[0] <= '9');
}

static bool is_ascending(const metric_bounds *bounds)
{
    if (!bounds || !bounds->count || bounds->count > METRIC_MAX_BOUNDS)
        return false;
    for (size_t i = 1; i < bounds->count; i++)
        if (bounds->values[i] <= bounds->values[i - 1])
            return false;
    return true;
}

static bool is_sound(const metric_spec *spec)
{
    if (!is_name(spec->name) || (spec->type == METRIC_HISTOGRAM) != (spec->bounds != NULL))
        return false;
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++)
        if (spec->labels[i] && (!is_name(spec->labels[i]) || strcmp(spec->labels[i], "le") == 0))
            return false;
    return !spec->bounds || is_ascending(spec->bounds);
}

static metric_family *find(metrics *all, const char *name)
{
    metric_family *f = all->first;
    while (f && strcmp(f->name, name) != 0)
        f = f->next;
    return f;
}

static metric_family *make_family(metrics *all, const metric_spec *spec)
{
    if (all->n_families == METRIC_MAX_FAMILIES)
        return NULL;
    metric_family *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    bool complete = true;
    f->of = all;
    f->type = spec->type;
    f->last = &f->first;
    f->name = strdup(spec->name);
    f->help = strdup(spec->help ? spec->help : "");
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++) {
        f->labels[i] = spec->labels[i] ? strdup(spec->labels[i]) : NULL;
        complete = complete && (!spec->labels[i] || f->labels[i]);
    }
    if (spec->bounds)
        f->bounds = *spec->bounds;
    if (!complete || !f->name || !f->help) {
        free_family(f);
        return NULL;
    }
    *all->last = f;
    all->last = &f->next;
    all->n_families++;
    return f;
}

metric_family *metrics_family(metrics *all, const metric_spec *spec)
{
    if (!all || !is_sound(spec))
        return NULL;
    pthread_mutex_lock(&all->lock);
    metric_family *f = find(all, spec->name);
    if (!f)
        f = make_family(all, spec);
    else if (f->type != spec->type)
        f = NULL;
    pthread_mutex_unlock(&all->lock);
    return f;
}

/* The label's value as it is kept: valid text of bounded length. */
static char *clean_value(const char *text)
{
    size_t size = utf8_valid_prefix(text, strlen(text));
    if (size > MAX_LABEL_BYTES)
        size = utf8_valid_prefix(text, MAX_LABEL_BYTES);
    return strndup(text, size);
}

static bool fits(const metric *m, const char *const given[METRIC_MAX_LABELS])
{
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++)
        if (m->values[i] && strcmp(m->values[i], given[i]) != 0)
            return false;
    return true;
}

static metric *find_series(metric_family *f, const char *const given[METRIC_MAX_LABELS])
{
    metric *m = f->first;
    while (m && !fits(m, given))
        m = m->next;
    return m;
}

/* Takes the values. */
static metric *make_series(metric_family *f, char *values[METRIC_MAX_LABELS])
{
    metric *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->family = f;
    if (f->bounds.count)
        m->buckets = calloc(f->bounds.count + 1, sizeof *m->buckets);
    if (f->bounds.count && !m->buckets) {
        free(m);
        return NULL;
    }
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++) {
        m->values[i] = values[i];
        values[i] = NULL;
    }
    *f->last = m;
    f->last = &m->next;
    f->n_series++;
    return m;
}

static metric *find_or_make(metric_family *f, char *values[METRIC_MAX_LABELS])
{
    const char *const other[METRIC_MAX_LABELS] = {"other", "other"};
    const char *given[METRIC_MAX_LABELS] = {values[0], values[1]};
    metric *m = find_series(f, given);
    if (m)
        return m;
    if (f->n_series < METRIC_MAX_SERIES)
        return make_series(f, values);
    m = find_series(f, other);
    for (size_t i = 0; !m && i < METRIC_MAX_LABELS; i++) {
        free(values[i]);
        values[i] = f->labels[i] ? strdup("other") : NULL;
    }
    return m ? m : make_series(f, values);
}

metric *metric_with(metric_family *f, const char *first, const char *second)
{
    const char *given[METRIC_MAX_LABELS] = {first, second};
    char *values[METRIC_MAX_LABELS] = {0};
    bool complete = f != NULL;
    for (size_t i = 0; complete && i < METRIC_MAX_LABELS; i++) {
        complete = (f->labels[i] != NULL) == (given[i] != NULL);
        if (complete && given[i])
            complete = (values[i] = clean_value(given[i])) != NULL;
    }
    metric *m = NULL;
    if (complete) {
        pthread_mutex_lock(&f->of->lock);
        m = find_or_make(f, values);
        pthread_mutex_unlock(&f->of->lock);
    }
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++)
        free(values[i]);
    return m;
}

metric *metrics_single(metrics *all, const metric_spec *spec)
{
    return metric_with(metrics_family(all, spec), NULL, NULL);
}

void metrics_on_write(metrics *all, void (*collect)(void *arg), void *arg)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    if (all->n_collectors < METRIC_MAX_COLLECTORS)
        all->collectors[all->n_collectors++] = (collector){collect, arg};
    pthread_mutex_unlock(&all->lock);
}

/* --------------------------------------------------------------------- writing ---- */

static void add_number(buf *out, double value)
{
    if (isnan(value)) {
        buf_add_text(out, "NaN");
    } else if (isinf(value)) {
        buf_add_text(out, value > 0 ? "+Inf" : "-Inf");
    } else {
        char text[32];
        snprintf(text, sizeof text, "%.15g", value);
        if (strtod(text, NULL) != value)
            snprintf(text, sizeof text, "%.17g", value);
        buf_add_text(out, text);
    }
}

static void add_escaped(buf *out, const char *text, bool quotes)
{
    for (; *text; text++) {
        if (*text == '\n')
            buf_add_text(out, "\\n");
        else if (*text == '\\' || (quotes && *text == '"'))
            buf_printf(out, "\\%c", *text);
        else
            buf_add(out, text, 1);
    }
}

/* name_suffix{labels,le="…"} */
static void add_series_name(buf *out, const metric *m, const char *suffix, const double *le)
{
    const metric_family *f = m->family;
    const char *separator = "{";
    buf_printf(out, "%s%s", f->name, suffix);
    for (size_t i = 0; i < METRIC_MAX_LABELS; i++) {
        if (!m->values[i])
            continue;
        buf_printf(out, "%s%s=\"", separator, f->labels[i]);
        add_escaped(out, m->values[i], true);
        buf_add_text(out, "\"");
        separator = ",";
    }
    if (le) {
        buf_printf(out, "%sle=\"", separator);
        add_number(out, *le);
        buf_add_text(out, "\"");
        separator = ",";
    }
    buf_add_text(out, *separator == ',' ? "} " : " ");
}

static void add_line(buf *out, const metric *m, const char *suffix, const double *le, double value)
{
    add_series_name(out, m, suffix, le);
    add_number(out, value);
    buf_add_text(out, "\n");
}

/* The count is the sum of the buckets as they were read, so that the last bucket and
 * the count agree whatever is observed meanwhile. */
static void add_histogram(buf *out, const metric *m)
{
    const metric_bounds *bounds = &m->family->bounds;
    const double infinity = INFINITY;
    double total = 0, sum = load(&m->value);
    for (size_t i = 0; i <= bounds->count; i++) {
        total += (double)atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
        add_line(out, m, "_bucket", i < bounds->count ? &bounds->values[i] : &infinity, total);
    }
    add_line(out, m, "_sum", NULL, sum);
    add_line(out, m, "_count", NULL, total);
}

static void add_family(buf *out, const metric_family *f)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    buf_printf(out, "# HELP %s ", f->name);
    add_escaped(out, f->help, false);
    buf_printf(out, "\n# TYPE %s %s\n", f->name, types[f->type]);
    for (const metric *m = f->first; m; m = m->next) {
        if (m->buckets)
            add_histogram(out, m);
        else
            add_line(out, m, "", NULL, load(&m->value));
    }
}

void metrics_write(metrics *all, buf *out)
{
    collector collectors[METRIC_MAX_COLLECTORS];
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    size_t n = all->n_collectors;
    memcpy(collectors, all->collectors, sizeof collectors);
    pthread_mutex_unlock(&all->lock);
    for (size_t i = 0; i < n; i++)
        collectors[i].collect(collectors[i].arg);
    pthread_mutex_lock(&all->lock);
    for (const metric_family *f = all->first; f; f = f->next)
        if (f->first)
            add_family(out, f);
    pthread_mutex_unlock(&all->lock);
}
