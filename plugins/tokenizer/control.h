/*
 * tokenizer/control.h - finding control tokens in text.
 *
 * Leftmost-longest: of the tokens that begin at the first place where any begins,
 * the longest. The tokens lie sorted by their bytes; those that share a prefix are
 * neighbours, so a match is a range that narrows byte by byte.
 *
 * Belongs to a tokenizer, immutable after opening: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_CONTROL_H
#define TOKENIZER_CONTROL_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define CONTROL_MAX_SIZE 255 /* bytes of one; bounds the work at each place */

struct control {
    pawl_bytes text; /* borrowed from the vocabulary; 1..CONTROL_MAX_SIZE bytes */
    int32_t token;
};

struct controls {
    struct control *all; /* owned; sorted by text                         */
    uint32_t n;
    uint32_t first[257]; /* all[first[b]..first[b+1]) begin with byte b   */
};

/* Takes a malloc'd array over, whose texts differ from each other. */
void controls_init(struct controls *controls, struct control *all, uint32_t n);
void controls_clear(struct controls *controls);

/* The first match in the text: true, its place, size and token. */
bool controls_find(const struct controls *controls, const uint8_t *text, size_t size, size_t *at,
                   size_t *length, int32_t *token);

/* The token of exactly this text, or -1. */
int32_t controls_named(const struct controls *controls, pawl_bytes text);

#endif /* TOKENIZER_CONTROL_H */
