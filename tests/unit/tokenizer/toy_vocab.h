/*
 * tests/unit/tokenizer/toy_vocab.h - a vocabulary small enough to read.
 *
 * Ids 0..255 are the bytes, in order of the bytes; then the merges' results in
 * order of rank; then the control tokens. Changed tokens, types and merges make it
 * damaged. Borrowed strings, one thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_TOY_VOCAB_H
#define TESTS_TOY_VOCAB_H

#include <pawl/plugin_util.h>

#include "gguf_writer.h"
#include "tokenizer/tokenizer.h"

#define TOY_MERGES 9
#define TOY_FIRST_WORD 256
#define TOY_FIRST_CONTROL (TOY_FIRST_WORD + TOY_MERGES)
#define TOY_CONTROLS 6
#define TOY_TOKENS (TOY_FIRST_CONTROL + TOY_CONTROLS)

/* "\xc4\xa0" is how the byte alphabet writes a blank. */
static const char *const toy_merges[TOY_MERGES] = {
    "h e", "l l", "he ll", "hell o", "\xc4\xa0 w", "o r", "\xc4\xa0w or", "a a", "aa aa",
};
static const char *const toy_controls[TOY_CONTROLS] = {
    "<|a|>", "<|a|><|b|>", "<|end|>", "<tool>", "[PAD7]", "<|nope|>",
};
static const int32_t toy_control_types[TOY_CONTROLS] = {3, 3, 3, 4, 4, 5};

struct toy {
    pawl_bytes tokens[TOY_TOKENS];
    int32_t types[TOY_TOKENS];
    pawl_bytes merges[TOY_MERGES];
    char text[TOY_TOKENS][24]; /* of tokens */
    uint64_t n_types;
    const char *model;
    const char *pre;
    uint32_t bos;
};

static inline void toy_init(struct toy *toy)
{
    memset(toy, 0, sizeof *toy);
    int next = 256;
    for (int byte = 0; byte < 256; byte++) {
        bool plain = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        int code = plain ? byte : next++;
        if (code < 0x80)
            snprintf(toy->text[byte], 24, "%c", code);
        else
            snprintf(toy->text[byte], 24, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 0x3f));
    }
    for (int i = 0; i < TOY_MERGES; i++) {
        const char *blank = strchr(toy_merges[i] + 1, ' ');
        snprintf(toy->text[TOY_FIRST_WORD + i], 24, "%.*s%s", (int)(blank - toy_merges[i]),
                 toy_merges[i], blank + 1);
        toy->merges[i] = pawl_text(toy_merges[i]);
    }
    for (int i = 0; i < TOY_CONTROLS; i++)
        snprintf(toy->text[TOY_FIRST_CONTROL + i], 24, "%s", toy_controls[i]);
    for (int i = 0; i < TOY_TOKENS; i++) {
        toy->tokens[i] = pawl_text(toy->text[i]);
        toy->types[i] =
            i < TOY_FIRST_CONTROL ? VOCAB_NORMAL : toy_control_types[i - TOY_FIRST_CONTROL];
    }
    toy->n_types = TOY_TOKENS;
    toy->model = "gpt2";
    toy->pre = "gpt-2";
    toy->bos = TOY_FIRST_CONTROL;
}

/* The vocabulary as a file in w->out; the caller clears w. */
static inline void toy_write(const struct toy *toy, struct gguf_writer *w)
{
    gguf_writer_init(w);
    gguf_put_string(w, "tokenizer.ggml.model", toy->model);
    if (toy->pre)
        gguf_put_string(w, "tokenizer.ggml.pre", toy->pre);
    gguf_put_strings(w, "tokenizer.ggml.tokens", toy->tokens, TOY_TOKENS);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, toy->n_types, toy->types,
                   (size_t)toy->n_types * sizeof *toy->types);
    gguf_put_strings(w, "tokenizer.ggml.merges", toy->merges, TOY_MERGES);
    gguf_put_u32(w, "tokenizer.ggml.bos_token_id", toy->bos);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", true);
    gguf_writer_finish(w);
}

static inline pawl_status toy_open(const struct toy *toy, pawl_tokenizer **tokenizer,
                                   pawl_error *error)
{
    struct gguf_writer w;
    gguf_file *file = NULL;
    toy_write(toy, &w);
    pawl_status status = gguf_open_memory(w.out.data, w.out.size, &file, error);
    if (status == PAWL_OK)
        status = tokenizer_load(file, tokenizer, error);
    gguf_close(file);
    gguf_writer_clear(&w);
    return status;
}

#endif /* TESTS_TOY_VOCAB_H */
