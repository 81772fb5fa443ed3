/*
 * api/tokens.c - POST /tokenize and /detokenize: what a text costs.
 *
 * Two forms are in use, and both are taken:
 *
 *   vLLM          {"model","prompt" or "messages",…} -> {"count","max_model_len","tokens",
 *                 "token_strs"}       {"model","tokens"} -> {"prompt"}
 *   llama-server  {"content",…} -> {"tokens"}      {"tokens"} -> {"content"}
 *
 * "model" may be left out where only one is served. A prompt is what /completions makes
 * of it, messages are what /chat/completions makes of them. Runs on run's worker; keeps
 * nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/fields.h"
#include "api/handlers.h"
#include "base/utf8.h"

typedef struct token_list {
    int32_t *ids;
    uint64_t n_ids;
} token_list;

bool tokens_text(const run_model *model, const int32_t *tokens, uint64_t n_tokens, buf *out)
{
    utf8_tail tail = {{0}, 0};
    for (uint64_t i = 0; i < n_tokens; i++) {
        pawl_bytes piece = model->tokenizer_api->piece(model->tokenizer, tokens[i]);
        utf8_feed(&tail, piece.data, (size_t)piece.size, out);
    }
    utf8_finish(&tail, out);
    return buf_add_text(out, "");
}

static bool name_only_model(const parse_env *env, cJSON *body)
{
    const char *only = env->model_name(env->context, 0);
    if (json_get(body, "model") || !only || env->model_name(env->context, 1))
        return true;
    cJSON_DeleteItemFromObjectCaseSensitive(body, "model");
    return cJSON_AddStringToObject(body, "model", only) != NULL;
}

/* A request with its model and nothing else. NULL: refused. */
static run_request *model_request(const parse_env *env, const cJSON *body, api_error *error)
{
    run_request *request = run_request_new(env->clock);
    parse_state state = {.body = body, .env = env, .request = request, .error = error};
    if (request)
        request->echo = cJSON_CreateObject();
    if (!request || !request->echo)
        api_refuse_memory(error);
    else if (parse_model(&state))
        return request;
    run_request_free(request);
    return NULL;
}

/* ------------------------------------------------------------------- tokenize -- */

/* add_bos: the token that begins a text comes first where the model wants one. */
static bool encode_text(const run_model *model, const char *text, bool control, bool add_bos,
                        token_list *list, api_error *error)
{
    pawl_error why = {.struct_size = sizeof why};
    pawl_segment segment = {json_text(text), control ? PAWL_SEGMENT_CONTROL : PAWL_SEGMENT_LITERAL};
    int32_t bos = model->vocabulary.bos;
    if (run_encode(model->tokenizer_api, model->tokenizer, &segment, 1, &list->ids, &list->n_ids,
                   &why) != PAWL_OK)
        return api_refuse(error, 500, "server_error", NULL, "%s", why.message);
    bool has_bos = list->n_ids && list->ids[0] == bos;
    if (!add_bos || !model->vocabulary.add_bos || bos < 0 || has_bos)
        return true;
    int32_t *more = realloc(list->ids, (size_t)(list->n_ids + 1) * sizeof *more);
    if (!more)
        return api_refuse_memory(error);
    memmove(more + 1, more, (size_t)list->n_ids * sizeof *more);
    more[0] = bos;
    list->ids = more;
    list->n_ids++;
    return true;
}

/* The text under a name. add_bos: what holds where the client does not say. */
static bool encode_member(const run_model *model, const cJSON *body, const char *name, bool add_bos,
                          token_list *list, api_error *error)
{
    const char *text = NULL;
    bool control = false;
    if (!field_text(body, "", name, SIZE_MAX, &text, error) ||
        !field_bool(body, "", "parse_special", &control, error) ||
        !field_bool(body, "", "add_special", &add_bos, error) ||
        !field_bool(body, "", "add_special_tokens", &add_bos, error))
        return false;
    return encode_text(model, text, control, add_bos, list, error);
}

static bool encode_messages(const parse_env *env, run_runtime *runtime, const cJSON *body,
                            token_list *list, api_error *error)
{
    run_refusal refusal = {0};
    parse_choices choices;
    run_request *request = chat_parse(body, env, &choices, error);
    bool ok = request && field_bool(body, "", "add_generation_prompt", &request->generate, error);
    if (ok && !run_tokens(runtime, request, &list->ids, &list->n_ids, &refusal)) {
        api_refuse_run(error, &refusal, "messages");
        ok = false;
    }
    run_request_free(request);
    return ok;
}

static void add_ids(const token_list *list, buf *out)
{
    buf_add_text(out, "\"tokens\":[");
    for (uint64_t i = 0; i < list->n_ids; i++)
        buf_printf(out, "%s%" PRId32, i ? "," : "", list->ids[i]);
    buf_add_text(out, "]");
}

