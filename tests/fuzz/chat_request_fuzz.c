/*
 * tests/fuzz/chat_request_fuzz.c - any bytes as a request of the older endpoints.
 *
 * Chat Completions, Completions, tokenize and detokenize: accepted whole, with what run
 * needs, or refused with a status, a code and a message whose body is JSON. An accepted
 * request's answer, made of made-up events, is JSON too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/handlers.h"
#include "api/reply.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* ------------------------------------------------------------ environment -- */

static run_model *find_model(void *context, const char *name)
{
    return strcmp(name, "tiny") == 0 ? context : NULL;
}

static const char *model_name(void *context, size_t i)
{
    (void)context;
    return i == 0 ? "tiny" : NULL;
}

static pawl_bytes piece(const pawl_tokenizer *tokenizer, int32_t token)
{
    static const char bytes[] = "a\xc3\xa9\xf0\x9f\xff\"";
    (void)tokenizer;
    must(token >= 0 && token < 300);
    return (pawl_bytes){bytes + token % 7, 1};
}

static pawl_status encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                          uint64_t n_segments, int32_t *tokens, uint64_t room, uint64_t *needed,
                          pawl_error *error)
{
    (void)tokenizer;
    (void)error;
    must(n_segments == 1);
    *needed = segments[0].text.size;
    for (uint64_t i = 0; i < *needed && i < room; i++)
        tokens[i] = (unsigned char)segments[0].text.data[i];
    return PAWL_OK;
}

/* ----------------------------------------------------------------- checks -- */

static void check_json(const char *text)
{
    cJSON *value = NULL;
    must(text && json_parse(text, strlen(text), &value, NULL) == PAWL_OK);
    cJSON_Delete(value);
}

static void check_error(const api_error *error)
{
    must(error->status >= 400 && error->status < 600 && error->type);
    must(error->code && *error->code && *error->message);
    char *text = api_error_text(error);
    check_json(text);
    free(text);
}

static void check_chunk(void *arg, const char *name, const char *json, size_t size)
{
    (void)arg;
    must(!name && strlen(json) == size);
    if (strcmp(json, "[DONE]") != 0)
        check_json(json);
}

static void give(reply *r, enum run_event_type type, const char *text, bool stream)
{
    for (uint32_t k = 0; k < r->n_choices; k++) {
        run_event *event = run_event_new(type);
        event->choice = k;
        event->text = text ? strdup(text) : NULL;
        event->stop_reason = "stop";
        if (type == RUN_END && k + 1 < r->n_choices)
            event->type = RUN_CHOICE_END;
        reply_event(r, event, stream ? check_chunk : NULL, NULL);
        run_event_free(event);
    }
}

static void check_answer(const reply_dialect *dialect, const run_request *request,
                         const parse_choices *choices)
{
    reply *r = reply_open(dialect, request, choices, choices->echo ? request->raw_text : NULL);
    must(r != NULL);
    give(r, RUN_IN_PROGRESS, NULL, choices->stream);
    give(r, RUN_DELTA, "a", choices->stream);
    give(r, RUN_ITEM_END, "a", choices->stream);
    give(r, RUN_END, NULL, choices->stream);
    buf out;
    buf_init(&out, 1 << 26);
    must(reply_body(r, &out));
    check_json(buf_text(&out));
    buf_clear(&out);
    reply_close(r);
}

static void check_request(const run_request *request, const parse_choices *choices, bool chat)
{
    const cJSON *item;
    must(request->model && !request->store);
    must(choices->n >= 1 && choices->n <= RUN_MAX_CHOICES);
    must(chat ? cJSON_GetArraySize(request->items) > 0 : request->raw_text || request->raw_tokens);
    cJSON_ArrayForEach(item, request->items)
    {
        must(json_get_text(item, "type") && json_get_text(item, "id"));
    }
    for (uint64_t i = 0; i < request->sampling.n_bias; i++)
        must(request->bias_ids[i] >= 0 && request->bias_ids[i] < 300);
    check_answer(chat ? &reply_chat : &reply_completions, request, choices);
}

static void try_request(const cJSON *body, const parse_env *env, bool chat)
{
    api_error error;
    parse_choices choices;
    run_request *request = chat ? chat_parse(body, env, &choices, &error)
                                : completions_parse(body, env, &choices, &error);
    if (request)
        check_request(request, &choices, chat);
    else
        check_error(&error);
    run_request_free(request);
}

static void try_tokens(cJSON *body, const parse_env *env, bool to_tokens)
{
    api_error error;
    buf out;
    buf_init(&out, 1 << 26);
    bool ok = to_tokens ? tokens_encode(env, NULL, body, &out, &error)
                        : tokens_decode(env, body, &out, &error);
    if (ok)
        check_json(buf_text(&out));
    else
        check_error(&error);
    buf_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pawl_tokenizer_api tokenizer = {
        .struct_size = sizeof tokenizer, .encode = encode, .piece = piece};
    run_model model = {.tokenizer_api = &tokenizer,
                       .vocabulary = {.vocab_size = 300, .bos = 1, .add_bos = 1}};
    parse_env env = {.clock = clock_system(),
                     .context = &model,
                     .find_model = find_model,
                     .model_name = model_name};
    api_error error;
    cJSON *body = handlers_body((const char *)data, size, &error);
    if (!body) {
        check_error(&error);
        return 0;
    }
    try_request(body, &env, true);
    try_request(body, &env, false);
    try_tokens(body, &env, true);
    try_tokens(body, &env, false);
    cJSON_Delete(body);
    return 0;
}
