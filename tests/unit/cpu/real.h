/*
 * tests/unit/cpu/real.h - where the real model lies, if it does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_UNIT_CPU_REAL_H
#define TESTS_UNIT_CPU_REAL_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The path in a buffer of the caller's, or NULL with a word why not. */
static inline const char *real_model(char *buffer, size_t room)
{
    const char *given = getenv("PAWL_TEST_MODEL");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given)
        snprintf(buffer, room, "%s", given);
    else
        snprintf(buffer, room, "%s%s/pawl/SmolLM2-135M-Instruct.Q4_1.gguf",
                 cache  ? cache
                 : home ? home
                        : "",
                 cache ? "" : "/.cache");
    if (access(buffer, R_OK) == 0)
        return buffer;
    printf("SKIP: the real model is not at %s (PAWL_TEST_MODEL names it)\n", buffer);
    return NULL;
}

#endif /* TESTS_UNIT_CPU_REAL_H */
