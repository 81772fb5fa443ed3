/*
 * unit/run/fake_model.h - a model of plain C for the tests of host/run.
 *
 * Tokens 0 to 255 are bytes, 256 is the control token "<|end|>". The engine's next
 * token is a function of the whole timeline, so that any token lost, doubled or
 * mixed up between sequences changes all that follow. It counts open sequences and
 * pages, refuses what was not reserved once pages run out, and fails on demand. Its saved
 * state is the tokens; one that is given a boundary_bytes cannot go on without a boundary.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef UNIT_RUN_FAKE_MODEL_H
#define UNIT_RUN_FAKE_MODEL_H

#include "run/model.h"

#include <stdlib.h>
#include <string.h>

#define FAKE_END 256
#define FAKE_PAGE 16 /* tokens of a page */

struct pawl_engine {
    int open_sequences, max_sequences;
    uint64_t pages, free_pages;
    int submits;     /* so far                                       */
    int fail_submit; /* the number of the submit that fails, or 0    */
    pawl_status fail_status;
    int reply_length; /* tokens before the end token                  */
    int largest_batch;
    bool boundary;         /* states have one                         */
    int saves, loads;      /* parts so far                            */
    pawl_status fail_save; /* what state_save() says, or PAWL_OK      */
    uint64_t computed;     /* tokens that went into passes            */
    void (*on_pass)(void *arg, const pawl_slot *slots, uint64_t n); /* or NULL */
    void *arg;
};

struct pawl_sequence {
    pawl_engine *engine;
    int32_t tokens[4096];
    uint64_t n_tokens, pages;
    bool lacks_boundary; /* chunks were loaded, but nothing to go on from */
};

static uint64_t fake_pages_for(uint64_t n)
{
    return (n + FAKE_PAGE - 1) / FAKE_PAGE;
}

static bool fake_resize(pawl_sequence *s, uint64_t pages)
{
    if (pages > s->pages && pages - s->pages > s->engine->free_pages)
        return false;
    s->engine->free_pages -= pages - s->pages; /* wraps on purpose when it shrinks */
    s->pages = pages;
    return true;
}

static pawl_status fake_sequence_open(pawl_engine *e, pawl_sequence **out, pawl_error *error)
{
    if (e->open_sequences == e->max_sequences)
        return pawl_fail(error, PAWL_E_BUSY, "no sequence is free");
    *out = calloc(1, sizeof **out);
    (*out)->engine = e;
    e->open_sequences++;
    return PAWL_OK;
}

static void fake_sequence_close(pawl_sequence *s)
{
    fake_resize(s, 0);
    s->engine->open_sequences--;
    free(s);
}

static pawl_status fake_reserve(pawl_sequence *s, uint64_t n, pawl_error *error)
{
    uint64_t pages = fake_pages_for(s->n_tokens + n);
    if (pages > s->pages && !fake_resize(s, pages))
        return pawl_fail(error, PAWL_E_MEMORY, "no page is free");
    return PAWL_OK;
}

static void fake_capacity(const pawl_engine *e, uint64_t *total, uint64_t *unused)
{
    *total = e->pages;
    *unused = e->free_pages;
}

static uint64_t fake_length(const pawl_sequence *s)
{
    return s->n_tokens;
}

static pawl_status fake_truncate(pawl_sequence *s, uint64_t n, pawl_error *error)
{
    (void)error;
    s->n_tokens = n;
    fake_resize(s, fake_pages_for(n));
    return PAWL_OK;
}

static pawl_status fake_fork(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                             pawl_error *error)
{
    pawl_status status = fake_sequence_open(from->engine, to, error);
    if (status)
        return status;
    memcpy((*to)->tokens, from->tokens, sizeof from->tokens);
    (*to)->n_tokens = n;
    (*to)->lacks_boundary = from->lacks_boundary;
    if (fake_resize(*to, fake_pages_for(n)))
        return PAWL_OK;
    (*to)->n_tokens = 0;
    fake_sequence_close(*to);
    return pawl_fail(error, PAWL_E_MEMORY, "no page is free");
}

/* The reply of a prompt: what a turn must bring, alone or in company. */
static int32_t fake_next(const int32_t *tokens, uint64_t n)
{
    uint32_t hash = 2166136261u;
    for (uint64_t i = 0; i < n; i++)
        hash = (hash ^ (uint32_t)tokens[i]) * 16777619u;
    return 'a' + (int32_t)(hash >> 16) % 26;
}

