/*
 * tokenizer/classes.h - Unicode classes of characters, and UTF-8 decoding.
 *
 * What the pre-tokenizer patterns ask about a character: \p{L} \p{N} \p{M} \s and
 * line ends. A two-level table: `page` gives the block of 256 characters, equal
 * blocks are stored once. ASCII has a table of its own.
 *
 * Owned by a tokenizer, immutable after classes_init(): any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_CLASSES_H
#define TOKENIZER_CLASSES_H

#include <pawl/plugin.h>

#include <stdbool.h>

/* A character's class is a set of these; 0: anything else. */
enum class_bit {
    CLASS_LETTER = 1 << 0,
    CLASS_NUMBER = 1 << 1,
    CLASS_MARK = 1 << 2,
    CLASS_SPACE = 1 << 3,       /* Unicode White_Space; \r and \n too          */
    CLASS_NEWLINE = 1 << 4,     /* \r and \n alone                             */
    CLASS_COMPOSES = 1 << 5,    /* NFC may change text that has it            */
    CLASS_NEWEST_DIGIT = 1 << 6 /* a digit to some rules, nothing to others */
};

#define CLASS_PAGES 0x1100 /* 0x110000 code points by 256                  */
#define CLASS_MAX_BLOCKS 512

struct classes {
    uint8_t ascii[128];
    uint16_t page[CLASS_PAGES];
    uint8_t (*blocks)[256]; /* owned; n_blocks of them                     */
    uint32_t n_blocks;
};

pawl_status classes_init(struct classes *classes, pawl_error *error);
void classes_clear(struct classes *classes);

/* One character of UTF-8 at data, size >= 1: its length, and the code point. A
 * byte that begins no valid character is a character of its own of length 1,
 * with *code set to UINT32_MAX. */
uint32_t classes_decode(const uint8_t *data, size_t size, uint32_t *code);

static inline uint8_t classes_of(const struct classes *classes, uint32_t code)
{
    return code <= 0x10ffff ? classes->blocks[classes->page[code >> 8]][code & 0xff] : 0;
}

/* The class of the character at data, size >= 1, and its length. */
static inline uint8_t classes_at(const struct classes *classes, const uint8_t *data, size_t size,
                                 uint32_t *length)
{
    uint32_t code;
    if (*data < 0x80) {
        *length = 1;
        return classes->ascii[*data];
    }
    *length = classes_decode(data, size, &code);
    return classes_of(classes, code);
}

#endif /* TOKENIZER_CLASSES_H */
