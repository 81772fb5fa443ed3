/*
 * net/chunked.c - the decoder of chunked.h: a state machine over single bytes, with
 * the data of a chunk copied in one piece.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "net/chunked.h"

void chunked_init(chunked *c)
{
    *c = (chunked){.state = CHUNKED_SIZE};
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* A hex digit of a size, or what ends it: the line, or an extension. */
static bool take_size(chunked *c, char byte)
{
    int digit = hex_digit(byte);
    if (digit >= 0) {
        if (++c->digits > 15)
            return false;
        c->left = c->left * 16 + (uint64_t)digit;
        return true;
    }
    if (c->digits == 0)
        return false;
    c->line = 0;
    if (byte == '\r')
        c->state = CHUNKED_SIZE_LF;
    else if (byte == ';' || byte == ' ' || byte == '\t')
        c->state = CHUNKED_EXTENSION;
    else
        return false;
    return true;
}

/* A line after the last chunk; an empty one ends the body. */
static bool take_trailer(chunked *c, char byte)
{
    if (byte == '\r') {
        c->state = CHUNKED_TRAILER_LF;
        return true;
    }
    c->line++;
    return byte != '\n' && c->line <= CHUNKED_MAX_LINE && ++c->trailer <= CHUNKED_MAX_TRAILER;
}

/* Any byte but those of a chunk's data. */
static bool take_byte(chunked *c, char byte)
{
    switch (c->state) {
    case CHUNKED_SIZE:
        return take_size(c, byte);
    case CHUNKED_EXTENSION:
        if (byte == '\r')
            c->state = CHUNKED_SIZE_LF;
        return byte != '\n' && ++c->line <= CHUNKED_MAX_LINE;
    case CHUNKED_SIZE_LF:
        c->state = c->left ? CHUNKED_DATA : CHUNKED_TRAILER;
        c->line = 0;
        return byte == '\n';
    case CHUNKED_DATA_CR:
        c->state = CHUNKED_DATA_LF;
        return byte == '\r';
    case CHUNKED_DATA_LF:
        c->state = CHUNKED_SIZE;
        c->left = 0;
        c->digits = 0;
        return byte == '\n';
    case CHUNKED_TRAILER:
        return take_trailer(c, byte);
    case CHUNKED_TRAILER_LF:
        c->state = c->line ? CHUNKED_TRAILER : CHUNKED_OVER;
        c->line = 0;
        return byte == '\n';
    default:
        return false;
    }
}

enum chunked_result chunked_feed(chunked *c, const char *data, size_t size, size_t *used, buf *out)
{
    size_t at = 0;
    while (at < size && c->state != CHUNKED_OVER) {
        if (c->state != CHUNKED_DATA) {
            if (!take_byte(c, data[at++]))
                return CHUNKED_BAD;
            if (c->state == CHUNKED_DATA && c->left > out->max - out->size)
                return CHUNKED_FULL; /* told by its size, before it is sent */
            continue;
        }
        size_t n = c->left < size - at ? (size_t)c->left : size - at;
        if (!buf_add(out, data + at, n))
            return CHUNKED_FULL;
        at += n;
        c->left -= n;
        if (c->left == 0)
            c->state = CHUNKED_DATA_CR;
    }
    *used = at;
    return c->state == CHUNKED_OVER ? CHUNKED_END : CHUNKED_MORE;
}
