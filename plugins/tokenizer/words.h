/*
 * tokenizer/words.h - pieces that are one token, found in one look.
 *
 * Most pieces of ordinary text merge to a single token. Those tokens are found out
 * when the vocabulary is opened, by merging the bytes of each: so this table never
 * changes an id, only the time it takes, and needs no lock.
 *
 * Belongs to a tokenizer, immutable after opening: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_WORDS_H
#define TOKENIZER_WORDS_H

#include <pawl/plugin.h>

#include "tokenizer/hash.h"

/* Up to 16 bytes are kept in the slot itself; of longer ones two hashes, so that
 * whoever finds one of more than 16 compares the bytes with the token's. */
struct word {
    uint64_t low;
    uint64_t high;
    uint32_t size; /* 0: empty slot                                        */
    int32_t token;
};

struct words {
    struct word *slots; /* owned; mask + 1 of them, open addressing        */
    uint64_t mask;
    struct hash_seed seed;
};

/* Room for n words. */
pawl_status words_init(struct words *words, uint64_t n, struct hash_seed seed, pawl_error *error);
void words_clear(struct words *words);

/* size >= 1. Of two words of equal bytes the first stays. */
void words_put(struct words *words, const uint8_t *data, uint32_t size, int32_t token);

static inline struct word words_key(const struct words *words, const uint8_t *data, size_t size)
{
    struct word key = {0, 0, (uint32_t)size, -1};
    if (size <= 16) {
        hash_pack(data, size, &key.low, &key.high);
    } else {
        key.low = hash_bytes(words->seed, data, size);
        key.high = hash_bytes((struct hash_seed){words->seed.b, words->seed.a}, data, size);
    }
    return key;
}

/* The one token of these bytes, or -1; of more than 16 bytes: perhaps the token. */
static inline int32_t words_find(const struct words *words, const uint8_t *data, size_t size)
{
    struct word key = words_key(words, data, size);
    uint64_t at = hash_pair(words->seed, key.low, key.high ^ key.size) & words->mask;
    for (; words->slots[at].size != 0; at = (at + 1) & words->mask)
        if (words->slots[at].low == key.low && words->slots[at].high == key.high &&
            words->slots[at].size == key.size)
            return words->slots[at].token;
    return -1;
}

#endif /* TOKENIZER_WORDS_H */
