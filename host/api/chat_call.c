/*
 * api/chat_call.c - POST /chat/completions and /completions.
 *
 * As in responses_call.c: what can be refused is refused before the first event. The
 * answers are not stored; a client that goes cancels its turns. Parsing runs on run's
 * worker, the dialect's functions on net's loop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/follow.h"
#include "api/handlers.h"
#include "api/reply.h"
#include "run/logs.h"

#include <stdlib.h>
#include <string.h>

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

static void on_lost(void *state, const api_error *error, api_emit emit, void *arg)
{
    char *text = api_error_text(error);
    (void)state;
    if (text)
        emit(arg, NULL, text, strlen(text));
    free(text);
}

static const call_dialect dialect = {on_event, close_state, on_lost};

/* ------------------------------------------------------------------- starting -- */

/* What one of the two endpoints is made of. */
typedef struct endpoint {
    const reply_dialect *replies;
    const char *input; /* the name of the request's input */
    const char *path;
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

static reply *open_reply(const endpoint *to, const run_request *request,
                         const parse_choices *choices)
{
    buf text;
    buf_init(&text, CALL_MAX_BODY);
    const char *prompt = choices->echo ? prompt_text(request, &text) : NULL;
    bool ok = prompt || !choices->echo;
    reply *r = ok ? reply_open(to->replies, request, choices, prompt) : NULL;
    buf_clear(&text);
    return r;
}

static enum api_call_kind kind_of(const parse_choices *choices)
{
    return choices->stream ? API_STREAM : API_FOLD;
}

/* Takes the request. NULL: refused; nothing runs. */
static api_call *start_new(const endpoint *to, const api_context *context, run_request *request,
                           const parse_choices *choices, api_error *error)
{
    char id[CLOCK_ID_SIZE];
    run_refusal refusal = {0};
    bool kept = request->keep_events;
    reply *r = open_reply(to, request, choices);
    api_call *call = r ? call_running(kind_of(choices), &dialect, r) : NULL;
    memcpy(id, request->id, sizeof id);
    if (!call) {
        run_request_free(request);
        api_refuse_memory(error);
        return NULL;
    }
    if (run_start_choices(context->runtime, request, choices->n, context->listener, call->turns,
                          &refusal)) {
        call->n_turns = choices->n;
        call->log = kept ? run_logs_find(run_logs_of(context->runtime), NULL, id) : NULL;
        return call;
    }
    api_call_free(call);
    api_refuse_run(error, &refusal, to->input);
    return NULL;
}

/* The answer to the request's key once more, as it comes or as it was. Takes the request. */
static api_call *join(const endpoint *to, const api_context *context, run_request *request,
                      const parse_choices *choices, run_log *log, api_error *error)
{
    run_record *record;
    run_tally skipped;
    memcpy(request->id, run_log_id(log), strlen(run_log_id(log)) + 1);
    request->created_ms = run_log_created(log);
    run_reader *reader = NULL;
    if (follow_check(log, 0, error))
        reader = follow_open(context->runtime, log, &record, &skipped, error);
    else
        api_refuse(error, 409, "cursor_expired", "Idempotency-Key",
                   "The answer to this key was too long to be kept; ask with another one.");
    reply *r = reader ? open_reply(to, request, choices) : NULL;
    run_request_free(request);
    if (!reader)
        return NULL;
    run_record_release(record);
    if (!r)
        run_reader_close(reader);
    api_call *call = r ? call_reading(kind_of(choices), &dialect, r, log, reader) : NULL;
    if (!call)
        api_refuse_memory(error);
    return call;
}

/* NULL: refused, *error says why; nothing runs. */
static api_call *start(const endpoint *to, const api_context *context, const cJSON *body,
                       api_error *error)
{
    repeat before;
    parse_choices choices;
    parse_env env = responses_env(context, NULL);
    if (!repeat_open(&before, context->runtime, &context->caller, context->request->key,
                     "Idempotency-Key", to->path, body, error))
        return NULL;
    env.key = before.key;
    env.key_hash = before.hash;
    run_request *request = to->parse(body, &env, &choices, error);
    api_call *call = NULL;
    if (request && before.log)
        call = join(to, context, request, &choices, before.log, error);
    else if (request)
        call = start_new(to, context, request, &choices, error);
    repeat_clear(&before);
    return call;
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
    static const endpoint chat = {&reply_chat, "messages", "/chat/completions", chat_parse};
    return create(&chat, context);
}

api_call *completions_create(const api_context *context)
{
    static const endpoint completions = {&reply_completions, "prompt", "/completions",
                                         completions_parse};
    return create(&completions, context);
}
