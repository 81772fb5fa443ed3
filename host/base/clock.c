/*
 * base/clock.c - time and randomness, behind one table. See clock.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

static int64_t now_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t system_monotonic(void *context)
{
    (void)context;
    return now_ns(CLOCK_MONOTONIC);
}

static int64_t system_wall(void *context)
{
    (void)context;
    return now_ns(CLOCK_REALTIME) / 1000000;
}

static void system_random(void *context, void *bytes, size_t size)
{
    (void)context;
    char *at = bytes;
    while (size) {
        ssize_t n = getrandom(at, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) /* a kernel without it: there is no safe way on */
            abort();
        at += n;
        size -= (size_t)n;
    }
}

const base_clock *clock_system(void)
{
    static const base_clock system_clock = {NULL, system_monotonic, system_wall, system_random};
    return &system_clock;
}

void clock_new_id(const base_clock *clock, const char *prefix, char id[CLOCK_ID_SIZE])
{
    unsigned char bytes[16];
    clock->random(clock->context, bytes, sizeof bytes);
    size_t n = strnlen(prefix, CLOCK_ID_SIZE - 1 - 2 * sizeof bytes);
    memcpy(id, prefix, n);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + n + 2 * i, 3, "%02x", bytes[i]);
}
