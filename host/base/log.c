/*
 * base/log.c - one JSON line an event, on standard error. See log.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"

#include "base/json.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#define MAX_LINE 16384
#define N_LEVELS 4

static const char *const names[N_LEVELS] = {"debug", "info", "warn", "error"};

/* The settings that plugins' lines and ours share, written before threads start, and
 * what was written so far. */
static atomic_int least = PAWL_LOG_INFO;
static atomic_uint limit;
static atomic_uint_fast64_t written[N_LEVELS];
static atomic_uint_fast64_t left_out;
static atomic_llong second;       /* that the limit is counted in      */
static atomic_uint in_second;     /* lines of it                       */
static atomic_uint_fast64_t told; /* of left_out, by a line of its own */

void log_set_level(int32_t level)
{
    atomic_store(&least, level);
}

void log_set_limit(uint32_t lines_per_second)
{
    atomic_store(&limit, lines_per_second);
}

const char *log_level_name(int32_t level)
{
    return level >= 0 && level < N_LEVELS ? names[level] : "unknown";
}

uint64_t log_written(int32_t level)
{
    return level >= 0 && level < N_LEVELS ? atomic_load(&written[level]) : 0;
}

uint64_t log_dropped(void)
{
    return atomic_load(&left_out);
}

static void add_time(buf *line)
{
    struct timespec now;
    struct tm utc;
    char text[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    buf_printf(line, "%s.%03ldZ", text, now.tv_nsec / 1000000);
}

static void open_line(log_line *line, int32_t level, const char *component, const char *message)
{
    *line = (log_line){.level = level, .wanted = true};
    buf_init(&line->text, MAX_LINE);
    buf_add_text(&line->text, "{\"time\":\"");
    add_time(&line->text);
    buf_printf(&line->text, "\",\"level\":\"%s\",\"component\":", names[level]);
    json_add_quoted(&line->text, json_text(component));
    buf_add_text(&line->text, ",\"message\":");
    json_add_quoted(&line->text, json_text(message));
}

static void put(log_line *line)
{
    buf_add_text(&line->text, "}\n");
    if (!line->text.failed && write(STDERR_FILENO, line->text.data, line->text.size) >= 0)
        atomic_fetch_add(&written[line->level], 1);
    buf_clear(&line->text);
}

/* What the limit left out in seconds that are over. */
static void tell_left_out(void)
{
    uint_fast64_t now = atomic_load(&left_out), before = atomic_exchange(&told, now);
    log_line line;
    if (now <= before)
        return;
    open_line(&line, PAWL_LOG_WARN, "log", "lines were left out, there were too many a second");
    log_number(&line, "lines", now - before);
    put(&line);
}

/* Whether the limit lets one more line through. */
static bool within_limit(int32_t level)
{
    struct timespec now;
    uint32_t most = atomic_load(&limit);
    if (most == 0 || level >= PAWL_LOG_WARN)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long seen = atomic_load(&second);
    if (seen != now.tv_sec && atomic_compare_exchange_strong(&second, &seen, now.tv_sec)) {
        atomic_store(&in_second, 0);
        tell_left_out();
    }
    if (atomic_fetch_add(&in_second, 1) < most)
        return true;
    atomic_fetch_add(&left_out, 1);
    return false;
}

void log_begin(log_line *line, int32_t level, const char *component, const char *message)
{
    *line = (log_line){0};
    if (level >= atomic_load(&least) && level >= 0 && level < N_LEVELS && within_limit(level))
        open_line(line, level, component, message);
}

static void add_name(log_line *line, const char *name)
{
    buf_printf(&line->text, ",\"%s\":", name);
}

void log_text(log_line *line, const char *name, const char *value)
{
    if (!line->wanted)
        return;
    add_name(line, name);
    if (value)
        json_add_quoted(&line->text, json_text(value));
    else
        buf_add_text(&line->text, "null");
}

void log_number(log_line *line, const char *name, uint64_t value)
{
    if (!line->wanted)
        return;
    add_name(line, name);
    buf_printf(&line->text, "%llu", (unsigned long long)value);
}

void log_ms(log_line *line, const char *name, int64_t ns)
{
    if (!line->wanted)
        return;
    add_name(line, name);
    buf_printf(&line->text, "%.1f", (double)ns / 1e6);
}

void log_end(log_line *line)
{
    if (line->wanted)
        put(line);
}

void log_write(int32_t level, const char *component, const char *format, ...)
{
    char message[2000];
    log_line line;
    if (level < atomic_load(&least))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log_begin(&line, level, component, message);
    log_end(&line);
}
