/*
 * chat/calls.c - the calls of one reply. See calls.h.
 *
 * Owns the raw text. Runs on the thread of the parser's owner.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/calls.h"

void calls_init(struct calls *calls, struct emitter *out)
{
    *calls = (struct calls){.out = out};
    text_init(&calls->raw, CALLS_HELD_MAX);
}

void calls_clear(struct calls *calls)
{
    text_clear(&calls->raw);
}

void calls_open(struct calls *calls, const char *marker, size_t size)
{
    calls->raw.size = 0;
    text_add(&calls->raw, marker, size);
    calls->started = calls->any = false;
    calls->inside = calls->begun = calls->ended = false;
}

void calls_enter(struct calls *calls)
{
    calls->inside = true;
    calls->begun = calls->ended = false;
}

void calls_begin(struct calls *calls, const char *name, size_t size)
{
    calls->begun = true;
    emitter_event(calls->out, PAWL_CHAT_CALL_BEGIN, calls->index, name, size);
}

void calls_delta(struct calls *calls, const char *data, size_t size)
{
    emitter_add(calls->out, PAWL_CHAT_CALL_DELTA, calls->index, data, size);
}

void calls_end(struct calls *calls)
{
    emitter_event(calls->out, PAWL_CHAT_CALL_END, calls->index, NULL, 0);
    calls->ended = true;
    calls->index++;
}

void calls_leave(struct calls *calls)
{
    calls->inside = calls->begun = calls->ended = false;
    calls->any = true;
    calls->raw.size = 0;
}

void calls_bad(struct calls *calls)
{
    emitter_event(calls->out, PAWL_CHAT_CALL_BAD, calls->index, calls->raw.data, calls->raw.size);
    if (calls->begun)
        calls->index++;
    calls->begun = calls->ended = false;
    calls->raw.size = 0;
}
