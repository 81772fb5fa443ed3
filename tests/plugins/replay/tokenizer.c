/*
 * tests/plugins/replay/tokenizer.c - one token a byte, and the control tokens.
 *
 * Input text becomes its bytes; a CONTROL segment may also hold control tokens,
 * matched longest first. The pieces of "vocab" come out of replies only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

struct pawl_tokenizer {
    replay_model *model;
    char digest[17];
};

static pawl_status open_tokenizer(pawl_bytes path, pawl_tokenizer **out, pawl_error *error)
{
    pawl_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    pawl_status status = replay_model_open(path, &tokenizer->model, error);
    if (status) {
        free(tokenizer);
        return status;
    }
    snprintf(tokenizer->digest, sizeof tokenizer->digest, "%016llx",
             (unsigned long long)tokenizer->model->digest);
    *out = tokenizer;
    return PAWL_OK;
}

static void close_tokenizer(pawl_tokenizer *tokenizer)
{
    replay_model_close(tokenizer->model);
    free(tokenizer);
}

static void info(const pawl_tokenizer *tokenizer, pawl_tokenizer_info *out)
{
    pawl_tokenizer_info full = {.struct_size = sizeof full,
                                .vocab_size = (uint32_t)tokenizer->model->n_pieces,
                                .bos = -1,
                                .eos = REPLAY_END_OF_TEXT,
                                .eot = REPLAY_IM_END,
                                .name = "replay bytes",
                                .digest = tokenizer->digest};
    pawl_fill(out, &full, sizeof full);
}

/* The longest control token that the text begins with, or -1. */
static int32_t control_at(const replay_model *model, const char *text, uint64_t size)
{
    int32_t best = -1;
    for (size_t i = REPLAY_IM_START; i < model->n_pieces; i++) {
        const replay_piece *piece = &model->pieces[i];
        if ((piece->flags & PAWL_TOKEN_CONTROL) && piece->size <= size &&
            memcmp(piece->text, text, piece->size) == 0 &&
            (best < 0 || piece->size > model->pieces[best].size))
            best = (int32_t)i;
    }
    return best;
}

static pawl_status encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                          uint64_t n_segments, int32_t *tokens, uint64_t room, uint64_t *needed,
                          pawl_error *error)
{
    const replay_model *model = tokenizer->model;
    uint64_t n = 0;
    (void)error;
    for (uint64_t s = 0; s < n_segments; s++) {
        pawl_bytes text = segments[s].text;
        for (uint64_t i = 0; i < text.size; n++) {
            int32_t token = segments[s].kind == PAWL_SEGMENT_CONTROL && text.data[i] == '<'
                                ? control_at(model, text.data + i, text.size - i)
                                : -1;
            if (n < room)
                tokens[n] = token >= 0 ? token : (unsigned char)text.data[i];
            i += token >= 0 ? model->pieces[token].size : 1;
        }
    }
    *needed = n;
    return PAWL_OK;
}

static pawl_bytes piece(const pawl_tokenizer *tokenizer, int32_t token)
{
    if (token < 0 || (size_t)token >= tokenizer->model->n_pieces)
        return (pawl_bytes){"", 0};
    const replay_piece *found = &tokenizer->model->pieces[token];
    return (pawl_bytes){found->text, found->size};
}

static int32_t token_by_name(const pawl_tokenizer *tokenizer, pawl_bytes name)
{
    if (pawl_bytes_are(name, "eos"))
        return REPLAY_END_OF_TEXT;
    if (pawl_bytes_are(name, "eot"))
        return REPLAY_IM_END;
    int32_t id = replay_find_piece(tokenizer->model, name.data, name.size);
    return id >= 0 && (tokenizer->model->pieces[id].flags & PAWL_TOKEN_CONTROL) ? id : -1;
}

static uint32_t token_flags(const pawl_tokenizer *tokenizer, int32_t token)
{
    bool known = token >= 0 && (size_t)token < tokenizer->model->n_pieces;
    return known ? tokenizer->model->pieces[token].flags : 0;
}

const pawl_tokenizer_api replay_tokenizer = {.struct_size = sizeof replay_tokenizer,
                                             .open = open_tokenizer,
                                             .close = close_tokenizer,
                                             .info = info,
                                             .encode = encode,
                                             .piece = piece,
                                             .token = token_by_name,
                                             .token_flags = token_flags};
