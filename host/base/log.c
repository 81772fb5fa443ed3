/*
 * base/log.c - one JSON line an event, on standard error. See log.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/log.h"

#include "base/buf.h"
#include "base/json.h"

#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* The one setting that plugins' lines and ours share; written before threads start. */
static atomic_int least = PAWL_LOG_INFO;

void log_set_level(int32_t level)
{
    atomic_store(&least, level);
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

void log_write(int32_t level, const char *component, const char *format, ...)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    if (level < atomic_load(&least) || level < PAWL_LOG_DEBUG || level > PAWL_LOG_ERROR)
        return;
    char message[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);

    buf line;
    buf_init(&line, 16384);
    buf_add_text(&line, "{\"time\":\"");
    add_time(&line);
    buf_printf(&line, "\",\"level\":\"%s\",\"component\":", names[level]);
    json_add_quoted(&line, json_text(component));
    buf_add_text(&line, ",\"message\":");
    json_add_quoted(&line, json_text(message));
    buf_add_text(&line, "}\n");
    if (!line.failed && write(STDERR_FILENO, line.data, line.size) < 0)
        level = 0; /* nowhere left to say it */
    buf_clear(&line);
}
