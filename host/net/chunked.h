/*
 * net/chunked.h - a request body in chunks, taken apart.
 *
 * libwebsockets hands such a body over as it came, with its chunk sizes; this reads
 * the framing of RFC 9112 section 7.1. Extensions and trailers are skipped, within
 * limits. Not locked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_CHUNKED_H
#define NET_CHUNKED_H

#include "base/buf.h"

#define CHUNKED_MAX_LINE 4096     /* a size with its extensions, or a trailer */
#define CHUNKED_MAX_TRAILER 16384 /* all trailers                             */

enum chunked_result {
    CHUNKED_MORE, /* all bytes are used, the body goes on              */
    CHUNKED_END,  /* the body is whole                                 */
    CHUNKED_BAD,  /* no chunked body                                   */
    CHUNKED_FULL  /* it does not fit in `out`                          */
};

enum chunked_state {
    CHUNKED_SIZE,
    CHUNKED_EXTENSION,
    CHUNKED_SIZE_LF,
    CHUNKED_DATA,
    CHUNKED_DATA_CR,
    CHUNKED_DATA_LF,
    CHUNKED_TRAILER,
    CHUNKED_TRAILER_LF,
    CHUNKED_OVER
};

typedef struct chunked {
    enum chunked_state state;
    uint64_t left;   /* of the size being read, then of the chunk    */
    unsigned digits; /* of the size                                  */
    size_t line;     /* bytes of the line being skipped              */
    size_t trailer;  /* bytes of all trailers                        */
} chunked;

void chunked_init(chunked *c);
/* Reads the next bytes of the connection and appends what they carry to out. *used:
 * how many belong to the body, when it is whole. */
enum chunked_result chunked_feed(chunked *c, const char *data, size_t size, size_t *used, buf *out);

#endif /* NET_CHUNKED_H */
