/*
 * chat/json_scan.h - checks JSON one byte at a time.
 *
 * What a model writes arrives in pieces of any size, so nothing here looks
 * ahead: after every byte the scanner knows whether the text so far can still
 * become JSON, and says which borders of keys and values the byte has crossed.
 * The grammar is RFC 8259's, strictly; the nesting is limited.
 *
 * A scanner owns nothing and is copied by assignment.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_JSON_SCAN_H
#define CHAT_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

enum { JSON_MAX_DEPTH = 256 };

/* What one byte did. The end of a number is not reported: only the byte after
 * it shows that it is over. */
enum json_event {
    JSON_BAD = 1 << 0,         /* this byte cannot stand here; the scanner stays bad */
    JSON_KEY_BEGIN = 1 << 1,   /* opening quote of a key                             */
    JSON_KEY_END = 1 << 2,     /* closing quote of a key                             */
    JSON_VALUE_BEGIN = 1 << 3, /* first byte of a value                              */
    JSON_VALUE_END = 1 << 4    /* last byte of a string, literal, object or array    */
};

struct json_scan {
    uint8_t state;                           /* enum scan_state of json_scan.c               */
    bool in_key;                             /* the string being read is a key               */
    uint16_t left;                           /* hexadecimal digits still to come             */
    uint16_t depth;                          /* open objects and arrays                      */
    uint16_t level;                          /* depth of what holds the key or value of the
                                                last event: 0 for the outermost value        */
    const char *literal;                     /* what true, false or null still lacks         */
    uint64_t is_object[JSON_MAX_DEPTH / 64]; /* bit n: level n + 1 is an object */
};

void json_scan_init(struct json_scan *scan);

/* Takes the next byte; returns enum json_event bits. */
unsigned json_scan_byte(struct json_scan *scan, unsigned char byte);

/* True if the bytes so far are one whole value. */
bool json_scan_complete(const struct json_scan *scan);

#endif /* CHAT_JSON_SCAN_H */
