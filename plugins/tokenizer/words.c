/*
 * tokenizer/words.c - filling the table of words.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/words.h"

#include <stdlib.h>

pawl_status words_init(struct words *words, uint64_t n, struct hash_seed seed, pawl_error *error)
{
    uint64_t slots = 16;
    while (slots < n * 2)
        slots *= 2;
    words->slots = calloc((size_t)slots, sizeof *words->slots);
    if (!words->slots)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %llu words", (unsigned long long)n);
    words->mask = slots - 1;
    words->seed = seed;
    return PAWL_OK;
}

void words_clear(struct words *words)
{
    free(words->slots);
    words->slots = NULL;
}

void words_put(struct words *words, const uint8_t *data, uint32_t size, int32_t token)
{
    struct word key = words_key(words, data, size);
    uint64_t at = hash_pair(words->seed, key.low, key.high ^ key.size) & words->mask;
    for (; words->slots[at].size != 0; at = (at + 1) & words->mask)
        if (words->slots[at].low == key.low && words->slots[at].high == key.high &&
            words->slots[at].size == key.size)
            return;
    key.token = token;
    words->slots[at] = key;
}
