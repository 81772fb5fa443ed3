/*
 * base/clock.h - time and randomness, behind one table.
 *
 * Rooms that decide by time or chance take a base_clock, so that a test can play
 * the same run again. clock_system() is the real one. All functions are [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef struct base_clock {
    void *context;
    int64_t (*monotonic_ns)(void *context);                  /* never goes back      */
    int64_t (*wall_ms)(void *context);                       /* since 1970, UTC      */
    void (*random)(void *context, void *bytes, size_t size); /* unguessable bytes    */
} base_clock;

const base_clock *clock_system(void);

#define CLOCK_ID_SIZE 40

/* Writes PREFIX and 128 random bits in hex, NUL-terminated: "resp_6f…". Ids act as
 * capabilities, so they are not to be guessed. A prefix has at most 7 characters. */
void clock_new_id(const base_clock *clock, const char *prefix, char id[CLOCK_ID_SIZE]);

#endif /* BASE_CLOCK_H */
