/*
 * base/buf.c - growable bytes with a hard maximum. See buf.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define MOST (SIZE_MAX / 4) /* so that no sum or doubling below can overflow */

void buf_init(buf *b, size_t max)
{
    *b = (buf){.max = max < MOST ? max : MOST};
}

void buf_clear(buf *b)
{
    size_t max = b->max;
    free(b->data);
    buf_init(b, max);
}

void buf_reset(buf *b)
{
    b->size = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

/* Makes room for `more` bytes and the NUL. */
static bool grow(buf *b, size_t more)
{
    if (b->failed || more > b->max - b->size) {
        b->failed = true;
        return false;
    }
    size_t need = b->size + more + 1;
    if (need <= b->room)
        return true;
    size_t room = b->room ? b->room : 64;
    while (room < need)
        room *= 2;
    char *data = realloc(b->data, room);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->room = room;
    return true;
}

void buf_trim(buf *b)
{
    char *data = b->data ? realloc(b->data, b->size + 1) : NULL;
    if (!data)
        return;
    b->data = data;
    b->room = b->size + 1;
}

bool buf_add(buf *b, const void *data, size_t size)
{
    if (!grow(b, size))
        return false;
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    b->data[b->size] = '\0';
    return true;
}

bool buf_add_text(buf *b, const char *text)
{
    return buf_add(b, text, strlen(text));
}

bool buf_printf(buf *b, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    bool ok = size >= 0 && grow(b, (size_t)size);
    if (ok) {
        vsnprintf(b->data + b->size, (size_t)size + 1, format, again);
        b->size += (size_t)size;
    }
    va_end(again);
    return ok;
}

const char *buf_text(const buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(buf *b)
{
    char *data = NULL;
    if (!b->failed && (b->data || grow(b, 0))) {
        b->data[b->size] = '\0';
        data = b->data;
        b->data = NULL;
    }
    buf_clear(b);
    return data;
}

pawl_bytes buf_bytes(const buf *b)
{
    return (pawl_bytes){buf_text(b), b->size};
}

static pawl_status sink_write(void *context, const void *data, uint64_t size)
{
    return buf_add(context, data, (size_t)size) ? PAWL_OK : PAWL_E_LIMIT;
}

pawl_sink buf_sink(buf *b)
{
    return (pawl_sink){b, sink_write};
}
