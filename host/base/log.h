/*
 * base/log.h - one JSON line an event, on standard error.
 *
 * {"time":"2026-11-30T12:00:00.123Z","level":"info","component":"net","message":"…"}
 * A line is written with one write(), so that lines of threads never mix. [any]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <pawl/plugin.h>

/* Lines below the level are dropped. Set once, before threads start. */
void log_set_level(int32_t level);
/* level: enum pawl_log_level. The message is cut at 2,000 bytes. */
void log_write(int32_t level, const char *component, const char *format, ...) PAWL_PRINTF(3, 4);

#endif /* BASE_LOG_H */
