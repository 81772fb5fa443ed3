/*
 * base/log.h - one JSON line an event, on standard error.
 *
 * {"time":"2026-11-30T12:00:00.123Z","level":"info","component":"net","message":"…"}
 * A line is written with one write(), so that lines of threads never mix. Lines say
 * what happened and to which request, never what was said in it. [any]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/buf.h"

/* Lines below the level are dropped. Set once, before threads start. */
void log_set_level(int32_t level);
/* At most so many debug and info lines a second, 0: any number; what is left out is
 * counted and said. Warnings and errors are always written. Set once. */
void log_set_limit(uint32_t lines_per_second);

/* level: enum pawl_log_level. The message is cut at 2,000 bytes. */
void log_write(int32_t level, const char *component, const char *format, ...) PAWL_PRINTF(3, 4);

/* A line with further members: begin, any number of members, end. Lives on the stack;
 * names are static and safe, values anything. NULL texts become null. */
typedef struct log_line {
    buf text;
    int32_t level;
    bool wanted; /* false: the level drops it, members cost nothing */
} log_line;

void log_begin(log_line *line, int32_t level, const char *component, const char *message);
void log_text(log_line *line, const char *name, const char *value);
void log_number(log_line *line, const char *name, uint64_t value);
void log_ms(log_line *line, const char *name, int64_t ns); /* nanoseconds, as milliseconds */
void log_end(log_line *line);

const char *log_level_name(int32_t level);
uint64_t log_written(int32_t level); /* lines written so far      */
uint64_t log_dropped(void);          /* lines left out by the limit */

#endif /* BASE_LOG_H */
