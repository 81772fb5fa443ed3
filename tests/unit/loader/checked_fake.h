/*
 * tests/unit/loader/checked_fake.h - a plugin of a few lines that breaks one rule.
 *
 * Its model has 10 tokens; sampling gives token 3, or the next that a mask allows; a
 * slot that begins with token 9 fails. Included by the one test that needs it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHECKED_FAKE_H
#define CHECKED_FAKE_H

#include <pawl/plugin.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_VOCAB 10
#define FAKE_CHUNK 4

struct pawl_engine {
    uint64_t tickets;
};

struct pawl_sequence {
    pawl_engine *engine;
    uint64_t length;
};

struct pawl_tokenizer {
    int unused;
};

struct pawl_chat {
    int unused;
};

struct pawl_parser {
    pawl_chat_emit late;
    void *arg;
};

static const char *told = ""; /* which rule is broken; "" for none */

static bool lie(const char *name)
{
    return strcmp(told, name) == 0;
}

/* ---- engine ---- */

static pawl_status refuse(pawl_error *error)
{
    pawl_fail(error, PAWL_E_BUSY, "not now");
    if (error && lie("error_open"))
        memset(error->message, 'x', sizeof error->message);
    if (error && lie("error_beyond"))
        memset(error + 1, 0, 8);
    if (error && lie("error_size"))
        error->struct_size = 4;
    return lie("status") ? 77 : PAWL_E_BUSY;
}

static pawl_status inspect(pawl_bytes path, const pawl_sink *json, pawl_error *error)
{
    (void)path;
    (void)error;
    pawl_status status = json->write(json->context, "{}", 2);
    if (status && lie("goes_on"))
        json->write(json->context, "{}", 2);
    return lie("sink_status") ? PAWL_OK : status;
}

static pawl_status open_engine(const pawl_engine_config *config,
                               pawl_status (*progress)(void *arg, double done), void *arg,
                               pawl_engine **out, pawl_error *error)
{
    pawl_status status = progress ? progress(arg, lie("progress") ? 100 : 0.5) : PAWL_OK;
    if (lie("progress_deaf"))
        status = PAWL_OK;
    if (config->memory_budget == 1 || status) {
        if (lie("open_untouched"))
            *out = NULL;
        return status ? status : refuse(error);
    }
    if (!lie("open_nothing"))
        *out = calloc(1, sizeof **out);
    return PAWL_OK;
}

static void close_engine(pawl_engine *engine)
{
    free(engine);
}

static void info(const pawl_engine *engine, pawl_engine_info *out)
{
    (void)engine;
    pawl_engine_info full = {.struct_size = out->struct_size,
                             .vocab_size = FAKE_VOCAB,
                             .context_limit = 100,
                             .max_in_flight = 2,
                             .max_draft = 2,
                             .page_tokens = 1,
                             .state_chunk = FAKE_CHUNK,
                             .kv_format = lie("info_null") ? NULL : "fake",
                             .device = "fake"};
    uint32_t size = lie("info_beyond") ? sizeof full : out->struct_size;
    memcpy(out, &full, size < sizeof full ? size : sizeof full);
}

static void capacity(const pawl_engine *engine, uint64_t *total, uint64_t *free_pages)
{
    (void)engine;
    *total = 5;
    *free_pages = lie("capacity") ? 6 : 5;
}

static pawl_status reserve(pawl_sequence *sequence, uint64_t n_tokens, pawl_error *error)
{
    (void)sequence;
    return n_tokens > 100 ? refuse(error) : PAWL_OK;
}

static pawl_status sequence_open(pawl_engine *engine, pawl_sequence **out, pawl_error *error)
{
    (void)error;
    *out = calloc(1, sizeof **out);
    (*out)->engine = engine;
    (*out)->length = lie("not_empty") ? 1 : 0;
    return PAWL_OK;
}

static void sequence_close(pawl_sequence *sequence)
{
    free(sequence);
}

static uint64_t length(const pawl_sequence *sequence)
{
    return sequence->length;
}

static pawl_status truncate_sequence(pawl_sequence *sequence, uint64_t n, pawl_error *error)
{
    if (n > sequence->length)
        return refuse(error);
    sequence->length = lie("truncate") ? 0 : n;
    return PAWL_OK;
}

static pawl_status fork_sequence(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                                 pawl_error *error)
{
    if (n > from->length)
        return refuse(error);
    pawl_status status = sequence_open(from->engine, to, error);
    (*to)->length = lie("fork") ? 0 : n;
    return status;
}

static bool allowed(const pawl_slot *slot, int32_t token)
{
    return !slot->allow || (slot->allow[0] >> token & 1);
}

