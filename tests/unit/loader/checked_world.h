/*
 * tests/unit/loader/checked_world.h - the fake plugin behind the checking tables, and a
 * host that does everything once, as it should be done.
 *
 * Included by the one test that needs it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECKED_WORLD_H
#define CHECKED_WORLD_H

#include "loader/checked.h"

#include "checked_fake.h"

#include <unistd.h>

typedef struct world {
    checked *c;
    const pawl_engine_api *engine_api; /* the checking ones */
    const pawl_tokenizer_api *tokenizer_api;
    const pawl_chat_api *chat_api;
    pawl_engine *engine;
    pawl_sequence *a, *b;
    pawl_tokenizer *tokenizer;
    pawl_chat *chat;
    pawl_parser *parser;
    pawl_error error;
    pawl_slot slots[2];
    pawl_sampling sampling;
    int32_t tokens[4], out[2];
    float logprobs[2];
    struct pawl_top tops[4];
    uint32_t allow[1];
    uint64_t ticket;
    size_t sunk, n_events;
} world;

static pawl_bytes text(const char *s)
{
    return (pawl_bytes){s, strlen(s)};
}

static void must(bool condition)
{
    if (!condition)
        _exit(3); /* in a child: no longer the way the case was meant */
}

/* ---- the host's half ---- */

static pawl_status sink_any(void *context, const void *data, uint64_t size)
{
    world *w = context;
    (void)data;
    must(size == 1); /* pieces, and these are short */
    w->sunk += (size_t)size;
    return PAWL_OK;
}

static pawl_status sink_full(void *context, const void *data, uint64_t size)
{
    (void)context;
    (void)data;
    (void)size;
    return PAWL_E_LIMIT;
}

static pawl_status source_text(void *context, void *data, uint64_t size, uint64_t *got)
{
    (void)context;
    must(size == 1); /* short reads */
    memset(data, 's', (size_t)size);
    *got = size;
    return PAWL_OK;
}

static pawl_status source_broken(void *context, void *data, uint64_t size, uint64_t *got)
{
    (void)context;
    (void)data;
    (void)size;
    (void)got;
    return PAWL_E_NOT_FOUND;
}

static pawl_status on_progress(void *arg, double done)
{
    (void)done;
    return *(pawl_status *)arg;
}

static void on_event(void *arg, const pawl_chat_event *event)
{
    world *w = arg;
    w->n_events += event->text.size;
}

static pawl_engine_config config(void)
{
    return (pawl_engine_config){.struct_size = sizeof(pawl_engine_config), .max_sequences = 2};
}

static void begin(world *w)
{
    pawl_engine_config with = config();
    memset(w, 0, sizeof *w);
    w->error.struct_size = sizeof w->error;
    w->c = checked_open(&fake_plugin);
    w->engine_api = checked_table(w->c, PAWL_ENGINE, &fake_engine);
    w->tokenizer_api = checked_table(w->c, PAWL_TOKENIZER, &fake_tokenizer);
    w->chat_api = checked_table(w->c, PAWL_CHAT, &fake_chat);
    pawl_status go_on = PAWL_OK;
    must(!w->engine_api->open(&with, on_progress, &go_on, &w->engine, &w->error));
    must(!w->tokenizer_api->open(text("x"), &w->tokenizer, &w->error));
    must(!w->chat_api->open(text("{}"), &w->chat, &w->error));
    must(!w->chat_api->parser_open(w->chat, text("{}"), &w->parser, &w->error));
    must(!w->engine_api->sequence_open(w->engine, &w->a, &w->error));
    must(!w->engine_api->sequence_open(w->engine, &w->b, &w->error));
    w->sampling = (pawl_sampling){.struct_size = sizeof w->sampling, .top_p = 1};
    w->allow[0] = 1u << 7;
    for (int i = 0; i < 2; i++)
        w->slots[i] = (pawl_slot){.sequence = i ? w->b : w->a,
                                  .tokens = w->tokens,
                                  .n_tokens = 4,
                                  .sampling = &w->sampling,
                                  .out_tokens = w->out + i};
    w->slots[0].flags = PAWL_SLOT_SAMPLE;
    w->slots[0].allow = w->allow;
    w->slots[0].allow_stride = 1;
    w->slots[0].out_logprobs = w->logprobs;
    w->slots[0].top = w->tops;
    w->slots[0].n_top = 2;
}

static void end(world *w)
{
    w->chat_api->parser_close(w->parser);
    w->chat_api->close(w->chat);
    w->tokenizer_api->close(w->tokenizer);
    w->engine_api->sequence_close(w->a);
    w->engine_api->sequence_close(w->b);
    w->engine_api->close(w->engine);
    checked_close(w->c);
}

static pawl_status pass(world *w, uint64_t n_slots)
{
    pawl_status status = w->engine_api->submit(w->engine, w->slots, sizeof *w->slots, n_slots,
                                               &w->ticket, &w->error);
    return status ? status : w->engine_api->wait(w->engine, w->ticket, &w->error);
}

/* ---- everything once, as it should be ---- */

