/*
 * terminal/input.h - messages out of a terminal, a pipe or a file.
 *
 * A line is a message. One that ends with a backslash goes on in the next; between two
 * lines of three quotes (""") everything is one message, commands included.
 * [main] alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TERMINAL_INPUT_H
#define TERMINAL_INPUT_H

#include "base/buf.h"

#define INPUT_MAX_MESSAGE ((size_t)4 << 20)

enum input_kind {
    INPUT_MESSAGE,     /* a text, which may be empty           */
    INPUT_COMMAND,     /* a line that begins with one slash    */
    INPUT_REFUSED,     /* too long, or no text: *why says what */
    INPUT_INTERRUPTED, /* a signal came; what was begun is gone */
    INPUT_END
};

typedef struct input {
    int fd;                               /* borrowed                                         */
    int wake;                             /* an eventfd: readable after a signal; borrowed    */
    buf read;                             /* bytes that no line was made of yet               */
    bool ended;                           /* nothing more will be read                        */
    void (*prompt)(void *arg, bool more); /* before each line; more: of a message  */
    void *arg;                            /* for prompt                                       */
} input;

void input_open(input *in, int fd, int wake, void (*prompt)(void *arg, bool more), void *arg);
void input_close(input *in);

/* The next message without its marks and its last newline. */
enum input_kind input_next(input *in, buf *text, const char **why);

#endif /* TERMINAL_INPUT_H */
