/*
 * tokenizer/normal.c - NFC by way of utf8proc.
 *
 * The reference tokenizer normalises by the tables of Unicode 9, utf8proc by newer
 * ones. Text that Unicode 9 has assigned gives the same either way; a combining mark
 * that came later is, for the reference, a character that nothing combines with. So
 * such marks, like bytes that are not UTF-8, are copied, and utf8proc is handed the
 * stretches between them. U+11A7 is among them because utf8proc up to 2.8 takes it
 * for a final consonant and drops it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/normal.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

struct range {
    uint32_t first;
    uint32_t last;
};

/* Marks of a combining class other than 0, and a letter that composes with what
 * stands before it, which are younger than Unicode 9; and U+11A7. Sorted. */
static const struct range late[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},
    {0xc3c, 0xc3c},     {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x11a7, 0x11a7},
    {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},   {0xa82c, 0xa82c},
    {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
    {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42},
    {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
};

static bool is_late(uint32_t code)
{
    size_t low = 0, high = sizeof late / sizeof *late;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code > late[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < sizeof late / sizeof *late && code >= late[low].first;
}

struct buffer {
    uint8_t *data;
    size_t size;
    size_t room;
};

static pawl_status append(struct buffer *to, const uint8_t *data, size_t size, pawl_error *error)
{
    if (size > to->room - to->size) {
        size_t room = to->room + to->room / 2 + size + 64;
        uint8_t *grown = realloc(to->data, room);
        if (!grown)
            return pawl_fail(error, PAWL_E_MEMORY, "no memory to normalise %zu bytes", room);
        to->data = grown;
        to->room = room;
    }
    if (size > 0)
        memcpy(to->data + to->size, data, size);
    to->size += size;
    return PAWL_OK;
}

/* Length of what can be handed over from the start; *needed: NFC may change it.
 * *stop: length of the byte or mark behind it that is copied, 0 at the end. */
static size_t stretch_end(const struct classes *classes, const uint8_t *text, size_t size,
                          bool *needed, uint32_t *stop)
{
    size_t at = 0;
    *needed = false;
    while (at < size) {
        uint32_t code, length;
        if (text[at] < 0x80) {
            at++;
            continue;
        }
        length = classes_decode(text + at, size - at, &code);
        bool composes = classes_of(classes, code) & CLASS_COMPOSES;
        if (code == UINT32_MAX || (composes && is_late(code))) {
            *stop = length;
            return at;
        }
        *needed = *needed || composes;
        at += length;
    }
    *stop = 0;
    return at;
}

static pawl_status append_nfc(struct buffer *to, const uint8_t *text, size_t size,
                              pawl_error *error)
{
    utf8proc_uint8_t *composed = NULL;
    utf8proc_ssize_t got =
        utf8proc_map(text, (utf8proc_ssize_t)size, &composed, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (got < 0)
        return pawl_fail(error, got == UTF8PROC_ERROR_NOMEM ? PAWL_E_MEMORY : PAWL_E_INTERNAL,
                         "normalising %zu bytes: %s", size, utf8proc_errmsg(got));
    pawl_status status = append(to, composed, (size_t)got, error);
    free(composed);
    return status;
}

pawl_status normal_nfc(const struct classes *classes, const uint8_t *text, size_t size,
                       uint8_t **normal, size_t *normal_size, pawl_error *error)
{
    struct buffer to = {NULL, 0, 0};
    uint32_t stop;
    bool needed, ever = false;
    for (size_t at = 0; at < size && !ever; at += stop) /* look before copying */
        at += stretch_end(classes, text + at, size - at, &ever, &stop);
    if (!ever) {
        *normal = NULL;
        *normal_size = size;
        return PAWL_OK;
    }
    pawl_status status = PAWL_OK;
    for (size_t at = 0; at < size && status == PAWL_OK;) {
        size_t stretch = stretch_end(classes, text + at, size - at, &needed, &stop);
        if (needed)
            status = append_nfc(&to, text + at, stretch, error);
        else
            status = append(&to, text + at, stretch, error);
        at += stretch;
        if (status == PAWL_OK && stop > 0)
            status = append(&to, text + at, stop, error);
        at += stop;
    }
    if (status != PAWL_OK) {
        free(to.data);
        return status;
    }
    *normal = to.data;
    *normal_size = to.size;
    return PAWL_OK;
}
