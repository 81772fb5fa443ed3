/*
 * terminal/input.c - messages out of a terminal, a pipe or a file. See input.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "terminal/input.h"

#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define FENCE "\"\"\""

void input_open(input *in, int fd, int wake, void (*prompt)(void *arg, bool more), void *arg)
{
    *in = (input){.fd = fd, .wake = wake, .prompt = prompt, .arg = arg};
    buf_init(&in->read, INPUT_MAX_MESSAGE);
}

void input_close(input *in)
{
    buf_clear(&in->read);
}

/* What came of waiting for a line. */
enum line { LINE, LINE_TOO_LONG, LINE_INTERRUPTED, LINE_END };

/* Reads more. False: a signal came. */
static bool read_more(input *in)
{
    char block[65536];
    struct pollfd on[] = {{.fd = in->wake, .events = POLLIN}, {.fd = in->fd, .events = POLLIN}};
    if (poll(on, 2, -1) < 0)
        return errno == EINTR;
    if (on[0].revents)
        return false;
    ssize_t n = read(in->fd, block, sizeof block);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n > 0)
        buf_add(&in->read, block, (size_t)n); /* a line that does not fit is told by `failed` */
    else
        in->ended = true;
    return true;
}

/* Takes n bytes from the front, and the newline behind them. */
static void take(input *in, size_t n)
{
    size_t gone = n + (n < in->read.size);
    memmove(in->read.data, in->read.data + gone, in->read.size - gone);
    in->read.size -= gone;
}

/* Appends the next line to text. */
static enum line next_line(input *in, buf *text)
{
    for (;;) {
        const char *data = buf_text(&in->read);
        const char *end = in->read.size ? memchr(data, '\n', in->read.size) : NULL;
        if (in->read.failed) {
            in->ended = true; /* where the next line begins is not known any more */
            buf_reset(&in->read);
            return LINE_TOO_LONG;
        }
        if (end || (in->ended && in->read.size)) {
            size_t n = end ? (size_t)(end - data) : in->read.size;
            buf_add(text, data, n - (n && data[n - 1] == '\r'));
            take(in, n);
            return text->failed ? LINE_TOO_LONG : LINE;
        }
        if (in->ended)
            return LINE_END;
        if (!read_more(in))
            return LINE_INTERRUPTED;
    }
}

/* Lines up to the closing fence, or the end. */
static enum line next_block(input *in, buf *text)
{
    enum line got;
    buf_reset(text);
    for (;;) {
        size_t before = text->size;
        in->prompt(in->arg, true);
        if (before)
            buf_add_text(text, "\n");
        size_t begin = text->size;
        got = next_line(in, text);
        if (got == LINE && strcmp(buf_text(text) + begin, FENCE) != 0)
            continue;
        if (got == LINE || got == LINE_END) {
            text->size = before; /* the fence is no part of it */
            if (text->data)
                text->data[before] = '\0';
            return LINE;
        }
        return got;
    }
}

static enum line next_text(input *in, buf *text, bool *is_command)
{
    in->prompt(in->arg, false);
    buf_reset(text);
    enum line got = next_line(in, text);
    *is_command = got == LINE && text->size && text->data[0] == '/' &&
                  !(text->size > 1 && text->data[1] == '/');
    if (got == LINE && strcmp(buf_text(text), FENCE) == 0)
        return next_block(in, text);
    while (got == LINE && !*is_command && text->size && text->data[text->size - 1] == '\\') {
        text->data[text->size - 1] = '\n';
        in->prompt(in->arg, true);
        got = next_line(in, text);
        if (got == LINE_END)
            return LINE;
    }
    if (got == LINE && !*is_command && text->size > 1 && strncmp(text->data, "//", 2) == 0) {
        memmove(text->data, text->data + 1, text->size); /* with its NUL */
        text->size--;
    }
    return got;
}

enum input_kind input_next(input *in, buf *text, const char **why)
{
    bool is_command = false;
    switch (next_text(in, text, &is_command)) {
    case LINE_END:
        return INPUT_END;
    case LINE_INTERRUPTED:
        return INPUT_INTERRUPTED;
    case LINE_TOO_LONG:
        *why = "that is too long; at most 4 MiB are taken";
        return INPUT_REFUSED;
    case LINE:
        break;
    }
    if (memchr(buf_text(text), '\0', text->size) ||
        utf8_valid_prefix(buf_text(text), text->size) != text->size) {
        *why = "that is no text in UTF-8";
        return INPUT_REFUSED;
    }
    return is_command ? INPUT_COMMAND : INPUT_MESSAGE;
}
