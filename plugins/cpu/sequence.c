/*
 * cpu/sequence.c - token timelines: opening, growing, cutting, forking.
 *
 * A sequence holds references to the pages of its tokens. It may hold more than
 * its length needs (reserve), never fewer. Pages before the last are full and
 * never written again, so that forks share them for good; the last one is copied
 * before the first write, if it is shared.
 * Runs on the thread that owns the engine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/engine.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/sequence.h"

static uint32_t pages_of(uint64_t tokens)
{
    return (uint32_t)((tokens + KV_PAGE - 1) / KV_PAGE);
}

pawl_status sequence_open(pawl_engine *engine, pawl_sequence **sequence, pawl_error *error)
{
    if (engine->n_sequences >= engine->max_sequences)
        return pawl_fail(error, PAWL_E_BUSY, "all %u sequences are open", engine->max_sequences);
    pawl_sequence *s = calloc(1, sizeof *s);
    if (s) {
        s->pages = calloc(pages_of(engine->context), sizeof *s->pages);
        s->hidden = calloc(engine->model->hidden, sizeof *s->hidden);
    }
    if (!s || !s->pages || !s->hidden) {
        if (s) {
            free(s->pages);
            free(s->hidden);
        }
        free(s);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a sequence");
    }
    s->engine = engine;
    engine->n_sequences++;
    *sequence = s;
    return PAWL_OK;
}

void sequence_close(pawl_sequence *sequence)
{
    if (!sequence)
        return;
    sequence_trim(sequence, 0);
    sequence->engine->n_sequences--;
    free(sequence->pages);
    free(sequence->tokens);
    free(sequence->hidden);
    free(sequence);
}

void sequence_trim(pawl_sequence *sequence, uint32_t keep)
{
    while (sequence->n_pages > keep)
        kv_release(&sequence->engine->pool, sequence->pages[--sequence->n_pages]);
}

static bool grow_tokens(pawl_sequence *s, uint64_t n)
{
    if (n <= s->room)
        return true;
    uint64_t room = s->room ? s->room : 256;
    while (room < n)
        room *= 2;
    if (room > s->engine->context)
        room = s->engine->context;
    int32_t *grown = realloc(s->tokens, (size_t)room * sizeof *grown);
    if (!grown)
        return false;
    s->tokens = grown;
    s->room = (uint32_t)room;
    return true;
}

pawl_status sequence_prepare(pawl_sequence *s, uint64_t n_tokens, pawl_error *error)
{
    pawl_engine *engine = s->engine;
    if (n_tokens > engine->context - s->length)
        return pawl_fail(error, PAWL_E_LIMIT,
                         "%u tokens and %llu more exceed the context of %u tokens", s->length,
                         (unsigned long long)n_tokens, engine->context);
    if (!grow_tokens(s, s->length + n_tokens))
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the ids of %llu tokens",
                         (unsigned long long)(s->length + n_tokens));
    uint32_t before = s->n_pages;
    uint32_t wanted = pages_of(s->length + n_tokens);
    bool good = true;
    while (good && s->n_pages < wanted) {
        good = kv_take(&engine->pool, &s->pages[s->n_pages]);
        s->n_pages += good;
    }
    /* The copy comes last: what fails takes nothing. */
    if (good && n_tokens > 0 && s->length % KV_PAGE != 0)
        good = kv_own(&engine->pool, &s->pages[s->length / KV_PAGE]);
    if (good)
        return PAWL_OK;
    sequence_trim(s, before);
    return pawl_fail(
        error, PAWL_E_MEMORY, "no free page for %llu more tokens; %u pages of %u are free",
        (unsigned long long)n_tokens, kv_free_pages(&engine->pool), engine->pool.total);
}

pawl_status sequence_reserve(pawl_sequence *sequence, uint64_t n_tokens, pawl_error *error)
{
    return sequence_prepare(sequence, n_tokens, error);
}

uint64_t sequence_length(const pawl_sequence *sequence)
{
    return sequence->length;
}

pawl_status sequence_truncate(pawl_sequence *sequence, uint64_t n, pawl_error *error)
{
    if (n > sequence->length)
        return pawl_fail(error, PAWL_E_ARGUMENT, "truncate to %llu tokens; there are %u",
                         (unsigned long long)n, sequence->length);
    sequence->hidden_valid = sequence->hidden_valid && n == sequence->length;
    sequence->length = (uint32_t)n;
    sequence_trim(sequence, pages_of(n));
    return PAWL_OK;
}

pawl_status sequence_fork(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                          pawl_error *error)
{
    pawl_sequence *s;
    if (n > from->length)
        return pawl_fail(error, PAWL_E_ARGUMENT, "fork at %llu tokens; there are %u",
                         (unsigned long long)n, from->length);
    pawl_status status = sequence_open(from->engine, &s, error);
    if (status != PAWL_OK)
        return status;
    if (!grow_tokens(s, n)) {
        sequence_close(s);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the ids of %llu tokens",
                         (unsigned long long)n);
    }
    for (uint32_t i = 0; i < pages_of(n); i++) {
        kv_share(&from->engine->pool, from->pages[i]);
        s->pages[s->n_pages++] = from->pages[i];
    }
    /* The last page is copied now if it is partly filled, so that the older sequence
     * may go on writing into its own with the pages that it has reserved. */
    if (n % KV_PAGE && !kv_own(&from->engine->pool, &s->pages[s->n_pages - 1])) {
        sequence_close(s);
        return pawl_fail(error, PAWL_E_MEMORY, "no free page for the last tokens of a fork");
    }
    if (n > 0)
        memcpy(s->tokens, from->tokens, (size_t)n * sizeof *s->tokens);
    s->length = (uint32_t)n;
    s->hidden_valid = from->hidden_valid && n == from->length;
    memcpy(s->hidden, from->hidden, from->engine->model->hidden * sizeof *s->hidden);
    *to = s;
    return PAWL_OK;
}
