/*
 * base/utf8.h - a byte stream in, whole UTF-8 characters out.
 *
 * Tokens end where they like, also inside a character. A utf8_tail holds the
 * at most three bytes that may still become one and turns what can never
 * become one into U+FFFD: one for each maximal invalid part, as WHATWG's
 * decoder, Python's "replace" and Rust's from_utf8_lossy do. Not locked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/buf.h"

typedef struct utf8_tail {
    unsigned char bytes[4]; /* an unfinished character so far     */
    unsigned size;          /* how many of them are in use, 0 to 3 */
} utf8_tail;

/* Appends to out all characters that are complete after these bytes. */
void utf8_feed(utf8_tail *tail, const void *data, size_t size, buf *out);
/* The end of the stream: what is held back can no longer become a character. */
void utf8_finish(utf8_tail *tail, buf *out);

/* The offset of the first byte that is not part of valid UTF-8, or size. */
size_t utf8_valid_prefix(const void *data, size_t size);

#endif /* BASE_UTF8_H */
