/*
 * chat/emitter.c - turns the parser's bytes into events. See emitter.h.
 *
 * Owns the pending text. Runs on the thread of the parser's owner.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/emitter.h"

enum { RUN_SIZE = 4096 }; /* a longer run goes out in several events */

void emitter_init(struct emitter *emitter)
{
    *emitter = (struct emitter){0};
    text_init(&emitter->text, 2 * RUN_SIZE);
}

void emitter_clear(struct emitter *emitter)
{
    text_clear(&emitter->text);
}

static void deliver(struct emitter *emitter, int32_t type, uint64_t index, const char *data,
                    size_t size)
{
    pawl_chat_event event = {sizeof event, type, index, {data, size}};
    emitter->emit(emitter->arg, &event);
}

void emitter_flush(struct emitter *emitter)
{
    struct text *text = &emitter->text;
    if (text->size == 0)
        return;
    deliver(emitter, emitter->type, emitter->index, text->data, text->size);
    text->size = 0;
}

void emitter_add(struct emitter *emitter, int32_t type, uint64_t index, const char *data,
                 size_t size)
{
    struct text *text = &emitter->text;
    if (size == 0)
        return;
    if (emitter->type != type || emitter->index != index)
        emitter_flush(emitter);
    /* A first byte that begins a character is where a long run may be cut. */
    if (text->size >= RUN_SIZE && ((unsigned char)data[0] & 0xC0) != 0x80)
        emitter_flush(emitter);
    if (size >= RUN_SIZE || text->size + size > text->limit) {
        emitter_flush(emitter);
        deliver(emitter, type, index, data, size);
        return;
    }
    emitter->type = type;
    emitter->index = index;
    text_add(text, data, size);
}

void emitter_event(struct emitter *emitter, int32_t type, uint64_t index, const char *data,
                   size_t size)
{
    emitter_flush(emitter);
    deliver(emitter, type, index, data, size);
}
