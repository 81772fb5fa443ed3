/*
 * run/turn.c - one turn, from its prompt to its stored record. See turn.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/turn.h"

#include "base/log.h"
#include "run/conversation.h"

#include <stdlib.h>
#include <string.h>

static void send(run_turn *turn, run_event *event)
{
    if (event)
        turn->listener.on_event(turn->listener.arg, event);
}

static void turn_free(run_turn *turn)
{
    run_stream_free(turn->stream);
    run_prompt_clear(&turn->prompt);
    run_request_free(turn->request);
    run_record_release(turn->record);
    free(turn->tokens);
    free(turn);
}

void run_turn_release(run_turn *turn)
{
    if (turn && atomic_fetch_sub(&turn->references, 1) == 1)
        turn_free(turn);
}

void run_cancel(run_turn *turn)
{
    atomic_store(&turn->cancelled, true);
}

void run_demote(run_turn *turn)
{
    atomic_store(&turn->demoted, true);
}

/* Where the timeline must end: the context, or the prompt and max_tokens. */
static uint64_t length_limit(const run_turn *turn)
{
    uint64_t context = turn->request->model->info.context_limit;
    uint64_t wished = turn->request->max_tokens;
    if (!wished || wished > context - turn->n_prompt)
        return context;
    return turn->n_prompt + wished;
}

pawl_status run_turn_new(run_request *request, run_prompt *prompt, run_listener listener,
                         const base_clock *clock, struct store *keep, run_turn **out,
                         pawl_error *error)
{
    run_turn *turn = calloc(1, sizeof *turn);
    if (!turn) {
        run_request_free(request);
        run_prompt_clear(prompt);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a turn");
    }
    atomic_init(&turn->references, 1);
    turn->request = request;
    turn->standing.priority = request->priority;
    turn->listener = listener;
    turn->clock = clock;
    turn->arrived = clock->monotonic_ns(clock->context);
    turn->store = request->store ? keep : NULL;
    turn->prompt = *prompt;
    *prompt = (run_prompt){0};
    turn->n_tokens = turn->n_prompt = turn->prompt.n_tokens;
    turn->limit = length_limit(turn);
    turn->sampling = request->sampling;
    turn->sampling.penalty_begin = turn->n_prompt;
    turn->tokens = realloc(turn->prompt.tokens, (size_t)(turn->limit + 1) * sizeof *turn->tokens);
    pawl_status status;
    if (!turn->tokens) {
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for a turn of %llu tokens",
                           (unsigned long long)turn->limit);
    } else {
        turn->prompt.tokens = NULL;
        status = run_stream_open(request, turn->prompt.chat_request, clock, listener, &turn->stream,
                                 error);
    }
    if (status) {
        turn_free(turn);
        return status;
    }
    *out = turn;
    return PAWL_OK;
}

void run_turn_created(run_turn *turn)
{
    send(turn, run_event_new(RUN_CREATED));
}

/* Whether the turn counts in the measures. */
static bool is_measured(const run_turn *turn)
{
    return !turn->request->probe;
}

static void observe(const run_turn *turn, enum run_measure which, int64_t ns)
{
    metric_observe(turn->request->model->measures[which], (double)ns / 1e9);
}

static void count(const run_turn *turn, enum run_measure which, uint64_t more)
{
    metric_add(turn->request->model->measures[which], (double)more);
}

static int64_t now(const run_turn *turn)
{
    return turn->clock->monotonic_ns(turn->clock->context);
}

void run_turn_in_progress(run_turn *turn)
{
    turn->admitted = now(turn);
    if (is_measured(turn))
        observe(turn, MEASURE_QUEUE_TIME, turn->admitted - turn->arrived);
    turn->in_progress = true;
    send(turn, run_event_new(RUN_IN_PROGRESS));
}

void run_turn_computed(run_turn *turn, uint64_t cached)
{
    if (turn->computed)
        return;
    turn->computed = true;
    turn->usage.cached_tokens = cached;
    if (!is_measured(turn))
        return;
    count(turn, MEASURE_PROMPT_TOKENS, turn->n_prompt);
    count(turn, MEASURE_CACHED_TOKENS, cached);
    count(turn, MEASURE_PREFIX_QUERIES, turn->n_prompt);
    count(turn, MEASURE_PREFIX_HITS, cached);
}

static bool ends_reply(const run_turn *turn, int32_t token, uint64_t n_generated)
{
    if (turn->request->ignore_eos || n_generated <= turn->request->min_tokens)
        return false;
    for (size_t i = 0; i < turn->prompt.n_stop_tokens; i++)
        if (turn->prompt.stop_tokens[i] == token)
            return true;
    return false;
}

