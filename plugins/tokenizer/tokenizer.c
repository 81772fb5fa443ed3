/*
 * tokenizer/tokenizer.c - opening a vocabulary.
 *
 * Builds every table that encoding needs; the file is closed before tokenizer_open()
 * returns. Runs on the thread that opens.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/tokenizer.h"

#include <pawl/plugin_util.h>

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "formats/label.h"

static const char *const special_keys[SPECIAL_COUNT] = {
    [SPECIAL_BOS] = "tokenizer.ggml.bos_token_id",
    [SPECIAL_EOS] = "tokenizer.ggml.eos_token_id",
    [SPECIAL_EOT] = "tokenizer.ggml.eot_token_id",
    [SPECIAL_UNK] = "tokenizer.ggml.unknown_token_id",
    [SPECIAL_PAD] = "tokenizer.ggml.padding_token_id",
};

/* Where a file does not name the end of a turn: what the known families call it. */
static const char *const turn_ends[] = {"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>",
                                        "<|eom_id|>"};

static struct hash_seed make_seed(void)
{
    struct hash_seed seed;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) {
        seed.a = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u;
        seed.b = (uint64_t)(uintptr_t)&seed ^ 0xd1b54a32d192ed03u;
    }
    seed.a |= 1;
    seed.b |= 1;
    return seed;
}

/* "[PAD151646]": filler up to a round vocabulary size, marked as added by some
 * converters. Never text that anyone means. */
static bool is_filler(pawl_bytes piece)
{
    if (piece.size < 6 || memcmp(piece.data, "[PAD", 4) != 0 || piece.data[piece.size - 1] != ']')
        return false;
    for (uint64_t i = 4; i + 1 < piece.size; i++)
        if (piece.data[i] < '0' || piece.data[i] > '9')
            return false;
    return true;
}

static bool is_whole_utf8(pawl_bytes piece)
{
    for (uint64_t at = 0; at < piece.size;) {
        uint32_t code;
        at += classes_decode((const uint8_t *)piece.data + at, (size_t)(piece.size - at), &code);
        if (code == UINT32_MAX)
            return false;
    }
    return true;
}

/* Flags of every token, and the tokens that are matched in control text. */
static pawl_status load_controls(pawl_tokenizer *t, pawl_error *error)
{
    uint32_t n = 0;
    struct control *all = calloc((size_t)t->vocab.n + 1, sizeof *all);
    t->flags = calloc(t->vocab.n, 1);
    if (!all || !t->flags) {
        free(all);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %u tokens", t->vocab.n);
    }
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        pawl_bytes piece = vocab_piece(&t->vocab, id);
        uint8_t type = t->vocab.types[id];
        if (type == VOCAB_CONTROL || type == VOCAB_UNKNOWN)
            t->flags[id] |= PAWL_TOKEN_CONTROL;
        if (!is_whole_utf8(piece))
            t->flags[id] |= PAWL_TOKEN_BYTES;
        if ((type != VOCAB_CONTROL && type != VOCAB_USER) || piece.size == 0 || is_filler(piece))
            continue;
        if (piece.size > CONTROL_MAX_SIZE) {
            free(all);
            return pawl_fail(error, PAWL_E_UNSUPPORTED,
                             "control token %u '%s' is %llu bytes long; at most %d are supported",
                             id, label_of(piece).text, (unsigned long long)piece.size,
                             CONTROL_MAX_SIZE);
        }
        t->flags[id] |= PAWL_TOKEN_ADDED;
        all[n++] = (struct control){piece, (int32_t)id};
    }
    controls_init(&t->controls, all, n);
    return PAWL_OK;
}

static pawl_status load_specials(pawl_tokenizer *t, const gguf_file *file, pawl_error *error)
{
    for (int i = 0; i < SPECIAL_COUNT; i++) {
        uint64_t id;
        t->specials[i] = -1;
        if (!gguf_get_u64(file, special_keys[i], &id))
            continue;
        if (id >= t->vocab.n)
            return pawl_fail(error, PAWL_E_FORMAT, "%s is %llu; the vocabulary has %u tokens",
                             special_keys[i], (unsigned long long)id, t->vocab.n);
        t->specials[i] = (int32_t)id;
    }
    for (size_t i = 0; i < sizeof turn_ends / sizeof *turn_ends; i++)
        if (t->specials[SPECIAL_EOT] < 0)
            t->specials[SPECIAL_EOT] = controls_named(&t->controls, pawl_text(turn_ends[i]));
    if (t->specials[SPECIAL_EOT] == t->specials[SPECIAL_EOS])
        t->specials[SPECIAL_EOT] = -1;

    t->add_bos = t->rule->add_bos;
    (void)gguf_get_bool(file, "tokenizer.ggml.add_bos_token", &t->add_bos);
    t->add_bos = t->add_bos && t->specials[SPECIAL_BOS] >= 0;
    return PAWL_OK;
}