static void refusals(world *w)
{
    pawl_engine_config with = config();
    pawl_engine *none = NULL;
    pawl_status stop = PAWL_E_CANCELLED;
    pawl_sink full = {w, sink_full};
    with.memory_budget = 1;
    must(w->engine_api->open(&with, NULL, NULL, &none, &w->error) == PAWL_E_BUSY && !none);
    must(strcmp(w->error.message, "not now") == 0 && w->error.code == PAWL_E_BUSY);
    with.memory_budget = 0;
    must(w->engine_api->open(&with, on_progress, &stop, &none, &w->error) && !none);
    must(w->engine_api->inspect(text("x"), &full, NULL) == PAWL_E_LIMIT);
    must(w->engine_api->reserve(w->a, 101, NULL) == PAWL_E_BUSY);
}

static void passes(world *w)
{
    pawl_slot kept[2];
    uint64_t total, unused;
    pawl_engine_info info = {.struct_size = 16};
    memcpy(kept, w->slots, sizeof kept);
    w->engine_api->capacity(w->engine, &total, &unused);
    w->engine_api->info(w->engine, &info);
    must(total == 5 && info.vocab_size == FAKE_VOCAB && info.context_limit == 100);
    must(!w->engine_api->reserve(w->a, 8, &w->error));
    must(!pass(w, 2) && w->slots[0].n_out == 1 && w->out[0] == 7 && w->slots[1].n_out == 0);
    must(w->slots[0].n_top == 2 && w->slots[0].sequence == w->a && w->slots[0].tokens == w->tokens);
    must(w->engine_api->length(w->a) == 4 && w->engine_api->length(w->b) == 4);
    w->tokens[0] = 9; /* fails */
    memcpy(w->slots, kept, sizeof kept);
    must(!pass(w, 1) && w->slots[0].status == PAWL_E_MEMORY && w->engine_api->length(w->a) == 4);
    w->tokens[0] = 0;
    memcpy(w->slots, kept, sizeof kept);
    w->engine_api->cancel(w->engine);
}

static void timelines(world *w)
{
    pawl_sequence *fork = NULL;
    pawl_sink sink = {w, sink_any};
    pawl_source source = {w, source_text}, broken = {w, source_broken};
    const pawl_engine_api *api = w->engine_api;
    w->sunk = 0;
    must(!api->state_save(w->a, PAWL_STATE_CHUNK, 0, FAKE_CHUNK, &sink, &w->error));
    must(w->sunk == 5);
    api->sequence_close(w->b);
    must(!api->fork(w->a, 3, &fork, &w->error) && api->length(fork) == 3);
    must(api->truncate(fork, 5, NULL) != PAWL_OK && !api->truncate(fork, 2, &w->error));
    must(!api->truncate(fork, 0, &w->error));
    must(api->state_load(fork, PAWL_STATE_CHUNK, w->tokens, 0, FAKE_CHUNK, &broken, NULL));
    must(!api->state_load(fork, PAWL_STATE_CHUNK, w->tokens, 0, FAKE_CHUNK, &source, &w->error));
    must(!api->state_load(fork, PAWL_STATE_BOUNDARY, w->tokens, 4, 6, &source, &w->error));
    w->b = fork;
}

static void words(world *w)
{
    int32_t ids[4] = {-1, -1, -1, -1};
    uint64_t n = 0;
    pawl_segment digits = {text("123"), PAWL_SEGMENT_LITERAL}, bad = {text("!"), 0};
    pawl_sink sink = {w, sink_any};
    const pawl_tokenizer_api *api = w->tokenizer_api;
    must(!api->encode(w->tokenizer, &digits, 1, NULL, 0, &n, &w->error) && n == 3);
    must(!api->encode(w->tokenizer, &digits, 1, ids, 2, &n, &w->error) && n == 3);
    must(ids[0] == 1 && ids[1] == 2 && ids[2] == -1);
    must(api->encode(w->tokenizer, &bad, 1, ids, 2, &n, NULL) == PAWL_E_BUSY && n == 3);
    must(api->piece(w->tokenizer, 4).data[0] == '4' && !api->piece(w->tokenizer, 99).size);
    must(api->token(w->tokenizer, text("x")) == -1 && api->token_flags(w->tokenizer, 0));
    must(!api->token_flags(w->tokenizer, 99));
    must(!w->chat_api->dialects(&sink, &w->error));
    must(strcmp(w->chat_api->dialect(w->chat), "fake") == 0);
    must(!w->chat_api->render(w->chat, text("{}"), &sink, &w->error));
    pawl_segment piece = {text("a<>"), PAWL_SEGMENT_LITERAL};
    must(!w->chat_api->feed(w->parser, piece, on_event, w, &w->error) && w->n_events == 3);
    must(!w->chat_api->finish(w->parser, on_event, w, &w->error));
}

static void all_well(void)
{
    world w;
    begin(&w);
    refusals(&w);
    passes(&w);
    timelines(&w);
    words(&w);
    end(&w);
}

#endif /* CHECKED_WORLD_H */