static void sample(pawl_slot *slot)
{
    int32_t token = 3;
    while (!lie("mask") && !allowed(slot, token))
        token = (token + 1) % FAKE_VOCAB;
    slot->n_out = lie("n_out") ? 2 : lie("n_out_0") ? 0 : 1;
    slot->out_tokens[0] = lie("token") ? FAKE_VOCAB : token;
    if (slot->out_logprobs)
        slot->out_logprobs[0] = lie("logprob") ? 0.7f : -0.5f;
    for (uint32_t i = 0; i < slot->n_top; i++)
        slot->top[i] = (struct pawl_top){(int32_t)i, lie("tops") ? (float)i - 9 : -1 - (float)i};
    if (lie("top_token") && slot->n_top)
        slot->top[0].token = -1;
    if (lie("n_top"))
        slot->n_top++;
}

static void one(pawl_slot *slot)
{
    slot->status = lie("slot_status") ? -5 : PAWL_OK;
    slot->n_out = 0;
    if (slot->tokens[0] == 9) { /* the model's one difficult token */
        slot->status = PAWL_E_MEMORY;
        slot->sequence->length += lie("failed_grows");
        slot->n_top = 0;
        return;
    }
    slot->sequence->length += slot->n_tokens - slot->n_draft - (lie("shrinks") ? 1 : 0);
    if (slot->flags & PAWL_SLOT_SAMPLE)
        sample(slot);
    else
        slot->n_top = 0;
    if (lie("inputs"))
        slot->tokens = NULL;
}

static pawl_status submit(pawl_engine *engine, pawl_slot *slots, uint64_t stride, uint64_t n_slots,
                          uint64_t *ticket, pawl_error *error)
{
    if (lie("ticket") || lie("pass_fails")) {
        if (lie("ticket"))
            *ticket = 1;
        return refuse(error);
    }
    if (lie("stride"))
        memset((char *)slots + sizeof *slots, 0, 8);
    for (uint64_t i = 0; i < n_slots && !lie("unwritten"); i++)
        one((pawl_slot *)(void *)((char *)slots + stride * i));
    if (!lie("no_ticket"))
        *ticket = ++engine->tickets;
    return PAWL_OK;
}

static pawl_status wait_for(pawl_engine *engine, uint64_t ticket, pawl_error *error)
{
    return ticket <= engine->tickets ? PAWL_OK : refuse(error);
}

static void cancel(pawl_engine *engine)
{
    (void)engine;
}

static pawl_status state_save(const pawl_sequence *sequence, uint32_t part, uint64_t begin,
                              uint64_t end, const pawl_sink *to, pawl_error *error)
{
    (void)sequence;
    (void)part;
    (void)begin;
    (void)end;
    (void)error;
    return lie("saves_nothing") ? PAWL_OK : to->write(to->context, "state", 5);
}

static pawl_status state_load(pawl_sequence *sequence, uint32_t part, const int32_t *tokens,
                              uint64_t begin, uint64_t end, const pawl_source *from,
                              pawl_error *error)
{
    char text[5];
    pawl_status status = PAWL_OK;
    (void)part;
    (void)tokens;
    (void)begin;
    for (uint64_t at = 0, got = 1; at < sizeof text && got && !status; at += got)
        status = from->read(from->context, text + at, sizeof text - at, &got);
    if (status && !lie("source_deaf")) {
        sequence->length += lie("load_grows");
        return refuse(error);
    }
    sequence->length = end;
    return PAWL_OK;
}

static const pawl_engine_api fake_engine = {.struct_size = sizeof fake_engine,
                                            .inspect = inspect,
                                            .open = open_engine,
                                            .close = close_engine,
                                            .info = info,
                                            .capacity = capacity,
                                            .reserve = reserve,
                                            .sequence_open = sequence_open,
                                            .sequence_close = sequence_close,
                                            .submit = submit,
                                            .wait = wait_for,
                                            .cancel = cancel,
                                            .length = length,
                                            .truncate = truncate_sequence,
                                            .fork = fork_sequence,
                                            .state_save = state_save,
                                            .state_load = state_load};

/* ---- tokenizer: a token is a digit ---- */

static pawl_status open_tokenizer(pawl_bytes path, pawl_tokenizer **out, pawl_error *error)
{
    (void)path;
    (void)error;
    *out = calloc(1, sizeof **out);
    return PAWL_OK;
}

static void close_tokenizer(pawl_tokenizer *tokenizer)
{
    free(tokenizer);
}

static void tokenizer_info(const pawl_tokenizer *tokenizer, pawl_tokenizer_info *out)
{
    (void)tokenizer;
    *out = (pawl_tokenizer_info){.struct_size = sizeof *out,
                                 .vocab_size = FAKE_VOCAB,
                                 .bos = lie("bos") ? FAKE_VOCAB : -1,
                                 .eos = 0,
                                 .eot = -1,
                                 .name = "fake",
                                 .digest = "fa"};
}

static pawl_status encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                          uint64_t n_segments, int32_t *tokens, uint64_t room, uint64_t *needed,
                          pawl_error *error)
{
    uint64_t n = n_segments ? segments[0].text.size : 0;
    (void)tokenizer;
    if (n && segments[0].text.data[0] == '!') {
        if (lie("needed"))
            *needed = 1;
        return refuse(error);
    }
    for (uint64_t i = 0; i < n && i < room + lie("encode_beyond"); i++)
        tokens[i] = segments[0].text.data[i] - '0' + (lie("encode_id") ? FAKE_VOCAB : 0);
    *needed = n;
    return PAWL_OK;
}

