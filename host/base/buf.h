/*
 * base/buf.h - growable bytes with a hard maximum.
 *
 * A buf belongs to whoever declared it. Appending past the maximum, or without
 * memory, sets `failed` and drops the bytes; all later appends are dropped too,
 * so that a writer checks once, at the end. The bytes are always followed by a
 * NUL that `size` does not count, once anything was appended.
 * Not locked: one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <pawl/plugin.h>

#include <stdbool.h>

typedef struct buf {
    char *data;  /* NULL until the first append */
    size_t size; /* bytes in use                */
    size_t room; /* bytes allocated             */
    size_t max;  /* size never exceeds it       */
    bool failed; /* something was dropped       */
} buf;

void buf_init(buf *b, size_t max);
void buf_clear(buf *b);                              /* frees; the buf may be used again         */
void buf_reset(buf *b);                              /* size 0, not failed; keeps the memory     */
bool buf_add(buf *b, const void *data, size_t size); /* false: dropped         */
bool buf_add_text(buf *b, const char *text);
bool buf_printf(buf *b, const char *format, ...) PAWL_PRINTF(2, 3);
const char *buf_text(const buf *b); /* "" when nothing was appended            */
void buf_trim(buf *b);              /* gives back the memory that is not in use       */
char *buf_take(buf *b);             /* the bytes, now the caller's to free(); NULL if failed */
pawl_bytes buf_bytes(const buf *b);
pawl_sink buf_sink(buf *b); /* a plugin's sink that appends here       */

#endif /* BASE_BUF_H */
