/*
 * chat/calls.h - the calls of one reply, as a converter finds them.
 *
 * The parser opens a block at its marker and hands its bytes to the dialect's
 * converter, which reports name, arguments and end of each call through the
 * functions below; they become events at once. The raw text of what is not yet
 * a finished call is kept beside it, so that a damaged call can be handed out
 * as the model wrote it.
 *
 * Belongs to one parser and runs on its owner's thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_CALLS_H
#define CHAT_CALLS_H

#include "chat/emitter.h"
#include "chat/json_scan.h"

#include <stdbool.h>

enum {
    CALLS_HELD_MAX = 16 * 1024 * 1024, /* raw text of one call; a longer one is bad */
    CALLS_NAME_MAX = 256
};

struct calls {
    struct emitter *out; /* the parser's                                     */
    uint64_t index;      /* of the current or the next call                  */
    struct text raw;     /* the block since its marker or its last finished
                            call, markers included                           */
    bool started;        /* the block is known to hold calls                 */
    bool any;            /* one of its calls is finished                     */
    bool inside;         /* between the borders of one call                  */
    bool begun;          /* the current call's CALL_BEGIN is out             */
    bool ended;          /* its CALL_END too, its border is still to come    */

    /* convert_json's own */
    struct json_scan scan; /* of the block's content                           */
    uint16_t base;         /* depth of a call's members: 1, in an array 2      */
    uint8_t key;           /* enum call_key of the member being read           */
    uint8_t form;          /* first byte of the arguments; 0: none came        */
    bool named;            /* the name is known                                */
    bool live;             /* arguments go out while they come                 */
    bool complete;         /* arguments are complete                           */
    size_t mark;           /* where in raw the current key or name begins      */
    size_t begin;          /* where in raw the arguments begin ...             */
    size_t end;            /* ... and end                                      */
};

void calls_init(struct calls *calls, struct emitter *out);
void calls_clear(struct calls *calls);

/* A block begins; raw is its marker. */
void calls_open(struct calls *calls, const char *marker, size_t size);

/* For converters: a call's border, its name, more of its arguments, their end. */
void calls_enter(struct calls *calls);
void calls_begin(struct calls *calls, const char *name, size_t size);
void calls_delta(struct calls *calls, const char *data, size_t size);
void calls_end(struct calls *calls);
void calls_leave(struct calls *calls);

/* The current call is damaged: hands out the raw text. */
void calls_bad(struct calls *calls);

#endif /* CHAT_CALLS_H */
