/*
 * api/responses_call.c - POST /responses and /responses/input_tokens; starting a turn.
 *
 * What can be refused is refused here, before the first event, so that a client gets a
 * 4xx or an error frame and never a stream that begins well and holds an error.
 * Parsing runs on run's worker, the dialect's functions on net's loop.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <string.h>

#include "api/follow.h"
#include "api/handlers.h"
#include "api/responses_events.h"
#include "api/responses_object.h"
#include "run/logs.h"
#include "run/replay.h"

/* ------------------------------------------------- parse_env over a runtime -- */

static run_model *env_model(void *context, const char *name)
{
    return run_model_find(((const api_context *)context)->runtime, name);
}

static const char *env_model_name(void *context, size_t i)
{
    run_runtime *runtime = ((const api_context *)context)->runtime;
    return i < run_model_count(runtime) ? run_model_at(runtime, i)->name : NULL;
}

static run_record *env_record(void *context, const char *id, bool with_removed)
{
    const api_context *of = context;
    return run_find(of->runtime, with_removed ? NULL : &of->caller, id, with_removed);
}

static enum run_conversation_answer env_conversation(void *context, const char *id, bool hold,
                                                     run_conversation **out)
{
    const api_context *of = context;
    enum run_conversation_answer answer =
        run_conversation_open(of->runtime, &of->caller, id, hold, out);
    if (answer != RUN_CONVERSATION_FOUND || run_conversation_load(*out))
        return answer;
    run_conversation_close(*out);
    return RUN_CONVERSATION_FAILED;
}

static bool env_has_call(void *context, run_record *from, const char *call_id)
{
    return run_chain_has_call(((const api_context *)context)->runtime, from, call_id);
}

parse_env responses_env(const api_context *context, run_record *parent)
{
    return (parse_env){.clock = run_clock(context->runtime),
                       .caller = &context->caller,
                       .parent = parent,
                       .context = (void *)(uintptr_t)context, /* they only read it */
                       .find_model = env_model,
                       .model_name = env_model_name,
                       .find_record = env_record,
                       .has_call = env_has_call,
                       .find_conversation = env_conversation};
}

/* --------------------------------------------------------------- the dialect -- */

static void on_event(api_call *call, void *state, run_event *event, api_emit emit, void *arg)
{
    responses_stream_event(state, event, emit, arg);
    if (call->kind == API_FOLD && event->type == RUN_END)
        call->status = responses_stream_body(state, &call->body);
}

static void close_state(void *state)
{
    responses_stream_close(state);
}

static const call_dialect responses_dialect = {on_event, close_state, NULL};

/* Whoever asks for a background response reads its events like anybody who comes later. */
static api_call *start_background(run_runtime *runtime, run_request *request, const char *lane,
                                  enum api_call_kind kind, api_error *error)
{
    char id[CLOCK_ID_SIZE];
    run_refusal refusal = {0};
    run_turn *turn = NULL;
    memcpy(id, request->id, sizeof id);
    if (!run_start(runtime, request, (run_listener){0}, &turn, &refusal)) {
        api_refuse_run(error, &refusal, "input");
        return NULL;
    }
    run_turn_release(turn);
    run_log *log = run_logs_find(run_logs_of(runtime), NULL, id);
    api_call *call = NULL;
    if (!log)
        api_refuse_memory(error);
    else if (kind == API_STREAM)
        call = follow_stream(runtime, log, kind, lane, 0, error);
    else
        call = follow_accepted(runtime, log, error);
    run_log_release(log);
    return call;
}