static void add_piece(const run_model *model, int32_t token, buf *out)
{
    json_add_quoted(out, model->tokenizer_api->piece(model->tokenizer, token));
}

static void add_pieces(const run_model *model, const token_list *list, buf *out)
{
    buf_add_text(out, ",\"token_strs\":[");
    for (uint64_t i = 0; i < list->n_ids; i++) {
        buf_add_text(out, i ? "," : "");
        add_piece(model, list->ids[i], out);
    }
    buf_add_text(out, "]");
}

/* {"tokens":[…]}, each with its piece where that is wished. */
static void write_content(const run_model *model, const token_list *list, bool pieces, buf *out)
{
    buf_add_text(out, "{");
    if (!pieces)
        add_ids(list, out);
    else
        buf_add_text(out, "\"tokens\":[");
    for (uint64_t i = 0; pieces && i < list->n_ids; i++) {
        buf_printf(out, "%s{\"id\":%" PRId32 ",\"piece\":", i ? "," : "", list->ids[i]);
        add_piece(model, list->ids[i], out);
        buf_add_text(out, "}");
    }
    buf_add_text(out, pieces ? "]}" : "}");
}

static void write_counted(const run_model *model, const token_list *list, bool pieces, buf *out)
{
    buf_printf(out, "{\"count\":%" PRIu64 ",\"max_model_len\":%" PRIu64 ",", list->n_ids,
               model->info.context_limit);
    add_ids(list, out);
    if (pieces)
        add_pieces(model, list, out);
    else
        buf_add_text(out, ",\"token_strs\":null");
    buf_add_text(out, "}");
}

bool tokens_encode(const parse_env *env, run_runtime *runtime, cJSON *body, buf *out,
                   api_error *error)
{
    token_list list = {NULL, 0};
    bool pieces = false;
    if (!name_only_model(env, body))
        return api_refuse_memory(error);
    run_request *request = model_request(env, body, error);
    const run_model *model = request ? request->model : NULL;
    run_request_free(request);
    if (!model)
        return false;
    bool content = json_get(body, "content") != NULL;
    if (!field_bool(body, "", content ? "with_pieces" : "return_token_strs", &pieces, error))
        return false;
    bool ok;
    if (content)
        ok = encode_member(model, body, "content", false, &list, error);
    else if (json_get(body, "prompt"))
        ok = encode_member(model, body, "prompt", true, &list, error);
    else if (json_get(body, "messages"))
        ok = encode_messages(env, runtime, body, &list, error);
    else
        ok = field_missing("", "prompt", error);
    if (ok && content)
        write_content(model, &list, pieces, out);
    else if (ok)
        write_counted(model, &list, pieces, out);
    free(list.ids);
    return ok && (!out->failed || api_refuse_memory(error));
}

/* ----------------------------------------------------------------- detokenize -- */

bool tokens_decode(const parse_env *env, cJSON *body, buf *out, api_error *error)
{
    const cJSON *tokens = NULL;
    token_list list = {NULL, 0};
    buf text;
    if (!name_only_model(env, body))
        return api_refuse_memory(error);
    run_request *request = model_request(env, body, error);
    parse_state state = {.body = body, .env = env, .request = request, .error = error};
    bool ok = request && field_array(body, "", "tokens", INT32_MAX, &tokens, error) &&
              (tokens || field_missing("", "tokens", error)) &&
              token_ids_parse(&state, tokens, "tokens", &list.ids, &list.n_ids);
    buf_init(&text, CALL_MAX_BODY);
    if (ok) {
        tokens_text(request->model, list.ids, list.n_ids, &text);
        buf_add_text(out, "{\"prompt\":");
        json_add_quoted(out, buf_bytes(&text));
        buf_add_text(out, ",\"content\":");
        json_add_quoted(out, buf_bytes(&text));
        buf_add_text(out, "}");
        ok = (!text.failed && !out->failed) || api_refuse_memory(error);
    }
    buf_clear(&text);
    free(list.ids);
    run_request_free(request);
    return ok;
}

/* ------------------------------------------------------------------ endpoints -- */

static api_call *answer(const api_context *context, bool encode)
{
    api_error error;
    parse_env env = responses_env(context->runtime, NULL);
    api_call *call = call_reply(200);
    if (!call)
        return NULL;
    cJSON *body = handlers_body(context->request->body, context->request->body_size, &error);
    bool ok = body && (encode ? tokens_encode(&env, context->runtime, body, &call->body, &error)
                              : tokens_decode(&env, body, &call->body, &error));
    cJSON_Delete(body);
    if (!ok)
        call_set_error(call, &error);
    return call;
}

api_call *tokens_tokenize(const api_context *context)
{
    return answer(context, true);
}

api_call *tokens_detokenize(const api_context *context)
{
    return answer(context, false);
}
