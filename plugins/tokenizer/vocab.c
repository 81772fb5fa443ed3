/*
 * tokenizer/vocab.c - reads tokens, types and merges.
 *
 * The tokens of a byte-level vocabulary are written in an alphabet of 256 printable
 * characters, one for each byte: bytes that are printable in Latin-1 stand for
 * themselves, the other 68 are U+0100, U+0101, ... in order. A normal token is
 * turned back into its bytes here; control and added tokens are plain text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/vocab.h"

#include <pawl/plugin_util.h>

#include <stdlib.h>

#include "formats/label.h"
#include "tokenizer/classes.h"

#define TOKENS_KEY "tokenizer.ggml.tokens"
#define TYPES_KEY "tokenizer.ggml.token_type"
#define MERGES_KEY "tokenizer.ggml.merges"

/* Highest character of the byte alphabet: 256 + 68 - 1. */
#define ALPHABET_END 0x144

/* Tokens by their text, while merges are read. */
struct names {
    const gguf_file *file;
    gguf_array tokens;
    uint32_t *slots; /* id + 1; 0: empty                                   */
    uint64_t mask;
    struct hash_seed seed;
};

/* byte_of[c]: the byte that character c of the alphabet stands for, or -1. */
static void make_alphabet(int16_t byte_of[ALPHABET_END])
{
    int16_t next = 256;
    for (int i = 0; i < ALPHABET_END; i++)
        byte_of[i] = -1;
    for (int16_t byte = 0; byte < 256; byte++) {
        bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        byte_of[printable ? byte : next++] = byte;
    }
}

/* Writes the bytes of a token of the alphabet; false: it is not written in it. */
static bool unmap(const int16_t byte_of[ALPHABET_END], pawl_bytes text, uint8_t *to, uint64_t *size)
{
    const uint8_t *data = (const uint8_t *)text.data;
    uint64_t n = 0;
    for (uint64_t at = 0; at < text.size;) {
        uint32_t code;
        at += classes_decode(data + at, (size_t)(text.size - at), &code);
        if (code >= ALPHABET_END || byte_of[code] < 0)
            return false;
        to[n++] = (uint8_t)byte_of[code];
    }
    *size = n;
    return true;
}

/* ------------------------------------------------------ tokens by name ---- */

static bool names_find(const struct names *names, pawl_bytes text, uint64_t *at)
{
    *at = hash_bytes(names->seed, (const uint8_t *)text.data, (size_t)text.size) & names->mask;
    for (; names->slots[*at]; *at = (*at + 1) & names->mask) {
        pawl_bytes other = gguf_array_string(names->file, &names->tokens, names->slots[*at] - 1);
        if (other.size == text.size && memcmp(other.data, text.data, (size_t)text.size) == 0)
            return true;
    }
    return false;
}

static pawl_status names_init(struct names *names, const gguf_file *file, struct hash_seed seed,
                              pawl_error *error)
{
    uint64_t slots = 16, at;
    while (slots < names->tokens.count * 2)
        slots *= 2;
    names->slots = calloc((size_t)slots, sizeof *names->slots);
    if (!names->slots)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %llu tokens",
                         (unsigned long long)names->tokens.count);
    names->file = file;
    names->mask = slots - 1;
    names->seed = seed;
    for (uint32_t id = 0; id < names->tokens.count; id++) {
        pawl_bytes text = gguf_array_string(file, &names->tokens, id);
        if (text.size == 0)
            continue;
        if (names_find(names, text, &at))
            return pawl_fail(error, PAWL_E_FORMAT, "tokens %u and %u are both '%s'",
                             names->slots[at] - 1, id, label_of(text).text);
        names->slots[at] = id + 1;
    }
    return PAWL_OK;
}

/* -------------------------------------------------------------- tokens ---- */

static pawl_status load_types(struct vocab *vocab, const gguf_file *file, pawl_error *error)
{
    gguf_array types;
    memset(vocab->types, VOCAB_NORMAL, vocab->n);
    if (!gguf_get_array(file, TYPES_KEY, &types))
        return PAWL_OK;
    if (types.count != vocab->n)
        return pawl_fail(error, PAWL_E_FORMAT, "%s has %llu entries; %s has %u", TYPES_KEY,
                         (unsigned long long)types.count, TOKENS_KEY, vocab->n);
    for (uint32_t id = 0; id < vocab->n; id++) {
        uint64_t type = 0;
        if (!gguf_array_u64(&types, id, &type) || type < VOCAB_NORMAL || type > VOCAB_BYTE)
            return pawl_fail(error, PAWL_E_FORMAT,
                             "%s: token %u has type %llu; 1 to 6 are expected", TYPES_KEY, id,
                             (unsigned long long)type);
        vocab->types[id] = (uint8_t)type;
    }
    return PAWL_OK;
}

static pawl_status load_pieces(struct vocab *vocab, const gguf_file *file, const gguf_array *tokens,
                               pawl_error *error)
{
    int16_t byte_of[ALPHABET_END];
    uint64_t end = 0;
    make_alphabet(byte_of);
    for (uint32_t id = 0; id < vocab->n; id++) {
        pawl_bytes text = gguf_array_string(file, tokens, id);
        uint64_t size = text.size;
        if (size > VOCAB_MAX_PIECE)
            return pawl_fail(error, PAWL_E_FORMAT,
                             "token %u is %llu bytes long; at most %u are allowed", id,
                             (unsigned long long)size, VOCAB_MAX_PIECE);
        vocab->begin[id] = end;
        vocab->mapped[id] = vocab->types[id] == VOCAB_NORMAL && size > 0 &&
                            unmap(byte_of, text, vocab->bytes + end, &size);
        if (!vocab->mapped[id] && size > 0)
            memcpy(vocab->bytes + end, text.data, (size_t)size);
        end += size;
    }
    vocab->begin[vocab->n] = end;
    return PAWL_OK;
}

