/*
 * kv_help.h - what the tests of the prefix cache share: chunks that follow from numbers
 * alone, putting them, and reading them back byte for byte.
 *
 * Chunk i of conversation c: its key is made of both, its parent is chunk i - 1 of the same
 * conversation (a root where i is 0), its tokens and payload follow from its key.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KV_HELP_H
#define KV_HELP_H

#include "store/kv.h"
#include "store_help.h"

#include <stdio.h>

#define KV_HELP_TOKENS 16

/* A folder in memory where there is one, for tests that flush a thousand times. */
static inline void kv_help_make_folder(char folder[64])
{
    strcpy(folder, "/dev/shm/pawl-kv-XXXXXX");
    if (!mkdtemp(folder))
        help_make_folder(folder);
}

static inline kv_key kv_help_key(uint32_t c, uint32_t i)
{
    kv_key key;
    uint32_t words[8] = {c * 2654435761u + 1, i + 1, c, ~i, c ^ i, 7, i * 40503u, 9};
    memcpy(&key, words, sizeof key);
    return key;
}

static inline void kv_help_tokens(uint32_t c, uint32_t i, int32_t tokens[KV_HELP_TOKENS])
{
    for (uint32_t t = 0; t < KV_HELP_TOKENS; t++)
        tokens[t] = (int32_t)(c * 1000003u + i * 257u + t);
}

static inline uint8_t kv_help_byte(uint32_t c, uint32_t i, uint64_t at)
{
    return (uint8_t)((c * 31u + i * 7u + at * 131u + (at >> 8) * 17u + (at >> 16)) & 0xff);
}

/* Puts chunk i of conversation c. */
static inline pawl_status kv_help_put(kv *k, uint32_t c, uint32_t i, uint64_t size,
                                      const char *tenant)
{
    int32_t tokens[KV_HELP_TOKENS];
    kv_help_tokens(c, i, tokens);
    uint8_t *payload = malloc(size);
    for (uint64_t at = 0; at < size; at++)
        payload[at] = kv_help_byte(c, i, at);
    kv_chunk chunk = {.key = kv_help_key(c, i),
                      .tenant = tenant,
                      .begin = (uint64_t)i * KV_HELP_TOKENS,
                      .tokens = tokens,
                      .n_tokens = KV_HELP_TOKENS,
                      .part = PAWL_STATE_CHUNK,
                      .payload = payload,
                      .size = size};
    if (i > 0)
        chunk.parent = kv_help_key(c, i - 1);
    return kv_put(k, &chunk);
}

enum kv_help_got { KV_HELP_MISS, KV_HELP_FAILED, KV_HELP_RIGHT, KV_HELP_WRONG };

/* Reads chunk i of conversation c, in pieces of odd sizes as an engine might. WRONG: bytes
 * came to a good end that are not its own. */
static inline enum kv_help_got kv_help_read(kv *k, uint32_t c, uint32_t i, uint64_t size)
{
    int32_t tokens[KV_HELP_TOKENS];
    kv_reader *reader;
    pawl_source source;
    uint64_t at = 0, got = 0, n = 1;
    kv_key key = kv_help_key(c, i);
    kv_help_tokens(c, i, tokens);
    if (kv_read(k, &key, tokens, KV_HELP_TOKENS, &reader, &source) != PAWL_OK)
        return KV_HELP_MISS;
    uint8_t *data = malloc(size + 1);
    pawl_status status = PAWL_OK;
    while (!status && at <= size) {
        n = at == 0 ? 7 : size + 1 - at;
        n = n > 1000003 ? 1000003 : n;
        status =
            source.read(source.context, data + at, n > size + 1 - at ? size + 1 - at : n, &got);
        if (status || got == 0)
            break;
        at += got;
    }
    bool right = !status && at == size;
    for (uint64_t b = 0; right && b < size; b++)
        right = data[b] == kv_help_byte(c, i, b);
    kv_read_end(reader, !status && at == size);
    free(data);
    if (status || at != size)
        return KV_HELP_FAILED;
    return right ? KV_HELP_RIGHT : KV_HELP_WRONG;
}

/* How many of the first n chunks of conversation c are there; counts as a use. */
static inline uint64_t kv_help_find(kv *k, uint32_t c, uint32_t n)
{
    kv_key chain[256];
    for (uint32_t i = 0; i < n && i < 256; i++)
        chain[i] = kv_help_key(c, i);
    return kv_find(k, chain, n < 256 ? n : 256);
}

static inline bool kv_help_has(kv *k, uint32_t c, uint32_t i)
{
    kv_key key = kv_help_key(c, i);
    return kv_has(k, &key);
}

static inline kv_stats kv_help_stats(kv *k)
{
    kv_stats stats;
    kv_stats_get(k, &stats);
    return stats;
}

#endif /* KV_HELP_H */
