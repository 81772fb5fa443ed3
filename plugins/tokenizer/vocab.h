/*
 * tokenizer/vocab.h - a byte-level BPE vocabulary, read from GGUF metadata.
 *
 * Copies what it needs out of the file, which may be closed afterwards. Refuses what
 * contradicts itself, naming the token or merge.
 *
 * Immutable after vocab_load(): any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_VOCAB_H
#define TOKENIZER_VOCAB_H

#include "formats/gguf.h"
#include "tokenizer/hash.h"

#define VOCAB_MAX_TOKENS (1u << 20)
#define VOCAB_MAX_MERGES (1u << 21)
#define VOCAB_MAX_PIECE 65535u /* bytes of one token                       */

/* Values of tokenizer.ggml.token_type. */
enum vocab_type {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2,
    VOCAB_CONTROL = 3,
    VOCAB_USER = 4,
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6
};

/* left and right become into; the rank is the place in the list. */
struct vocab_merge {
    uint32_t left;
    uint32_t right;
    uint32_t into;
};

struct vocab {
    uint32_t n;
    uint32_t n_merges;
    uint8_t *bytes;             /* owned: all pieces, end to end                    */
    uint64_t *begin;            /* owned: n + 1 places in bytes                     */
    uint8_t *types;             /* owned: enum vocab_type                           */
    uint8_t *mapped;            /* owned: 1: written in the byte alphabet           */
    struct vocab_merge *merges; /* owned                                   */
};

/* The file's tokens and merges; seed: for the table that finds names. */
pawl_status vocab_load(struct vocab *vocab, const gguf_file *file, struct hash_seed seed,
                       pawl_error *error);
void vocab_clear(struct vocab *vocab);

/* The bytes of a token; id < n. */
static inline pawl_bytes vocab_piece(const struct vocab *vocab, uint32_t id)
{
    return (pawl_bytes){(const char *)vocab->bytes + vocab->begin[id],
                        vocab->begin[id + 1] - vocab->begin[id]};
}

#endif /* TOKENIZER_VOCAB_H */
