/*
 * tests/fuzz/html_fuzz.c - any bytes as a page.
 *
 * Its text is never longer than the page and one newline; it is UTF-8 if the page is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/html.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *page = malloc(size ? size : 1); /* of exactly its size, for AddressSanitizer */
    buf out;
    if (size)
        memcpy(page, data, size);
    buf_init(&out, 2 * size + 16);
    if (!html_to_text(page, size, &out) || out.size > size + 1)
        abort();
    if (utf8_valid_prefix(page, size) == size && utf8_valid_prefix(out.data, out.size) != out.size)
        abort();
    buf_clear(&out);
    free(page);
    return 0;
}