/* The end comes after a number of tokens that depends on the prompt's first one. */
static bool fake_ends(const pawl_engine *e, const int32_t *tokens, uint64_t n)
{
    uint64_t prompt = (uint64_t)tokens[0]; /* tests put the prompt's length there */
    return n - prompt >= (uint64_t)e->reply_length + prompt % 5;
}

static void fake_slot(pawl_engine *e, pawl_slot *slot)
{
    pawl_sequence *s = slot->sequence;
    if (s->lacks_boundary) {
        slot->status = PAWL_E_INTERNAL;
        return;
    }
    if (s->n_tokens + slot->n_tokens > 4096) {
        slot->status = PAWL_E_LIMIT;
        return;
    }
    if (fake_reserve(s, slot->n_tokens, NULL) != PAWL_OK) {
        slot->status = PAWL_E_MEMORY;
        return;
    }
    memcpy(s->tokens + s->n_tokens, slot->tokens, slot->n_tokens * sizeof *slot->tokens);
    s->n_tokens += slot->n_tokens;
    slot->status = PAWL_OK;
    slot->n_out = 0;
    if (!(slot->flags & PAWL_SLOT_SAMPLE))
        return;
    slot->n_out = 1;
    slot->out_tokens[0] =
        fake_ends(e, s->tokens, s->n_tokens) ? FAKE_END : fake_next(s->tokens, s->n_tokens);
    if (slot->out_logprobs)
        slot->out_logprobs[0] = -1;
    slot->n_top = 0;
}

static pawl_status fake_submit(pawl_engine *e, pawl_slot *slots, uint64_t stride, uint64_t n,
                               uint64_t *ticket, pawl_error *error)
{
    (void)stride;
    *ticket = 0;
    if (++e->submits == e->fail_submit)
        return pawl_fail(error, e->fail_status, "told to fail");
    if ((int)n > e->largest_batch)
        e->largest_batch = (int)n;
    for (uint64_t i = 0; i < n; i++) {
        fake_slot(e, &slots[i]);
        e->computed += slots[i].n_tokens;
    }
    if (e->on_pass)
        e->on_pass(e->arg, slots, n);
    return PAWL_OK;
}

static pawl_status fake_wait(pawl_engine *e, uint64_t ticket, pawl_error *error)
{
    (void)e, (void)ticket, (void)error;
    return PAWL_OK;
}

static void fake_cancel(pawl_engine *e)
{
    (void)e;
}

typedef struct fake_state {
    uint64_t part, begin, end, hash;
} fake_state;

static fake_state fake_state_of(uint32_t part, const int32_t *tokens, uint64_t begin, uint64_t end)
{
    fake_state head = {part, begin, end, 14695981039346656037u};
    for (uint64_t i = 0; i < end - begin; i++)
        head.hash = (head.hash ^ (uint32_t)tokens[i]) * 1099511628211u;
    return head;
}

static pawl_status fake_state_save(const pawl_sequence *s, uint32_t part, uint64_t begin,
                                   uint64_t end, const pawl_sink *to, pawl_error *error)
{
    pawl_engine *e = s->engine;
    if (e->fail_save)
        return pawl_fail(error, e->fail_save, "told to fail");
    if (end > s->n_tokens || (part == PAWL_STATE_BOUNDARY && end != s->n_tokens))
        return pawl_fail(error, PAWL_E_ARGUMENT, "there is no such state");
    fake_state head = fake_state_of(part, s->tokens + begin, begin, end);
    e->saves++;
    pawl_status status = to->write(to->context, &head, sizeof head);
    uint64_t size = (end - begin) * sizeof *s->tokens;
    return status || !size ? status : to->write(to->context, s->tokens + begin, size);
}

static bool fake_read_all(const pawl_source *from, void *data, uint64_t size)
{
    uint64_t got = 0;
    for (uint64_t at = 0; at < size; at += got)
        if (from->read(from->context, (char *)data + at, size - at, &got) != PAWL_OK || !got)
            return false;
    return true;
}

