/*
 * tokenizer/normal.c - NFC by way of utf8proc, which takes valid UTF-8 only: the
 * text is handed over in its valid stretches.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/normal.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

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
    memcpy(to->data + to->size, data, size);
    to->size += size;
    return PAWL_OK;
}

/* Length of the valid stretch at the start; *needed: NFC may change it. */
static size_t valid_stretch(const struct classes *classes, const uint8_t *text, size_t size,
                            bool *needed)
{
    size_t at = 0;
    *needed = false;
    while (at < size) {
        uint32_t code, length = classes_decode(text + at, size - at, &code);
        if (code == UINT32_MAX)
            break;
        if (code >= 0x80 && (classes_of(classes, code) & CLASS_COMPOSES))
            *needed = true;
        at += length;
    }
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
    size_t at = 0;
    bool needed, ever = false;
    while (at < size) { /* most text needs nothing: look before copying */
        at += valid_stretch(classes, text + at, size - at, &needed);
        ever = ever || needed;
        at += at < size;
    }
    if (!ever) {
        *normal = NULL;
        *normal_size = size;
        return PAWL_OK;
    }
    pawl_status status = PAWL_OK;
    for (at = 0; at < size && status == PAWL_OK;) {
        size_t stretch = valid_stretch(classes, text + at, size - at, &needed);
        if (stretch == 0) {
            status = append(&to, text + at++, 1, error);
            continue;
        }
        status = needed ? append_nfc(&to, text + at, stretch, error)
                        : append(&to, text + at, stretch, error);
        at += stretch;
    }
    if (status != PAWL_OK) {
        free(to.data);
        return status;
    }
    *normal = to.data;
    *normal_size = to.size;
    return PAWL_OK;
}
