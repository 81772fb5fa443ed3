/*
 * api/chat_call.c - POST /chat/completions and /completions.
 *
 * As in responses_call.c: what can be refused is refused before the first event. The
 * answers are not stored; a client that goes cancels its turns. Parsing runs on run's
 * worker, the dialect's functions on net's loop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/handlers.h"
#include "api/reply.h"

/* --------------------------------------------------------------- the dialect -- */

static void fold(api_call *call, reply *r)
{
    api_error error = r->error;
    if (!r->failed && reply_body(r, &call->body))
        return;
    if (!r->failed)
        api_refuse_memory(&error);
    call_set_error(call, &error);
}

static void on_event(api_call *call, void *state, run_event *event, api_emit emit, void *arg)
{
    reply *r = state;
    bool had_failed = r->failed;
    reply_event(r, event, emit, arg);
    if (r->failed && !had_failed) /* the other choices would be for nobody */
        api_call_cancel(call);
    if (call->kind == API_FOLD && event->type == RUN_END)
        fold(call, r);
}

static void close_state(void *state)
{
    reply_close(state);
}

static const call_dialect dialect = {.on_event = on_event, .close = close_state};

/* ------------------------------------------------------------------- starting -- */

/* What one of the two endpoints is made of. */
typedef struct endpoint {
    const reply_dialect *replies;
    const char *input; /* the name of the request's input */
    run_request *(*parse)(const cJSON *body, const parse_env *env, parse_choices *choices,
                          api_error *error);
} endpoint;

/* The prompt as text, for an echo; it is in *text. NULL: no memory. */
static const char *prompt_text(const run_request *request, buf *text)
{
    if (request->raw_text)
        return request->raw_text;
    if (!tokens_text(request->model, request->raw_tokens, request->n_raw_tokens, text))
        return NULL;
    return buf_text(text);
}

static api_call *open_call(const endpoint *to, const run_request *request,
                           const parse_choices *choices)
{
    buf text;
    buf_init(&text, CALL_MAX_BODY);
    const char *prompt = choices->echo ? prompt_text(request, &text) : NULL;
    bool ok = prompt || !choices->echo;
    reply *r = ok ? reply_open(to->replies, request, choices, prompt) : NULL;
    buf_clear(&text);
    return r ? call_running(choices->stream ? API_STREAM : API_FOLD, &dialect, r) : NULL;
}

/* NULL: refused, *error says why; nothing runs. */
static api_call *start(const endpoint *to, const api_context *context, const cJSON *body,
                       api_error *error)
{
    run_refusal refusal = {0};
    parse_choices choices;
    parse_env env = responses_env(context, NULL);
    run_request *request = to->parse(body, &env, &choices, error);
    if (!request)
        return NULL;
    api_call *call = open_call(to, request, &choices);
    if (!call) {
        run_request_free(request);
        api_refuse_memory(error);
        return NULL;
    }
    if (run_start_choices(context->runtime, request, choices.n, context->listener, call->turns,
                          &refusal)) {
        call->n_turns = choices.n;
        return call;
    }
    api_call_free(call);
    api_refuse_run(error, &refusal, to->input);
    return NULL;
}

static api_call *create(const endpoint *to, const api_context *context)
{
    api_error error;
    cJSON *body = handlers_body(context->request->body, context->request->body_size, &error);
    api_call *call = body ? start(to, context, body, &error) : NULL;
    cJSON_Delete(body);
    return call ? call : call_refused(&error);
}

api_call *chat_create(const api_context *context)
{
    static const endpoint chat = {&reply_chat, "messages", chat_parse};
    return create(&chat, context);
}

api_call *completions_create(const api_context *context)
{
    static const endpoint completions = {&reply_completions, "prompt", completions_parse};
    return create(&completions, context);
}
