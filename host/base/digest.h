/*
 * base/digest.h - SHA-256, for identity: plugins, models, keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <pawl/plugin.h>

#define DIGEST_SIZE 32
#define DIGEST_HEX_SIZE 65 /* 64 hex digits and a NUL */

/* Of bytes in memory. [any] */
pawl_status digest_bytes(const void *data, size_t size, char hex[DIGEST_HEX_SIZE],
                         pawl_error *error);
/* Of a whole file. [any] */
pawl_status digest_file(const char *path, char hex[DIGEST_HEX_SIZE], pawl_error *error);
/* Of several pieces, each with its length before it, so that no two lists of pieces have
 * the same sum because they join to the same bytes. Binary; sum may be one of the pieces.
 * [any] */
pawl_status digest_pieces(const pawl_bytes *pieces, size_t n_pieces, uint8_t sum[DIGEST_SIZE],
                          pawl_error *error);

#endif /* BASE_DIGEST_H */
