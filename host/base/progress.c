/*
 * base/progress.c - how far a long job is, how fast, how long. See progress.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/progress.h"

#include <math.h>
#include <string.h>

#define WINDOW_NS (120 * (int64_t)1000000000) /* older samples do not count */
#define BAR 20                                /* characters within the brackets */
#define MIN_WIDTH_OF_BAR 60

static unsigned at(const progress *p, unsigned i)
{
    return (p->first + i) % PROGRESS_SAMPLES;
}

void progress_note(progress *p, int64_t now_ns, double done)
{
    if (p->n > 0 && done < p->samples[at(p, p->n - 1)].done)
        p->n = 0;
    while (p->n > 2 && now_ns - p->samples[at(p, 1)].at_ns > WINDOW_NS) {
        p->first = at(p, 1);
        p->n--;
    }
    if (p->n == PROGRESS_SAMPLES) {
        p->first = at(p, 1);
        p->n--;
    }
    unsigned next = at(p, p->n++);
    p->samples[next].at_ns = now_ns;
    p->samples[next].done = done;
}

double progress_rate(const progress *p, int64_t now_ns)
{
    if (p->n < 2)
        return 0;
    double more = p->samples[at(p, p->n - 1)].done - p->samples[p->first].done;
    double seconds = (double)(now_ns - p->samples[p->first].at_ns) / 1e9;
    return seconds > 0 ? more / seconds : 0;
}

static void add_duration(buf *out, double seconds)
{
    unsigned long long s = seconds < 1e9 ? (unsigned long long)(seconds + 0.5) : 1000000000ull;
    if (s >= 86400)
        buf_printf(out, "%llud%02lluh", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        buf_printf(out, "%lluh%02llum", s / 3600, s / 60 % 60);
    else if (s >= 60)
        buf_printf(out, "%llum%02llus", s / 60, s % 60);
    else
        buf_printf(out, "%llus", s);
}

static void add_bar(buf *out, double part)
{
    int full = (int)(part * BAR);
    buf_add_text(out, "[");
    for (int i = 0; i < BAR; i++)
        buf_add_text(out, i < full ? "#" : ".");
    buf_add_text(out, "] ");
}

/* Cuts what is behind so many characters, and replaces control characters. */
static void fit(buf *out, size_t begin, unsigned width)
{
    size_t end = begin;
    for (unsigned n = 0; end < out->size; end++) {
        unsigned char c = (unsigned char)out->data[end];
        n += (c & 0xC0) != 0x80;
        if (width && n > width)
            break;
        if (c < ' ' || c == 0x7f)
            out->data[end] = '?';
    }
    if (out->data)
        out->data[end] = '\0';
    out->size = end;
}

void progress_describe(const progress *p, int64_t now_ns, double total, const char *note,
                       unsigned width, buf *out)
{
    double done = p->n ? p->samples[at(p, p->n - 1)].done : 0, rate = progress_rate(p, now_ns);
    double part = total > 0 ? fmin(done / total, 1) : 0;
    size_t begin = out->size;
    if (total > 0 && width >= MIN_WIDTH_OF_BAR)
        add_bar(out, part);
    if (total > 0)
        buf_printf(out, "%.0f%% %.10g/%.10g", floor(100 * part), done, total);
    else
        buf_printf(out, "%.10g", done);
    if (rate >= 0.1)
        buf_printf(out, " %.1f/s", rate);
    else if (rate > 0)
        buf_printf(out, " %.1f/min", 60 * rate);
    if (rate > 0 && total > done) {
        buf_add_text(out, " ");
        add_duration(out, (total - done) / rate);
        buf_add_text(out, " left");
    }
    if (note && *note)
        buf_printf(out, " %s", note);
    fit(out, begin, width);
}
