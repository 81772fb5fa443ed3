/*
 * script/failure.h - why something that a script asked for could not be done.
 *
 * Made by whatever thread does the work; becomes the script's {code, message, retryable}.
 * Codes are literals. No Lua.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_FAILURE_H
#define SCRIPT_FAILURE_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define FAILURE_MAX_MESSAGE 400

typedef struct failure {
    const char *code; /* NULL: none */
    bool retryable;
    char message[FAILURE_MAX_MESSAGE]; /* UTF-8 */
} failure;

/* Sets it. Always false, so that a function can return what it failed with. */
bool failure_set(failure *f, const char *code, bool retryable, const char *format, ...)
    PAWL_PRINTF(4, 5);

#endif /* SCRIPT_FAILURE_H */