static void measure_token(run_turn *turn)
{
    int64_t before = turn->latest;
    turn->latest = now(turn);
    if (!turn->first)
        turn->first = turn->latest;
    if (!is_measured(turn))
        return;
    count(turn, MEASURE_GENERATED_TOKENS, 1);
    if (before)
        observe(turn, MEASURE_BETWEEN_TOKENS, turn->latest - before);
    else
        observe(turn, MEASURE_FIRST_TOKEN, turn->latest - turn->arrived);
}

bool run_turn_token(run_turn *turn, int32_t token, float logprob, const struct pawl_top *top,
                    uint32_t n_top, enum run_turn_outcome *outcome)
{
    measure_token(turn);
    turn->tokens[turn->n_tokens++] = token;
    uint64_t n_generated = turn->n_tokens - turn->n_prompt;
    *outcome = TURN_STOPPED;
    if (ends_reply(turn, token, n_generated) ||
        !run_stream_token(turn->stream, token, logprob, top, n_top))
        return false;
    if (turn->n_tokens < turn->limit)
        return true;
    *outcome = TURN_LENGTH;
    return false;
}

/* {"usage":{…},"error":null|{…},"incomplete_details":null|{…}} */
static char *result_json(const run_turn *turn, enum run_turn_outcome outcome, const char *why)
{
    const run_usage *u = &turn->usage;
    cJSON *result = cJSON_CreateObject(), *usage = cJSON_AddObjectToObject(result, "usage");
    cJSON_AddNumberToObject(usage, "input_tokens", (double)u->input_tokens);
    cJSON *input = cJSON_AddObjectToObject(usage, "input_tokens_details");
    cJSON_AddNumberToObject(input, "cached_tokens", (double)u->cached_tokens);
    cJSON_AddNumberToObject(input, "cache_write_tokens", 0);
    cJSON_AddNumberToObject(usage, "output_tokens", (double)u->output_tokens);
    cJSON *output = cJSON_AddObjectToObject(usage, "output_tokens_details");
    cJSON_AddNumberToObject(output, "reasoning_tokens", (double)u->reasoning_tokens);
    cJSON_AddNumberToObject(usage, "total_tokens", (double)(u->input_tokens + u->output_tokens));
    if (outcome == TURN_FAILED) {
        cJSON *error = cJSON_AddObjectToObject(result, "error");
        cJSON_AddStringToObject(error, "code", "server_error");
        cJSON_AddStringToObject(error, "message", why ? why : "the engine failed");
    } else {
        cJSON_AddNullToObject(result, "error");
    }
    if (outcome == TURN_LENGTH)
        cJSON_AddStringToObject(cJSON_AddObjectToObject(result, "incomplete_details"), "reason",
                                turn->stopped ? "stopped" : "max_output_tokens");
    else
        cJSON_AddNullToObject(result, "incomplete_details");
    char *text = json_print(result);
    cJSON_Delete(result);
    return text;
}

/* Everything that is kept of the turn; the timeline moves into it. NULL: no memory. */
static run_record *make_record(run_turn *turn, enum run_turn_outcome outcome, const char *why)
{
    static const char *const status[] = {"completed", "incomplete", "cancelled", "failed"};
    const run_request *request = turn->request;
    run_record *record = run_record_new();
    if (!record)
        return NULL;
    record->id = strdup(request->id);
    record->parent_id = request->parent ? strdup(request->parent->id) : NULL;
    record->parent = request->parent ? run_record_retain(request->parent) : NULL;
    record->model = strdup(request->model->name);
    record->tenant = strdup(request->caller.tenant);
    record->status = status[outcome];
    record->created_ms = request->created_ms;
    record->completed_ms = turn->clock->wall_ms(turn->clock->context);
    record->request = request->echo ? json_print(request->echo) : strdup("{}");
    record->input = request->items ? json_print(request->items) : strdup("[]");
    record->output = json_print(run_stream_items(turn->stream));
    record->result = result_json(turn, outcome, why);
    record->tokens = turn->tokens;
    record->n_tokens = turn->n_tokens;
    record->n_prompt = turn->n_prompt;
    turn->tokens = NULL;
    if (record->id && record->model && record->tenant && record->request && record->input &&
        record->output && record->result && (!request->parent || record->parent_id))
        return record;
    run_record_release(record);
    return NULL;
}

static run_times times_of(const run_turn *turn)
{
    run_times times = {0};
    if (turn->admitted)
        times.queue = turn->admitted - turn->arrived;
    if (turn->first) {
        times.prefill = turn->first - turn->admitted;
        times.decode = turn->latest - turn->first;
    }
    return times;
}

