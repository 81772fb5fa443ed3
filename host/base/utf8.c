/*
 * base/utf8.c - a byte stream in, whole UTF-8 characters out. See utf8.h.
 *
 * Well-formed sequences (Unicode 15, table 3-7): the first byte fixes the length
 * and the range of the second byte; all further ones are 80..BF.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/utf8.h"

#include <string.h>

/* Length that a first byte announces, and the range of the second; 0: never first. */
static unsigned lead(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    if (first < 0xE0)
        return 2;
    if (first == 0xE0)
        *low = 0xA0;
    if (first == 0xED)
        *high = 0x9F;
    if (first == 0xF0)
        *low = 0x90;
    if (first == 0xF4)
        *high = 0x8F;
    return first < 0xF0 ? 3 : 4;
}

/* How many of the bytes form a (possibly unfinished) character; *complete says
 * whether it is whole. 0: the first byte can never begin one. */
static unsigned scan(const unsigned char *bytes, size_t size, bool *complete)
{
    unsigned char low, high;
    unsigned length = lead(bytes[0], &low, &high), n = 1;
    *complete = false;
    if (length == 0)
        return 0;
    while (n < length && n < size) {
        if (bytes[n] < low || bytes[n] > high)
            return n;
        low = 0x80;
        high = 0xBF;
        n++;
    }
    *complete = n == length;
    return n;
}

size_t utf8_valid_prefix(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    size_t at = 0;
    while (at < size) {
        bool complete;
        unsigned n = scan(bytes + at, size - at, &complete);
        if (!complete)
            return at;
        at += n;
    }
    return size;
}

static void replacement(buf *out)
{
    buf_add(out, "\xEF\xBF\xBD", 3);
}

/* Two bytes of a surrogate half (ED A0..BF). No character begins so, but Python's
 * incremental decoder, the reference for what a reader sees when, waits for a third
 * byte before it says so. */
static bool is_half_surrogate(const unsigned char *bytes, size_t size)
{
    return size == 2 && bytes[0] == 0xED && bytes[1] >= 0xA0 && bytes[1] <= 0xBF;
}

/* Appends what the bytes are; returns how many were consumed: all, or, unless this is
 * the end, all but an unfinished character. */
static size_t drain(const unsigned char *bytes, size_t size, bool at_end, buf *out)
{
    size_t at = 0;
    while (at < size) {
        size_t good = utf8_valid_prefix(bytes + at, size - at);
        buf_add(out, bytes + at, good);
        at += good;
        if (at == size)
            break;
        bool complete;
        unsigned n = scan(bytes + at, size - at, &complete);
        bool unfinished = (n != 0 && at + n == size) || is_half_surrogate(bytes + at, size - at);
        if (unfinished && !at_end)
            break;
        replacement(out);
        at += n ? n : 1;
    }
    return at;
}

void utf8_feed(utf8_tail *tail, const void *data, size_t size, buf *out)
{
    const unsigned char *bytes = data;
    while (tail->size && size) { /* at most three rounds: the tail is done byte by byte */
        tail->bytes[tail->size++] = *bytes++;
        size--;
        size_t used = drain(tail->bytes, tail->size, false, out);
        memmove(tail->bytes, tail->bytes + used, tail->size - used);
        tail->size -= (unsigned)used;
    }
    if (!size)
        return;
    size_t used = drain(bytes, size, false, out);
    memcpy(tail->bytes, bytes + used, size - used);
    tail->size = (unsigned)(size - used);
}

void utf8_finish(utf8_tail *tail, buf *out)
{
    drain(tail->bytes, tail->size, true, out);
    tail->size = 0;
}