static pawl_status load_merges(pawl_tokenizer *t, struct hash_seed seed, pawl_error *error)
{
    pawl_status status = merges_init(&t->merges, t->vocab.n_merges, seed, error);
    if (status != PAWL_OK)
        return status;
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        pawl_bytes piece = vocab_piece(&t->vocab, id);
        if (t->vocab.mapped[id] && piece.size == 1)
            t->merges.byte_ids[(uint8_t)piece.data[0]] = (int32_t)id;
    }
    for (uint32_t rank = 0; rank < t->vocab.n_merges; rank++) {
        struct vocab_merge merge = t->vocab.merges[rank];
        merges_put(&t->merges, merge.left, merge.right, rank, merge.into);
    }
    return PAWL_OK;
}

/* True if merging the token's own bytes gives the token again. */
static bool merges_to_itself(const pawl_tokenizer *t, uint32_t id, pawl_bytes piece)
{
    uint32_t tokens[MERGE_SHORT];
    return piece.size <= MERGE_SHORT &&
           merge_short(&t->merges, (const uint8_t *)piece.data, (size_t)piece.size, tokens) == 1 &&
           tokens[0] == id;
}

static pawl_status load_words(pawl_tokenizer *t, struct hash_seed seed, pawl_error *error)
{
    pawl_status status = words_init(&t->words, t->vocab.n, seed, error);
    for (uint32_t id = 0; status == PAWL_OK && id < t->vocab.n; id++) {
        pawl_bytes piece = vocab_piece(&t->vocab, id);
        if (t->vocab.mapped[id] && (t->rule->ignore_merges || merges_to_itself(t, id, piece)))
            words_put(&t->words, (const uint8_t *)piece.data, (uint32_t)piece.size, (int32_t)id);
    }
    return status;
}

/* Which rule the file asks for. */
static pawl_status find_rule(const gguf_file *file, const struct split_rule **rule,
                             pawl_error *error)
{
    pawl_bytes model = {NULL, 0}, pre = {NULL, 0};
    if (!gguf_get_string(file, "tokenizer.ggml.model", &model))
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "the file has no tokenizer.ggml.model");
    if (!pawl_bytes_are(model, "gpt2"))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "tokenizer.ggml.model '%s' is not known; known: 'gpt2' (byte-level BPE)",
                         label_of(model).text);
    if (!gguf_get_string(file, "tokenizer.ggml.pre", &pre))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "the file has no tokenizer.ggml.pre, so how "
                         "its text is split is not known");
    *rule = split_find(pre);
    if (!*rule)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "tokenizer.ggml.pre '%s' is not known",
                         label_of(pre).text);
    return PAWL_OK;
}

pawl_status tokenizer_load(const gguf_file *file, pawl_tokenizer **tokenizer, pawl_error *error)
{
    const struct split_rule *rule = NULL;
    pawl_status status = find_rule(file, &rule, error);
    if (status != PAWL_OK)
        return status;
    pawl_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a tokenizer");
    struct hash_seed seed = make_seed();
    t->rule = rule;
    snprintf(t->name, sizeof t->name, "bpe gpt2/%s", rule->pre);
    status = vocab_load(&t->vocab, file, seed, error);
    if (status == PAWL_OK)
        status = classes_init(&t->classes, error);
    if (status == PAWL_OK)
        status = load_controls(t, error);
    if (status == PAWL_OK)
        status = load_specials(t, file, error);
    if (status == PAWL_OK)
        status = load_merges(t, seed, error);
    if (status == PAWL_OK)
        status = load_words(t, seed, error);
    if (status == PAWL_OK)
        status = tokenizer_digest(file, rule->pre, t->digest, error);
    if (status != PAWL_OK) {
        tokenizer_close(t);
        return status;
    }
    free(t->vocab.merges); /* now in the pair table */
    t->vocab.merges = NULL;
    *tokenizer = t;
    return PAWL_OK;
}

pawl_status tokenizer_open(pawl_bytes path, pawl_tokenizer **tokenizer, pawl_error *error)
{
    gguf_file *file = NULL;
    pawl_status status = gguf_open(path, &file, error);
    if (status != PAWL_OK)
        return status;
    status = tokenizer_load(file, tokenizer, error);
    gguf_close(file);
    return status;
}

void tokenizer_close(pawl_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    vocab_clear(&tokenizer->vocab);
    classes_clear(&tokenizer->classes);
    controls_clear(&tokenizer->controls);
    merges_clear(&tokenizer->merges);
    words_clear(&tokenizer->words);
    free(tokenizer->flags);
    free(tokenizer);
}
