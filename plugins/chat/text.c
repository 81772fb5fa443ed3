/*
 * chat/text.c - a growable run of bytes with a hard maximum. See text.h.
 *
 * Grows by doubling, never past the limit. Runs on whichever thread uses the
 * text; owns the memory of the texts it grows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64 };

void text_init(struct text *text, size_t limit)
{
    *text = (struct text){.limit = limit};
}

void text_clear(struct text *text)
{
    free(text->data);
    text_init(text, text->limit);
}

/* Room for `size` bytes, which the limit already allows. */
static bool text_grow(struct text *text, size_t size)
{
    size_t room = text->room ? text->room : FIRST_ROOM;
    while (room < size)
        room = room > text->limit / 2 ? text->limit : room * 2;
    char *data = realloc(text->data, room);
    if (!data) {
        text->status = PAWL_E_MEMORY;
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

void text_add(struct text *text, const char *data, size_t size)
{
    if (text->status != PAWL_OK || size == 0)
        return;
    if (size > text->limit - text->size) {
        text->status = PAWL_E_LIMIT;
        return;
    }
    if (text->size + size > text->room && !text_grow(text, text->size + size))
        return;
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

void text_add_byte(struct text *text, char byte)
{
    text_add(text, &byte, 1);
}

void text_add_string(struct text *text, const char *string)
{
    text_add(text, string, strlen(string));
}
