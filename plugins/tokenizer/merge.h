/*
 * tokenizer/merge.h - byte-pair merging of one piece of text.
 *
 * The bytes of a piece become symbols (tokens of one byte); then, again and again,
 * the neighbouring pair with the lowest rank becomes one symbol, the leftmost one
 * first among equals, until no neighbours are a known pair. What is left are the
 * piece's tokens.
 *
 * `merges` belongs to a tokenizer and is immutable after opening: any thread. A
 * `merge_scratch` belongs to one call and its thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_MERGE_H
#define TOKENIZER_MERGE_H

#include <pawl/plugin.h>

#include <stdbool.h>

#include "tokenizer/hash.h"

#define MERGE_NONE UINT32_MAX

/* Two tokens that may be joined. Empty slot: rank MERGE_NONE. */
struct merge_pair {
    uint64_t key;  /* left << 32 | right                                   */
    uint32_t rank; /* lower merges first                                   */
    uint32_t into; /* the token they become                                */
};

struct merges {
    struct merge_pair *slots; /* owned; mask + 1 of them, open addressing  */
    uint64_t mask;
    uint64_t room; /* pairs that fit                                       */
    struct hash_seed seed;
    int32_t byte_ids[256]; /* token of each byte, -1: none                 */
};

/* Symbols of long pieces; grown as needed, freed with merge_scratch_clear(). */
struct merge_scratch {
    uint32_t *memory; /* owned: one block that holds all arrays            */
    uint64_t *heap;   /* owned                                             */
    size_t room;      /* symbols that fit                                  */
};

/* Room for n pairs; byte_ids all -1. */
pawl_status merges_init(struct merges *merges, uint64_t n, struct hash_seed seed,
                        pawl_error *error);
void merges_clear(struct merges *merges);

/* At most as many calls as merges_init() made room for. A pair that is put twice
 * has the later rank, as in the reference. */
void merges_put(struct merges *merges, uint32_t left, uint32_t right, uint32_t rank, uint32_t into);

/* Tokens that merge_short() can take at once, and then writes at most. */
#define MERGE_SHORT 96

/* The tokens of a piece of at most MERGE_SHORT bytes; returns how many. Bytes
 * without a token are left out, as in the reference. */
size_t merge_short(const struct merges *merges, const uint8_t *piece, size_t size,
                   uint32_t tokens[MERGE_SHORT]);

/* The same for any size. *tokens points into the scratch. */
pawl_status merge_long(const struct merges *merges, const uint8_t *piece, size_t size,
                       struct merge_scratch *scratch, const uint32_t **tokens, size_t *n,
                       pawl_error *error);
void merge_scratch_clear(struct merge_scratch *scratch);

static inline struct merge_pair merges_find(const struct merges *merges, uint32_t left,
                                            uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    uint64_t at = hash_mix(key ^ merges->seed.a, merges->seed.b) & merges->mask;
    while (merges->slots[at].key != key && merges->slots[at].rank != MERGE_NONE)
        at = (at + 1) & merges->mask;
    return merges->slots[at].key == key ? merges->slots[at]
                                        : (struct merge_pair){key, MERGE_NONE, 0};
}

#endif /* TOKENIZER_MERGE_H */
