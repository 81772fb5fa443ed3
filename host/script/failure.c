/*
 * script/failure.c - why something that a script asked for could not be done. See failure.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/failure.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool failure_set(failure *f, const char *code, bool retryable, const char *format, ...)
{
    va_list arguments;
    f->code = code;
    f->retryable = retryable;
    va_start(arguments, format);
    vsnprintf(f->message, sizeof f->message, format, arguments);
    va_end(arguments);
    f->message[utf8_valid_prefix(f->message, strlen(f->message))] = '\0'; /* it may be cut */
    return false;
}
