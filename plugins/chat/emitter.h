/*
 * chat/emitter.h - turns the parser's bytes into events.
 *
 * The parser works byte by byte; a receiver wants runs of text. Bytes of one
 * kind are joined here until another kind comes, the piece that is being fed
 * ends, or enough is together. A run is never cut inside a character.
 *
 * Belongs to one parser and runs on its owner's thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_EMITTER_H
#define CHAT_EMITTER_H

#include "chat/text.h"

struct emitter {
    pawl_chat_emit emit; /* the receiver of the feed() or finish() that is running */
    void *arg;
    int32_t type;     /* of the pending text                                      */
    uint64_t index;   /* of the pending text's call                               */
    struct text text; /* pending; its status is the emitter's failure             */
};

void emitter_init(struct emitter *emitter);
void emitter_clear(struct emitter *emitter);

/* More text of a kind whose neighbours are joined. */
void emitter_add(struct emitter *emitter, int32_t type, uint64_t index, const char *data,
                 size_t size);

/* An event of its own, after what is pending. */
void emitter_event(struct emitter *emitter, int32_t type, uint64_t index, const char *data,
                   size_t size);

void emitter_flush(struct emitter *emitter);

#endif /* CHAT_EMITTER_H */
