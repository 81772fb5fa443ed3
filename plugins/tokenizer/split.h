/*
 * tokenizer/split.h - pre-tokenizers: where a text is cut before merging.
 *
 * Each family of vocabularies was trained behind a regular expression. Here the
 * expressions are scanners written by hand; a family is a row of a table. The
 * two scanners and the expressions they stand for are described in split.c.
 *
 * Pure functions on constant tables: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H

#include <pawl/plugin.h>

#include "tokenizer/classes.h"

struct split_rule {
    const char *pre; /* value of tokenizer.ggml.pre                        */
    size_t (*next)(const struct split_rule *rule, const struct classes *classes,
                   const uint8_t *text, size_t size);
    uint8_t letters;    /* classes that make up words                      */
    uint8_t digits;     /* classes that are digits                         */
    uint8_t max_digits; /* of one piece of digits; 0: any number           */
    bool any_case;      /* 'S is a contraction like 's                     */
    bool digits_alone;  /* digits are cut out before the expression runs   */
    bool nfc;           /* text is normalised first                        */
    bool ignore_merges; /* a piece that is a token is that token           */
    bool add_bos;       /* unless the file says otherwise                  */
};

/* The rule of this name, or NULL. */
const struct split_rule *split_find(pawl_bytes pre);

/* Length of the first piece of the text, size >= 1. */
static inline size_t split_next(const struct split_rule *rule, const struct classes *classes,
                                const uint8_t *text, size_t size)
{
    return rule->next(rule, classes, text, size);
}

#endif /* TOKENIZER_SPLIT_H */
