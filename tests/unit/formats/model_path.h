/*
 * tests/unit/formats/model_path.h - where tests find the real model.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_MODEL_PATH_H
#define TESTS_MODEL_PATH_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The path of SmolLM2-135M-Instruct as Q4_1 in the buffer; NULL if no file is there. */
static inline const char *model_path(char *buffer, size_t size)
{
    static const char name[] = "pawl/SmolLM2-135M-Instruct.Q4_1.gguf";
    const char *given = getenv("PAWL_TEST_MODEL"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (given && *given)
        snprintf(buffer, size, "%s", given);
    else if (cache && *cache)
        snprintf(buffer, size, "%s/%s", cache, name);
    else
        snprintf(buffer, size, "%s/.cache/%s", home ? home : "", name);
    return access(buffer, R_OK) == 0 ? buffer : NULL;
}

#endif /* TESTS_MODEL_PATH_H */