static api_call *start_new(const api_context *context, const responses_order *order,
                           const parse_env *env, api_error *error)
{
    run_runtime *runtime = context->runtime;
    run_refusal refusal = {0};
    run_request *request = responses_parse(order->body, env, error);
    if (!request)
        return NULL;
    if (request->background)
        return start_background(runtime, request, order->lane, order->kind, error);
    bool kept = request->keep_events;
    responses_stream *stream = responses_stream_open(request, order->lane);
    api_call *call = stream ? call_running(order->kind, &responses_dialect, stream) : NULL;
    if (!call) {
        run_request_free(request);
        api_refuse_memory(error);
        return NULL;
    }
    memcpy(call->id, request->id, sizeof call->id);
    if (run_start(runtime, request, context->listener, call->turns, &refusal)) {
        call->n_turns = 1;
        call->log = kept ? run_logs_find(run_logs_of(runtime), NULL, call->id) : NULL;
        return call;
    }
    api_call_free(call);
    api_refuse_run(error, &refusal, "input");
    return NULL;
}

/* ------------------------------------------------------------- once more -- */

/* The answer of a stored response whose events are not kept. */
static api_call *answer_again(const api_context *context, const responses_order *order,
                              run_record *record, api_error *error)
{
    responses_stream *stream = responses_stream_replay(record, order->lane);
    api_call *call = stream ? call_running(order->kind, &responses_dialect, stream) : NULL;
    if (call && run_replay(record, context->listener)) {
        memcpy(call->id, record->id, strnlen(record->id, sizeof call->id - 1));
        return call;
    }
    api_call_free(call);
    api_refuse(error, 500, "server_error", NULL, "The stored response could not be read.");
    return NULL;
}

static api_call *join(const api_context *context, const responses_order *order, run_log *log,
                      api_error *error)
{
    bool background = run_log_is_background(log), stream = order->kind == API_STREAM;
    if (!follow_check(log, 0, error)) { /* too much was said to keep it all */
        run_record *record = run_find(context->runtime, &context->caller, run_log_id(log), false);
        api_call *call = record ? answer_again(context, order, record, error) : NULL;
        run_record_release(record);
        return call;
    }
    if (background && !stream)
        return follow_accepted(context->runtime, log, error);
    return follow_stream(context->runtime, log, order->kind, order->lane, 0, error);
}

api_call *responses_start(const api_context *context, const responses_order *order,
                          api_error *error)
{
    repeat before;
    parse_env env = responses_env(context, order->parent);
    if (!repeat_open(&before, context->runtime, &context->caller, order->key, order->key_name,
                     "/responses", order->body, error))
        return NULL;
    env.key = before.key;
    env.key_hash = before.hash;
    api_call *call = before.log      ? join(context, order, before.log, error)
                     : before.record ? answer_again(context, order, before.record, error)
                                     : start_new(context, order, &env, error);
    repeat_clear(&before);
    return call;
}

/* -------------------------------------------------------------- the endpoints -- */

api_call *responses_create(const api_context *context)
{
    api_error error;
    cJSON *body = handlers_body(context->request->body, context->request->body_size, &error);
    api_call *call = NULL;
    if (body) {
        responses_order order = {.body = body,
                                 .key = context->request->key,
                                 .key_name = "Idempotency-Key",
                                 .kind =
                                     json_get_bool(body, "stream", false) ? API_STREAM : API_FOLD};
        call = responses_start(context, &order, &error);
    }
    cJSON_Delete(body);
    return call ? call : call_refused(&error);
}

static api_call *count(const api_context *context, run_request *request)
{
    api_error error;
    run_refusal refusal = {0};
    uint64_t n_tokens = 0;
    if (!run_count(context->runtime, request, &n_tokens, &refusal)) {
        api_refuse_run(&error, &refusal, "input");
        return call_refused(&error);
    }
    api_call *call = call_reply(200);
    if (call)
        buf_printf(&call->body,
                   "{\"object\":\"response.input_tokens\",\"input_tokens\":%" PRIu64 "}", n_tokens);
    return call;
}

api_call *responses_input_tokens(const api_context *context)
{
    api_error error;
    parse_env env = responses_env(context, NULL);
    env.looks_only = true;
    cJSON *body = handlers_body(context->request->body, context->request->body_size, &error);
    run_request *request = body ? responses_parse(body, &env, &error) : NULL;
    cJSON_Delete(body);
    if (!request)
        return call_refused(&error);
    api_call *call = count(context, request);
    run_request_free(request);
    return call;
}
