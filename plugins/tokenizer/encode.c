/*
 * tokenizer/encode.c - from segments of text to token ids.
 *
 * The segments are joined first: merges run across their borders. Control tokens are
 * looked for in each CONTROL segment by itself; what lies between two of them, from
 * however many segments, is one gap of plain text.
 *
 * Runs on any thread; everything it changes is on its stack or its own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/normal.h"

/* One call in progress. */
struct encoder {
    const pawl_tokenizer *tokenizer;
    int32_t *tokens; /* the caller's; room of them                          */
    uint64_t room;
    uint64_t n;                   /* tokens so far, also those without room */
    struct merge_scratch scratch; /* for long pieces                        */
};

static void put(struct encoder *e, int32_t token)
{
    if (e->n < e->room)
        e->tokens[e->n] = token;
    e->n++;
}

static void put_all(struct encoder *e, const uint32_t *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(e, (int32_t)tokens[i]);
}

static bool is_word(const pawl_tokenizer *t, int32_t token, const uint8_t *piece, size_t size)
{
    if (token < 0)
        return false;
    if (size <= 16)
        return true; /* the table compared all of it */
    pawl_bytes bytes = vocab_piece(&t->vocab, (uint32_t)token);
    return bytes.size == size && memcmp(bytes.data, piece, size) == 0;
}

static pawl_status encode_piece(struct encoder *e, const uint8_t *piece, size_t size,
                                pawl_error *error)
{
    const pawl_tokenizer *t = e->tokenizer;
    int32_t word = words_find(&t->words, piece, size);
    if (is_word(t, word, piece, size)) {
        put(e, word);
        return PAWL_OK;
    }
    if (size <= MERGE_SHORT) {
        uint32_t tokens[MERGE_SHORT];
        put_all(e, tokens, merge_short(&t->merges, piece, size, tokens));
        return PAWL_OK;
    }
    const uint32_t *tokens = NULL;
    size_t n = 0;
    pawl_status status = merge_long(&t->merges, piece, size, &e->scratch, &tokens, &n, error);
    if (status == PAWL_OK)
        put_all(e, tokens, n);
    return status;
}

/* Plain text between two control tokens. */
static pawl_status encode_gap(struct encoder *e, const uint8_t *text, size_t size,
                              pawl_error *error)
{
    const pawl_tokenizer *t = e->tokenizer;
    uint8_t *normal = NULL;
    pawl_status status = PAWL_OK;
    if (t->rule->nfc)
        status = normal_nfc(&t->classes, text, size, &normal, &size, error);
    if (normal)
        text = normal;
    for (size_t at = 0; at < size && status == PAWL_OK;) {
        size_t piece = split_next(t->rule, &t->classes, text + at, size - at);
        status = encode_piece(e, text + at, piece, error);
        at += piece;
    }
    free(normal);
    return status;
}

static pawl_status encode_text(struct encoder *e, const uint8_t *text, size_t size,
                               const pawl_segment *segments, uint64_t n_segments, pawl_error *error)
{
    size_t gap = 0, begin = 0; /* where the gap and the segment begin in text */
    pawl_status status = PAWL_OK;
    for (uint64_t i = 0; i < n_segments && status == PAWL_OK; i++) {
        size_t end = begin + (size_t)segments[i].text.size, from = begin, at, length;
        int32_t token;
        while (
            segments[i].kind == PAWL_SEGMENT_CONTROL && status == PAWL_OK &&
            controls_find(&e->tokenizer->controls, text + from, end - from, &at, &length, &token)) {
            status = encode_gap(e, text + gap, from + at - gap, error);
            put(e, token);
            gap = from = from + at + length;
        }
        begin = end;
    }
    if (status == PAWL_OK)
        status = encode_gap(e, text + gap, size - gap, error);
    return status;
}

/* The text of all segments. One segment is used as it is; more are copied to *own. */
static pawl_status join(const pawl_segment *segments, uint64_t n_segments, const uint8_t **text,
                        size_t *size, uint8_t **own, pawl_error *error)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < n_segments; i++) {
        if (segments[i].text.size > ENCODE_MAX_BYTES - total)
            return pawl_fail(error, PAWL_E_LIMIT, "a text of more than %u bytes", ENCODE_MAX_BYTES);
        if (segments[i].kind > PAWL_SEGMENT_CONTROL)
            return pawl_fail(error, PAWL_E_ARGUMENT, "segment %llu is of unknown kind %llu",
                             (unsigned long long)i, (unsigned long long)segments[i].kind);
        total += segments[i].text.size;
    }
    *size = (size_t)total;
    if (n_segments == 1) {
        *text = (const uint8_t *)segments[0].text.data;
        return PAWL_OK;
    }
    *own = malloc((size_t)total + 1);
    if (!*own)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to join %zu bytes of text", *size);
    size_t at = 0;
    for (uint64_t i = 0; i < n_segments; i++) {
        if (segments[i].text.size)
            memcpy(*own + at, segments[i].text.data, (size_t)segments[i].text.size);
        at += (size_t)segments[i].text.size;
    }
    *text = *own;
    return PAWL_OK;
}

pawl_status tokenizer_encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                             uint64_t n_segments, int32_t *tokens, uint64_t room, uint64_t *needed,
                             pawl_error *error)
{
    struct encoder e = {.tokenizer = tokenizer, .tokens = tokens, .room = tokens ? room : 0};
    const uint8_t *text = NULL;
    uint8_t *own = NULL;
    size_t size = 0;
    pawl_status status = join(segments, n_segments, &text, &size, &own, error);
    if (status == PAWL_OK && size > 0)
        status = encode_text(&e, text, size, segments, n_segments, error);
    merge_scratch_clear(&e.scratch);
    free(own);
    if (status == PAWL_OK)
        *needed = e.n;
    return status;
}
