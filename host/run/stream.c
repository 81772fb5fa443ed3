/*
 * run/stream.c - from sampled tokens to output items. See stream.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/stream.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define MAX_HELD_BYTES (1u << 20) /* of one token's text and a possible stop string */

struct run_stream {
    const run_request *request;
    const run_model *model;
    pawl_parser *parser; /* NULL: all text is message text                */
    run_output output;
    utf8_tail tail;     /* an unfinished character                       */
    buf characters;     /* what one token completed                      */
    buf held;           /* characters that may begin a stop string       */
    bool cut;           /* the only call that was wished for has ended      */
    bool stopped;       /* a stop string was found                         */
    bool in_reasoning;  /* the latest text was reasoning                 */
    bool failed;        /* the parser failed                             */
    uint64_t reasoning; /* tokens of reasoning                           */
};

pawl_status run_stream_open(const run_request *request, const char *chat_request,
                            const base_clock *clock, run_listener listener, run_stream **stream,
                            pawl_error *error)
{
    run_stream *s = calloc(1, sizeof *s);
    if (!s)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a reply");
    s->request = request;
    s->model = request->model;
    buf_init(&s->characters, MAX_HELD_BYTES);
    buf_init(&s->held, MAX_HELD_BYTES);
    run_output_init(&s->output, clock, listener);
    if (chat_request && s->model->chat) {
        pawl_status status = s->model->chat_api->parser_open(
            s->model->chat, json_text(chat_request), &s->parser, error);
        if (status) {
            run_stream_free(s);
            return status;
        }
    }
    *stream = s;
    return PAWL_OK;
}

void run_stream_free(run_stream *s)
{
    if (!s)
        return;
    if (s->parser)
        s->model->chat_api->parser_close(s->parser);
    run_output_clear(&s->output);
    buf_clear(&s->characters);
    buf_clear(&s->held);
    free(s);
}

static void message_text(run_stream *s, pawl_bytes text)
{
    s->in_reasoning = false;
    if (text.size)
        run_output_text(&s->output, RUN_ITEM_MESSAGE, text.data, (size_t)text.size);
}

/* What the dialect's parser says. */
static void on_chat_event(void *arg, const pawl_chat_event *event)
{
    run_stream *s = arg;
    pawl_bytes text = event->text;
    if (s->cut)
        return;
    switch (event->type) {
    case PAWL_CHAT_TEXT:
        message_text(s, text);
        break;
    case PAWL_CHAT_REASONING:
        s->in_reasoning = true;
        run_output_text(&s->output, RUN_ITEM_REASONING, text.data, (size_t)text.size);
        break;
    case PAWL_CHAT_CALL_BEGIN:
        run_output_call(&s->output, text.data, (size_t)text.size);
        break;
    case PAWL_CHAT_CALL_DELTA:
        run_output_arguments(&s->output, text.data, (size_t)text.size);
        break;
    case PAWL_CHAT_CALL_END:
        run_output_close(&s->output, true);
        s->cut = s->request->one_call;
        break;
    case PAWL_CHAT_CALL_BAD: /* nothing the model wrote is lost, nothing is offered as a call */
        if (s->output.open && s->output.kind == RUN_ITEM_CALL)
            run_output_close(&s->output, false);
        else
            message_text(s, text);
        break;
    default:
        break;
    }
}

static void parse(run_stream *s, const char *text, size_t size, uint64_t kind)
{
    pawl_segment piece = {{text, size}, kind};
    if (size == 0 || s->stopped || s->cut)
        return;
    if (!s->parser) {
        if (kind == PAWL_SEGMENT_LITERAL)
            message_text(s, piece.text);
    } else if (s->model->chat_api->feed(s->parser, piece, on_chat_event, s, NULL) != PAWL_OK) {
        s->failed = true;
    }
}

/* The earliest stop string in text: its offset, or SIZE_MAX. */
static size_t find_stop(const run_request *request, const char *text, size_t size)
{
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < request->n_stop; i++) {
        size_t n = strlen(request->stop[i]);
        const char *at = n ? memmem(text, size, request->stop[i], n) : NULL;
        if (at && (size_t)(at - text) < first)
            first = (size_t)(at - text);
    }
    return first;
}

/* Length of the longest end of text that begins a stop string. */
static size_t held_back(const run_request *request, const char *text, size_t size)
{
    size_t longest = 0;
    for (size_t i = 0; i < request->n_stop; i++) {
        size_t n = strlen(request->stop[i]);
        for (size_t k = n && n - 1 < size ? n - 1 : size; k > longest; k--)
            if (k < n && memcmp(text + size - k, request->stop[i], k) == 0)
                longest = k;
    }
    return longest;
}