/* -------------------------------------------------------------- merges ---- */

/* One line of the list: two tokens with a blank between. The first character may
 * itself be a blank, so the search begins behind it. */
static pawl_status read_merge(const struct names *names, pawl_bytes line, uint32_t rank,
                              struct vocab_merge *merge, pawl_error *error)
{
    const char *blank = line.size > 2 ? memchr(line.data + 1, ' ', (size_t)line.size - 1) : NULL;
    if (!blank || blank + 1 == line.data + line.size || line.size > 2u * VOCAB_MAX_PIECE)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "merge %u '%s' is not two tokens with a blank between", rank,
                         label_of(line).text);
    char joined[256], *room = joined;
    pawl_bytes left = {line.data, (uint64_t)(blank - line.data)};
    pawl_bytes right = {blank + 1, line.size - left.size - 1};
    pawl_bytes both = {joined, line.size - 1};
    if (line.size > sizeof joined && !(room = malloc((size_t)line.size)))
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to read merge %u", rank);
    memcpy(room, left.data, (size_t)left.size);
    memcpy(room + left.size, right.data, (size_t)right.size);
    both.data = room;

    uint64_t at_left, at_right, at_both;
    pawl_bytes missing = {NULL, 0};
    if (!names_find(names, left, &at_left))
        missing = left;
    else if (!names_find(names, right, &at_right))
        missing = right;
    else if (!names_find(names, both, &at_both))
        missing = both;
    else
        *merge = (struct vocab_merge){names->slots[at_left] - 1, names->slots[at_right] - 1,
                                      names->slots[at_both] - 1};
    pawl_status status = PAWL_OK;
    if (missing.data)
        status = pawl_fail(error, PAWL_E_FORMAT, "merge %u needs '%s', which is no token", rank,
                           label_of(missing).text);
    if (room != joined)
        free(room);
    return status;
}

static pawl_status load_merges(struct vocab *vocab, const struct names *names, pawl_error *error)
{
    gguf_array lines;
    pawl_status status = PAWL_OK;
    if (!gguf_get_array(names->file, MERGES_KEY, &lines) || lines.type != GGUF_STRING)
        return pawl_fail(error, PAWL_E_FORMAT, "%s is missing or no array of strings", MERGES_KEY);
    if (lines.count > VOCAB_MAX_MERGES)
        return pawl_fail(error, PAWL_E_FORMAT, "%llu merges; at most %u are allowed",
                         (unsigned long long)lines.count, VOCAB_MAX_MERGES);
    vocab->n_merges = (uint32_t)lines.count;
    vocab->merges = malloc(((size_t)lines.count + 1) * sizeof *vocab->merges);
    if (!vocab->merges)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %u merges", vocab->n_merges);
    for (uint32_t rank = 0; status == PAWL_OK && rank < vocab->n_merges; rank++)
        status = read_merge(names, gguf_array_string(names->file, &lines, rank), rank,
                            &vocab->merges[rank], error);
    return status;
}

/* -------------------------------------------------------------- public ---- */

pawl_status vocab_load(struct vocab *vocab, const gguf_file *file, struct hash_seed seed,
                       pawl_error *error)
{
    struct names names = {.slots = NULL};
    memset(vocab, 0, sizeof *vocab);
    if (!gguf_get_array(file, TOKENS_KEY, &names.tokens) || names.tokens.type != GGUF_STRING)
        return pawl_fail(error, PAWL_E_FORMAT, "%s is missing or no array of strings", TOKENS_KEY);
    if (names.tokens.count == 0 || names.tokens.count > VOCAB_MAX_TOKENS)
        return pawl_fail(error, PAWL_E_FORMAT, "%llu tokens; 1 to %u are allowed",
                         (unsigned long long)names.tokens.count, VOCAB_MAX_TOKENS);
    vocab->n = (uint32_t)names.tokens.count;
    vocab->bytes = malloc((size_t)names.tokens.bytes); /* texts and their sizes: enough */
    vocab->begin = calloc((size_t)vocab->n + 1, sizeof *vocab->begin);
    vocab->types = calloc(vocab->n, 1);
    vocab->mapped = calloc(vocab->n, 1);
    pawl_status status = PAWL_OK;
    if (!vocab->bytes || !vocab->begin || !vocab->types || !vocab->mapped)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for %u tokens", vocab->n);
    if (status == PAWL_OK)
        status = load_types(vocab, file, error);
    if (status == PAWL_OK)
        status = load_pieces(vocab, file, &names.tokens, error);
    if (status == PAWL_OK)
        status = names_init(&names, file, seed, error);
    if (status == PAWL_OK)
        status = load_merges(vocab, &names, error);
    free(names.slots);
    if (status != PAWL_OK)
        vocab_clear(vocab);
    return status;
}

void vocab_clear(struct vocab *vocab)
{
    free(vocab->bytes);
    free(vocab->begin);
    free(vocab->types);
    free(vocab->mapped);
    free(vocab->merges);
    memset(vocab, 0, sizeof *vocab);
}
