/*
 * tokenizer/tokenizer.h - what a pawl_tokenizer is inside.
 *
 *     segments -> control tokens | gaps of text     encode.c, control.c
 *     gap      -> NFC, where the family needs it    normal.c
 *              -> pieces                            split.c, classes.c
 *     piece    -> one token                         words.c
 *              or merged                            merge.c
 *
 * Immutable after tokenizer_open(): every function but open and close may be called
 * from any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "tokenizer/classes.h"
#include "tokenizer/control.h"
#include "tokenizer/merge.h"
#include "tokenizer/split.h"
#include "tokenizer/vocab.h"
#include "tokenizer/words.h"

/* Tokens with a name of their own. */
enum special { SPECIAL_BOS, SPECIAL_EOS, SPECIAL_EOT, SPECIAL_UNK, SPECIAL_PAD, SPECIAL_COUNT };

struct pawl_tokenizer {
    struct vocab vocab;
    struct classes classes;
    struct merges merges;
    struct words words;
    struct controls controls;
    const struct split_rule *rule;
    uint8_t *flags;                  /* owned: enum pawl_token_flag, each token */
    int32_t specials[SPECIAL_COUNT]; /* -1: none                            */
    bool add_bos;
    char name[64];
    char digest[65]; /* hex SHA-256                                         */
};

/* Text of one call to encode(), all segments together. */
#define ENCODE_MAX_BYTES (256u << 20)

pawl_status tokenizer_open(pawl_bytes path, pawl_tokenizer **tokenizer, pawl_error *error);
/* The same from metadata that is open already, and that may be closed afterwards. */
pawl_status tokenizer_load(const gguf_file *file, pawl_tokenizer **tokenizer, pawl_error *error);
void tokenizer_close(pawl_tokenizer *tokenizer);

pawl_status tokenizer_encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                             uint64_t n_segments, int32_t *tokens, uint64_t room, uint64_t *needed,
                             pawl_error *error);

/* The digest over everything that ids depend on. */
pawl_status tokenizer_digest(const gguf_file *file, const char *rule, char hex[65],
                             pawl_error *error);

#endif /* TOKENIZER_TOKENIZER_H */
