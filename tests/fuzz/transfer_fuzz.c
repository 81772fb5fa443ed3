/*
 * fuzz/transfer_fuzz.c - one line of an import. What is accepted is written again, and
 * what was written is accepted and comes out the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/transfer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* The line as this program writes it; false: it writes none of this kind. */
static bool write_again(const transfer_line *line, buf *out)
{
    if (line->kind == TRANSFER_CONVERSATION) {
        must(transfer_add_conversation(out, &line->conversation));
        return true;
    }
    if (line->kind != TRANSFER_RESPONSE || line->same)
        return false;
    must(transfer_add_response(out, &line->response, line->removed, NULL));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    transfer_line line, again;
    pawl_error error = {.struct_size = sizeof error};
    buf first, second;
    if (transfer_parse((const char *)data, size, &line, &error) != PAWL_OK) {
        must(error.message[0] != '\0');
        return 0;
    }
    buf_init(&first, 64u << 20);
    buf_init(&second, 64u << 20);
    if (write_again(&line, &first)) {
        must(memchr(first.data, '\n', first.size) == first.data + first.size - 1);
        must(transfer_parse(first.data, first.size - 1, &again, &error) == PAWL_OK);
        must(write_again(&again, &second));
        must(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
        transfer_clear(&again);
    }
    buf_clear(&first);
    buf_clear(&second);
    transfer_clear(&line);
    return 0;
}