/* Whole characters through the stop strings to the parser. */
static void characters(run_stream *s, const buf *text)
{
    if (s->request->n_stop == 0) {
        parse(s, buf_text(text), text->size, PAWL_SEGMENT_LITERAL);
        return;
    }
    buf_add(&s->held, buf_text(text), text->size);
    const char *held = buf_text(&s->held);
    size_t stop = find_stop(s->request, held, s->held.size);
    if (stop != SIZE_MAX) {
        parse(s, held, stop, PAWL_SEGMENT_LITERAL);
        s->stopped = true;
        buf_reset(&s->held);
        return;
    }
    size_t keep = held_back(s->request, held, s->held.size), go = s->held.size - keep;
    parse(s, held, go, PAWL_SEGMENT_LITERAL);
    memmove(s->held.data, s->held.data + go, keep);
    s->held.size = keep;
}

static void flush_characters(run_stream *s)
{
    buf_reset(&s->characters);
    utf8_finish(&s->tail, &s->characters);
    if (s->characters.size)
        characters(s, &s->characters);
    parse(s, buf_text(&s->held), s->held.size, PAWL_SEGMENT_LITERAL);
    buf_reset(&s->held);
}

/* {"token": text, "logprob": number, "bytes": [numbers]} */
static cJSON *logprob_entry(const run_stream *s, int32_t token, float logprob)
{
    pawl_bytes piece = s->model->tokenizer_api->piece(s->model->tokenizer, token);
    buf text;
    utf8_tail tail = {{0}, 0};
    buf_init(&text, MAX_HELD_BYTES);
    utf8_feed(&tail, piece.data, (size_t)piece.size, &text);
    utf8_finish(&tail, &text);
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "token", buf_text(&text));
    cJSON_AddNumberToObject(entry, "logprob", (double)logprob);
    cJSON *bytes = cJSON_AddArrayToObject(entry, "bytes");
    for (uint64_t i = 0; i < piece.size; i++)
        cJSON_AddItemToArray(bytes, cJSON_CreateNumber((unsigned char)piece.data[i]));
    buf_clear(&text);
    return entry;
}

static void add_logprobs(run_stream *s, int32_t token, float logprob, const struct pawl_top *top,
                         uint32_t n_top)
{
    cJSON *entry = logprob_entry(s, token, logprob);
    cJSON *tops = cJSON_AddArrayToObject(entry, "top_logprobs");
    for (uint32_t i = 0; i < n_top; i++)
        cJSON_AddItemToArray(tops, logprob_entry(s, top[i].token, top[i].logprob));
    run_output_logprob(&s->output, entry);
}

bool run_stream_token(run_stream *s, int32_t token, float logprob, const struct pawl_top *top,
                      uint32_t n_top)
{
    const pawl_tokenizer_api *api = s->model->tokenizer_api;
    pawl_bytes piece = api->piece(s->model->tokenizer, token);
    if (s->request->logprobs)
        add_logprobs(s, token, logprob, top, n_top);
    if (api->token_flags(s->model->tokenizer, token) & PAWL_TOKEN_CONTROL) {
        flush_characters(s);
        parse(s, piece.data, (size_t)piece.size, PAWL_SEGMENT_CONTROL);
    } else {
        buf_reset(&s->characters);
        utf8_feed(&s->tail, piece.data, (size_t)piece.size, &s->characters);
        if (s->characters.size)
            characters(s, &s->characters);
    }
    s->reasoning += s->in_reasoning;
    return !s->stopped && !s->cut;
}

void run_stream_finish(run_stream *s, bool complete)
{
    if (!s->cut) {
        flush_characters(s);
        if (s->parser && s->model->chat_api->finish(s->parser, on_chat_event, s, NULL) != PAWL_OK)
            s->failed = true;
    }
    run_output_close(&s->output, complete);
}

const cJSON *run_stream_items(const run_stream *s)
{
    return s->output.items;
}

uint32_t run_stream_calls(const run_stream *s)
{
    return s->output.n_calls;
}

uint64_t run_stream_reasoning(const run_stream *s)
{
    return s->reasoning;
}

bool run_stream_failed(const run_stream *s)
{
    return s->failed || s->output.failed || s->held.failed || s->characters.failed;
}