/* Everything that is known of a turn when it ends. */
static void measure_end(const run_turn *turn, enum run_turn_outcome outcome)
{
    const run_usage *usage = &turn->usage;
    run_times times = times_of(turn);
    bool calls = outcome == TURN_STOPPED && run_stream_calls(turn->stream);
    if (!is_measured(turn))
        return;
    count(turn, calls ? MEASURE_ENDED_CALLS : MEASURE_ENDED_STOP + outcome, 1);
    metric *const *all = turn->request->model->measures;
    metric_observe(all[MEASURE_PROMPT_SIZE], (double)usage->input_tokens);
    metric_observe(all[MEASURE_REPLY_SIZE], (double)usage->output_tokens);
    observe(turn, MEASURE_TOTAL_TIME, now(turn) - turn->arrived);
    if (!turn->first)
        return;
    observe(turn, MEASURE_PREFILL_TIME, times.prefill);
    observe(turn, MEASURE_DECODE_TIME, times.decode);
    observe(turn, MEASURE_INFERENCE_TIME, times.prefill + times.decode);
    if (usage->output_tokens > 1)
        observe(turn, MEASURE_PER_TOKEN, times.decode / (int64_t)(usage->output_tokens - 1));
}

/* The last thing a turn does. Whoever hears of it may go on with the conversation. */
static void send_end(run_turn *turn)
{
    if (turn->request->conversation)
        run_conversation_let_go(turn->request->conversation);
    run_event *event = run_event_new(RUN_END);
    if (event) {
        event->record = turn->record;
        turn->record = NULL;
        event->stop_reason = turn->stop_reason;
        event->usage = turn->usage;
        event->times = times_of(turn);
        send(turn, event);
    } else {
        log_write(PAWL_LOG_ERROR, "run", "%s: no memory for its last event", turn->request->id);
    }
    run_turn_release(turn);
}

static void fail_record(run_turn *turn, const char *why)
{
    free(turn->record->result);
    turn->record->result = result_json(turn, TURN_FAILED, why);
    turn->record->status = "failed";
    turn->stop_reason = "error";
}

/* Store thread: the turn is on disk, or it cannot be. */
static void on_stored(void *arg, pawl_status status, const pawl_error *error)
{
    run_turn *turn = arg;
    turn->record->stored = status == PAWL_OK;
    if (status) {
        log_write(PAWL_LOG_ERROR, "run", "%s could not be stored: %s", turn->request->id,
                  error ? error->message : "unknown");
        fail_record(turn, "the response could not be stored");
    }
    send_end(turn);
}

static const char *reason_of(const run_turn *turn, enum run_turn_outcome outcome)
{
    static const char *const reasons[] = {"stop", "length", "cancelled", "error"};
    return outcome == TURN_STOPPED && run_stream_calls(turn->stream) ? "tool_calls"
                                                                     : reasons[outcome];
}

/* A turn that can be followed is the conversation's latest one. */
static void add_conversation(const run_turn *turn, enum run_turn_outcome outcome,
                             store_response *row)
{
    const run_conversation *c = turn->request->conversation;
    if (!c)
        return;
    row->conversation_id = c->id;
    if (outcome == TURN_STOPPED || outcome == TURN_LENGTH)
        row->conversation_revision = c->revision;
}

void run_turn_end(run_turn *turn, enum run_turn_outcome outcome, const char *why)
{
    pawl_error error = {.struct_size = sizeof error};
    if (outcome == TURN_CANCELLED && turn->request->keep_stopped &&
        turn->n_tokens > turn->n_prompt) {
        outcome = TURN_LENGTH;
        turn->stopped = true;
    }
    run_stream_finish(turn->stream, outcome == TURN_STOPPED);
    if (outcome != TURN_FAILED && run_stream_failed(turn->stream)) {
        outcome = TURN_FAILED;
        why = "no memory for the reply";
    }
    turn->usage.input_tokens = turn->n_prompt;
    turn->usage.output_tokens = turn->n_tokens - turn->n_prompt;
    turn->usage.reasoning_tokens = run_stream_reasoning(turn->stream);
    turn->stop_reason = reason_of(turn, outcome);
    measure_end(turn, outcome);
    turn->record = make_record(turn, outcome, why);
    if (!turn->record || !turn->store) {
        send_end(turn);
        return;
    }
    store_response row = run_record_view(turn->record);
    add_conversation(turn, outcome, &row);
    if (turn->request->key && outcome != TURN_CANCELLED) { /* which was not answered */
        row.key = turn->request->key;
        row.key_hash = turn->request->key_hash;
    }
    if (turn->store->put(turn->store, &row, on_stored, turn, &error) != PAWL_OK) {
        log_write(PAWL_LOG_ERROR, "run", "%s could not be stored: %s", turn->request->id,
                  error.message);
        fail_record(turn, "the response could not be stored");
        send_end(turn);
    }
}