static pawl_status fake_state_load(pawl_sequence *s, uint32_t part, const int32_t *tokens,
                                   uint64_t begin, uint64_t end, const pawl_source *from,
                                   pawl_error *error)
{
    static int32_t ids[4096];
    fake_state head, want = fake_state_of(part, tokens, begin, end);
    if (begin != s->n_tokens || end > 4096)
        return pawl_fail(error, PAWL_E_ARGUMENT, "it does not follow");
    if (!fake_read_all(from, &head, sizeof head) || memcmp(&head, &want, sizeof head) != 0 ||
        !fake_read_all(from, ids, (end - begin) * sizeof *ids) ||
        fake_state_of(part, ids, begin, end).hash != want.hash)
        return pawl_fail(error, PAWL_E_FORMAT, "damaged");
    if (fake_reserve(s, end - begin, error) != PAWL_OK)
        return PAWL_E_MEMORY;
    memcpy(s->tokens + begin, ids, (end - begin) * sizeof *ids);
    s->n_tokens = end;
    s->lacks_boundary = s->engine->boundary && part == PAWL_STATE_CHUNK;
    s->engine->loads++;
    return PAWL_OK;
}

static const pawl_engine_api fake_engine_api = {
    .struct_size = sizeof(pawl_engine_api),
    .sequence_open = fake_sequence_open,
    .sequence_close = fake_sequence_close,
    .capacity = fake_capacity,
    .reserve = fake_reserve,
    .submit = fake_submit,
    .wait = fake_wait,
    .cancel = fake_cancel,
    .length = fake_length,
    .truncate = fake_truncate,
    .fork = fake_fork,
    .state_save = fake_state_save,
    .state_load = fake_state_load,
};

/* ----------------------------------------------------------- tokenizer ---- */

static pawl_status fake_encode(const pawl_tokenizer *t, const pawl_segment *segments, uint64_t n,
                               int32_t *tokens, uint64_t room, uint64_t *needed, pawl_error *error)
{
    (void)t, (void)error;
    *needed = 0;
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t k = 0; k < segments[i].text.size; k++) {
            const char *at = segments[i].text.data + k;
            int32_t token = (unsigned char)*at;
            if (segments[i].kind == PAWL_SEGMENT_CONTROL && segments[i].text.size - k >= 7 &&
                memcmp(at, "<|end|>", 7) == 0) {
                token = FAKE_END;
                k += 6;
            }
            if (*needed < room)
                tokens[*needed] = token;
            ++*needed;
        }
    }
    return PAWL_OK;
}

static pawl_bytes fake_piece(const pawl_tokenizer *t, int32_t token)
{
    static char bytes[256];
    (void)t;
    if (token == FAKE_END)
        return (pawl_bytes){"<|end|>", 7};
    if (token < 0 || token > 255)
        return (pawl_bytes){"", 0};
    bytes[token] = (char)token;
    return (pawl_bytes){&bytes[token], 1};
}

static uint32_t fake_flags(const pawl_tokenizer *t, int32_t token)
{
    (void)t;
    return token == FAKE_END ? PAWL_TOKEN_CONTROL | PAWL_TOKEN_ADDED : 0;
}

static int32_t fake_token(const pawl_tokenizer *t, pawl_bytes name)
{
    (void)t;
    return name.size == 7 && memcmp(name.data, "<|end|>", 7) == 0 ? FAKE_END : -1;
}

static const pawl_tokenizer_api fake_tokenizer_api = {
    .struct_size = sizeof(pawl_tokenizer_api),
    .encode = fake_encode,
    .piece = fake_piece,
    .token = fake_token,
    .token_flags = fake_flags,
};

/* A model over an engine that the test declares. */
static run_model fake_model(pawl_engine *engine)
{
    engine->free_pages = engine->pages;
    return (run_model){
        .name = (char *)(uintptr_t) "fake",
        .engine_api = &fake_engine_api,
        .tokenizer_api = &fake_tokenizer_api,
        .engine = engine,
        .info = {.vocab_size = 257,
                 .context_limit = 4096,
                 .page_tokens = FAKE_PAGE,
                 .state_chunk = FAKE_PAGE,
                 .rewind_tokens = UINT64_MAX},
        .vocabulary = {.vocab_size = 257, .bos = -1, .eos = FAKE_END, .eot = -1},
        .max_sequences = 4,
    };
}

/* The same, with an engine that saves its state. */
static inline run_model fake_saving_model(pawl_engine *engine, uint32_t chunk, bool boundary)
{
    run_model model = fake_model(engine);
    engine->boundary = boundary;
    model.info.state_chunk = chunk;
    model.info.chunk_bytes = sizeof(fake_state) + chunk * sizeof(int32_t);
    model.info.boundary_bytes = boundary ? sizeof(fake_state) : 0;
    model.info.kv_format = "fake/1";
    model.vocabulary.digest = "fake";
    return model;
}

#endif /* UNIT_RUN_FAKE_MODEL_H */
