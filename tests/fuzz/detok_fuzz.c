/*
 * tests/fuzz/detok_fuzz.c - any bytes as text: the pieces of its ids are the text.
 *
 * The first byte chooses rule, cut and kinds of segments; 0xff: a vocabulary follows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "toy_vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int open_vocabulary(const uint8_t *data, size_t size)
{
    gguf_file *file = NULL;
    pawl_tokenizer *tokenizer = NULL;
    if (gguf_open_memory(data, size, &file, NULL) == PAWL_OK)
        (void)tokenizer_load(file, &tokenizer, NULL);
    gguf_close(file);
    tokenizer_close(tokenizer);
    return 0;
}

static void check(const pawl_tokenizer *t, const pawl_segment parts[2], const char *text, size_t n)
{
    const pawl_tokenizer_api *api = pawl_plugin_entry_v1()->get_interface(PAWL_TOKENIZER);
    uint64_t needed = 0, at = 0;
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    if (!ids || api->encode(t, parts, 2, ids, n + 1, &needed, NULL) != PAWL_OK || needed > n)
        abort();
    for (uint64_t i = 0; i < needed; i++) {
        pawl_bytes piece = api->piece(t, ids[i]);
        if (piece.size > n - at || memcmp(piece.data, text + at, (size_t)piece.size) != 0)
            abort();
        at += piece.size;
    }
    free(ids);
    if (at != n)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static pawl_tokenizer *by_rule[3];
    static struct toy toy;
    for (int i = 0; i < 3 && !by_rule[i]; i++) {
        toy_init(&toy);
        toy.pre = i == 0 ? "gpt-2" : i == 1 ? "smollm" : "llama-bpe";
        if (toy_open(&toy, &by_rule[i], NULL) != PAWL_OK)
            abort();
    }
    if (size == 0 || data[0] == 0xff)
        return size ? open_vocabulary(data + 1, size - 1) : 0;
    const char *text = (const char *)data + 1;
    uint64_t n = size - 1, cut = n * (data[0] >> 4) / 15;
    check(by_rule[(data[0] >> 2) % 3],
          (pawl_segment[]){{{text, cut}, data[0] & 1}, {{text + cut, n - cut}, data[0] >> 1 & 1}},
          text, n);
    return 0;
}
