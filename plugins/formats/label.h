/*
 * formats/label.h - names out of hostile files, made fit for a message.
 *
 * Cut short, and printable ASCII only. Pure: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FORMATS_LABEL_H
#define FORMATS_LABEL_H

#include <pawl/plugin.h>

#include <string.h>

struct label {
    char text[72];
};

static inline struct label label_of(pawl_bytes name)
{
    struct label label;
    size_t n = 0;
    for (; n < name.size && n < sizeof label.text - 1; n++) {
        char c = name.data[n];
        label.text[n] = c >= 0x20 && c < 0x7f ? c : '?';
    }
    label.text[n] = '\0';
    if (n < name.size)
        memcpy(label.text + n - 3, "...", 3);
    return label;
}

#endif /* FORMATS_LABEL_H */
