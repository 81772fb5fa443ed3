/*
 * script/html_names.h - names that HTML gives a meaning: elements and characters.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_HTML_NAMES_H
#define SCRIPT_HTML_NAMES_H

#include <stddef.h>
#include <stdint.h>

#define HTML_MAX_NAME 8 /* bytes of a character's name */

enum html_effect {
    HTML_NONE,  /* its text goes on in the line  */
    HTML_LINE,  /* it has lines of its own       */
    HTML_BLOCK, /* and empty ones around         */
    HTML_CELL   /* spaces around                 */
};

/* Of an element, by its name in small letters. */
enum html_effect html_effect_of(const char *name);
/* The character that &name; stands for; 0: it is none that we know. */
uint32_t html_named(const char *name, size_t size);
/* What the bytes 0x80 to 0x9F mean in Windows-1252; 0: nothing. */
extern const uint16_t html_windows_1252[32];

#endif /* SCRIPT_HTML_NAMES_H */