static pawl_bytes piece(const pawl_tokenizer *tokenizer, int32_t token)
{
    static const char digits[] = "0123456789";
    (void)tokenizer;
    if (lie("piece_null"))
        return (pawl_bytes){NULL, 1};
    if (lie("piece_outside") && token >= FAKE_VOCAB)
        return (pawl_bytes){"?", 1};
    return token >= 0 && token < FAKE_VOCAB ? (pawl_bytes){digits + token, 1}
                                            : (pawl_bytes){NULL, 0};
}

static int32_t token_by_name(const pawl_tokenizer *tokenizer, pawl_bytes name)
{
    (void)tokenizer;
    (void)name;
    return lie("name") ? -2 : -1;
}

static uint32_t token_flags(const pawl_tokenizer *tokenizer, int32_t token)
{
    (void)tokenizer;
    return lie("flags") || token == 0 ? PAWL_TOKEN_CONTROL : 0;
}

static const pawl_tokenizer_api fake_tokenizer = {.struct_size = sizeof fake_tokenizer,
                                                  .open = open_tokenizer,
                                                  .close = close_tokenizer,
                                                  .info = tokenizer_info,
                                                  .encode = encode,
                                                  .piece = piece,
                                                  .token = token_by_name,
                                                  .token_flags = token_flags};

/* ---- chat: a '<' begins a call, a '>' ends it ---- */

static pawl_status dialects(const pawl_sink *to, pawl_error *error)
{
    (void)error;
    return to->write(to->context, "[\"fake\"]", 8);
}

static pawl_status open_chat(pawl_bytes config, pawl_chat **out, pawl_error *error)
{
    (void)config;
    (void)error;
    *out = calloc(1, sizeof **out);
    return PAWL_OK;
}

static void close_chat(pawl_chat *chat)
{
    free(chat);
}

static const char *dialect(const pawl_chat *chat)
{
    (void)chat;
    return lie("nameless") ? "" : "fake";
}

static pawl_status render(const pawl_chat *chat, pawl_bytes request, const pawl_sink *to,
                          pawl_error *error)
{
    (void)chat;
    (void)error;
    return lie("renders_nothing") ? PAWL_OK : to->write(to->context, request.data, request.size);
}

static pawl_status parser_open(const pawl_chat *chat, pawl_bytes request, pawl_parser **out,
                               pawl_error *error)
{
    (void)chat;
    (void)request;
    (void)error;
    *out = calloc(1, sizeof **out);
    return PAWL_OK;
}

static void parser_close(pawl_parser *parser)
{
    if (lie("late")) {
        pawl_chat_event event = {.struct_size = sizeof event};
        parser->late(parser->arg, &event);
    }
    free(parser);
}

static pawl_status feed(pawl_parser *parser, pawl_segment piece, pawl_chat_emit emit, void *arg,
                        pawl_error *error)
{
    (void)error;
    parser->late = emit;
    parser->arg = arg;
    for (uint64_t i = 0; i < piece.text.size; i++) {
        pawl_chat_event event = {.struct_size = lie("event_size") ? 8 : sizeof event,
                                 .type = PAWL_CHAT_TEXT,
                                 .text = {piece.text.data + i, 1}};
        if (piece.text.data[i] == '<')
            event.type = lie("call_order") ? PAWL_CHAT_CALL_END : PAWL_CHAT_CALL_BEGIN;
        if (piece.text.data[i] == '>')
            event.type = lie("call_open") ? PAWL_CHAT_CALL_DELTA : PAWL_CHAT_CALL_END;
        if (lie("event_type"))
            event.type = 7;
        if (lie("event_null"))
            event.text.data = NULL;
        emit(arg, &event);
    }
    return PAWL_OK;
}

static pawl_status finish(pawl_parser *parser, pawl_chat_emit emit, void *arg, pawl_error *error)
{
    (void)parser;
    (void)emit;
    (void)arg;
    (void)error;
    return PAWL_OK;
}

static const pawl_chat_api fake_chat = {.struct_size = sizeof fake_chat,
                                        .dialects = dialects,
                                        .open = open_chat,
                                        .close = close_chat,
                                        .dialect = dialect,
                                        .render = render,
                                        .parser_open = parser_open,
                                        .parser_close = parser_close,
                                        .feed = feed,
                                        .finish = finish};

/* ---- the plugin: only its id is asked ---- */

static const pawl_plugin fake_plugin = {.struct_size = sizeof fake_plugin,
                                        .abi_minor = PAWL_ABI_MINOR,
                                        .id = "dev.pawl.test.fake",
                                        .version = "0.1.0"};

#endif /* CHECKED_FAKE_H */
