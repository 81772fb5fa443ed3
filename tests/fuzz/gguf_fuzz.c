/*
 * tests/fuzz/gguf_fuzz.c - any bytes as a GGUF file.
 *
 * What opens is read through: every string, number and byte of tensor data that the
 * reader hands out must lie inside the input.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "formats/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void inside(const uint8_t *data, size_t size, const void *part, uint64_t bytes)
{
    const uint8_t *begin = part;
    if (bytes && (begin < data || bytes > size || begin > data + (size - bytes)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf_file *file = NULL;
    pawl_error error = {.struct_size = sizeof error};
    if (gguf_open_memory(data, size, &file, &error) != PAWL_OK) {
        if (file || error.message[0] == '\0')
            abort();
        return 0;
    }
    for (uint64_t i = 0; i < gguf_pair_count(file); i++) {
        uint32_t type;
        char key[64];
        gguf_array array;
        pawl_bytes name = gguf_pair(file, i, &type);
        inside(data, size, name.data, name.size);
        snprintf(key, sizeof key, "%.*s", (int)(name.size < 60 ? name.size : 60), name.data);
        if (!gguf_get_array(file, key, &array))
            continue;
        inside(data, size, array.data, array.bytes);
        for (uint64_t k = 0; k < array.count; k++) {
            double number;
            pawl_bytes text = gguf_array_string(file, &array, k);
            inside(data, size, text.data, text.size);
            (void)gguf_array_f64(&array, k, &number);
        }
    }
    for (uint64_t i = 0; i < gguf_tensor_count(file); i++)
        inside(data, size, gguf_tensor_at(file, i)->data, gguf_tensor_at(file, i)->bytes);
    gguf_close(file);
    return 0;
}
