/*
 * chat/text.h - a growable run of bytes with a hard maximum.
 *
 * Failure is sticky: after the first add that found no memory, or that would
 * have passed the limit, `status` says so and later adds do nothing. A caller
 * may so build a whole text and look once, at the end.
 *
 * The struct owns `data`; text_clear() gives it back. One thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_TEXT_H
#define CHAT_TEXT_H

#include <pawl/plugin.h>

struct text {
    char *data;         /* size bytes in use, room allocated; NULL while empty */
    size_t size;        /* never above limit                                   */
    size_t room;        /* allocated                                           */
    size_t limit;       /* hard maximum of size                                */
    pawl_status status; /* PAWL_OK, PAWL_E_MEMORY or PAWL_E_LIMIT; sticky      */
};

void text_init(struct text *text, size_t limit);
void text_clear(struct text *text); /* frees; the text may be used again */

void text_add(struct text *text, const char *data, size_t size);
void text_add_byte(struct text *text, char byte);
void text_add_string(struct text *text, const char *string);

#endif /* CHAT_TEXT_H */
