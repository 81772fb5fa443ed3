/*
 * run/measure.c - what is measured of a model's turns and steps: the table. See measure.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/measure.h"

typedef struct row {
    enum metric_type type;
    const metric_bounds *bounds;
    const char *name;
    const char *label; /* beside "model", or NULL */
    const char *value; /* of it                   */
    const char *help;
} row;

#define GAUGE METRIC_GAUGE, NULL
#define COUNTER METRIC_COUNTER, NULL
#define TIME METRIC_HISTOGRAM, &metric_seconds
#define TOKENS METRIC_HISTOGRAM, &metric_tokens
#define SLOTS METRIC_HISTOGRAM, &metric_slots
#define ENDED(reason)                                                                              \
    {                                                                                              \
        COUNTER, "pawl_request_success_total", "finished_reason", reason, "Turns that ended."      \
    }
#define REJECTED(reason)                                                                           \
    {                                                                                              \
        COUNTER, "pawl_admission_rejections_total", "reason", reason,                              \
            "Requests that did not start."                                                         \
    }

static const row rows[MEASURE_COUNT] = {
    [MEASURE_RUNNING] = {GAUGE, "pawl_num_requests_running", NULL, NULL, "Turns in the steps."},
    [MEASURE_WAITING] = {GAUGE, "pawl_num_requests_waiting", NULL, NULL,
                         "Turns that wait for a sequence."},
    [MEASURE_WAITING_INTERACTIVE] = {GAUGE, "pawl_num_requests_waiting_by_class", "class",
                                     "interactive", "Turns that wait for a sequence."},
    [MEASURE_WAITING_BATCH] = {GAUGE, "pawl_num_requests_waiting_by_class", "class", "batch",
                               "Turns that wait for a sequence."},
    [MEASURE_LIVE_BUSY] = {GAUGE, "pawl_live_sequences", "state", "busy",
                           "Sequences that the engine holds."},
    [MEASURE_LIVE_IDLE] = {GAUGE, "pawl_live_sequences", "state", "idle",
                           "Sequences that the engine holds."},
    [MEASURE_KV_PAGES] = {GAUGE, "pawl_kv_cache_pages", NULL, NULL,
                          "Pages for attention state, in all."},
    [MEASURE_KV_FREE] = {GAUGE, "pawl_kv_cache_pages_free", NULL, NULL, "Pages that nobody holds."},
    [MEASURE_KV_USAGE] = {GAUGE, "pawl_kv_cache_usage_perc", NULL, NULL,
                          "Share of the pages that is held; 1 is all."},
    [MEASURE_READY] = {GAUGE, "pawl_model_ready", NULL, NULL,
                       "1: a token went the whole way and the device is there."},
    [MEASURE_PROMPT_TOKENS] = {COUNTER, "pawl_prompt_tokens_total", NULL, NULL,
                               "Tokens of prompts."},
    [MEASURE_CACHED_TOKENS] = {COUNTER, "pawl_prompt_tokens_cached_total", NULL, NULL,
                               "Tokens of prompts that had state already."},
    [MEASURE_GENERATED_TOKENS] = {COUNTER, "pawl_generation_tokens_total", NULL, NULL,
                                  "Tokens that were generated."},
    [MEASURE_PREFIX_QUERIES] = {COUNTER, "pawl_prefix_cache_queries_total", NULL, NULL,
                                "Tokens that state was looked for."},
    [MEASURE_PREFIX_HITS] = {COUNTER, "pawl_prefix_cache_hits_total", NULL, NULL,
                             "Tokens that state was found for."},
    [MEASURE_STORED_QUERIES] = {COUNTER, "pawl_external_prefix_cache_queries_total", NULL, NULL,
                                "Tokens without live state that saved state was looked for."},
    [MEASURE_STORED_HITS] = {COUNTER, "pawl_external_prefix_cache_hits_total", NULL, NULL,
                             "Tokens that saved state was loaded for."},
    [MEASURE_RESTORES] = {COUNTER, "pawl_prefix_restores_total", NULL, NULL,
                          "Turns that began with saved state."},
    [MEASURE_SAVES] = {COUNTER, "pawl_prefix_saves_total", NULL, NULL,
                       "Parts of state that were copied out of sequences."},
    [MEASURE_ENDED_STOP] = ENDED("stop"),
    [MEASURE_ENDED_LENGTH] = ENDED("length"),
    [MEASURE_ENDED_CANCELLED] = ENDED("cancelled"),
    [MEASURE_ENDED_FAILED] = ENDED("error"),
    [MEASURE_ENDED_CALLS] = ENDED("tool_calls"),
    [MEASURE_REJECTED_INPUT] = REJECTED("input"),
    [MEASURE_REJECTED_TOO_LONG] = REJECTED("too_long"),
    [MEASURE_REJECTED_UNSUPPORTED] = REJECTED("unsupported"),
    [MEASURE_REJECTED_BUSY] = REJECTED("busy"),
    [MEASURE_REJECTED_NOT_FOUND] = REJECTED("not_found"),
    [MEASURE_REJECTED_STOPPING] = REJECTED("stopping"),
    [MEASURE_REJECTED_INTERNAL] = REJECTED("internal"),
    [MEASURE_REJECTED_KEY_BUSY] = REJECTED("key_busy"),
    [MEASURE_PREEMPTIONS] = {COUNTER, "pawl_num_preemptions_total", NULL, NULL,
                             "Turns that were interrupted, to be resumed."},
    [MEASURE_SAVE_POINTS] = {COUNTER, "pawl_save_points_total", NULL, NULL,
                             "Places in prompts and replies at which state can be saved."},
    [MEASURE_EVICTIONS] = {COUNTER, "pawl_live_evictions_total", NULL, NULL,
                           "Sequences that were closed to make room."},
    [MEASURE_QUEUE_TIME] = {TIME, "pawl_request_queue_time_seconds", NULL, NULL,
                            "From its arrival to a turn's first step."},
    [MEASURE_PREFILL_TIME] = {TIME, "pawl_request_prefill_time_seconds", NULL, NULL,
                              "From a turn's first step to its first token."},
    [MEASURE_DECODE_TIME] = {TIME, "pawl_request_decode_time_seconds", NULL, NULL,
                             "From a turn's first token to its last."},
    [MEASURE_INFERENCE_TIME] = {TIME, "pawl_request_inference_time_seconds", NULL, NULL,
                                "From a turn's first step to its last token."},
    [MEASURE_TOTAL_TIME] = {TIME, "pawl_e2e_request_latency_seconds", NULL, NULL,
                            "From its arrival to a turn's end."},
    [MEASURE_FIRST_TOKEN] = {TIME, "pawl_time_to_first_token_seconds", NULL, NULL,
                             "From its arrival to a turn's first token."},
    [MEASURE_BETWEEN_TOKENS] = {TIME, "pawl_inter_token_latency_seconds", NULL, NULL,
                                "Between two tokens of a turn."},
    [MEASURE_PER_TOKEN] = {TIME, "pawl_request_time_per_output_token_seconds", NULL, NULL,
                           "Mean time between the tokens of a turn."},
    [MEASURE_PROMPT_SIZE] = {TOKENS, "pawl_request_prompt_tokens", NULL, NULL,
                             "Tokens of a turn's prompt."},
    [MEASURE_REPLY_SIZE] = {TOKENS, "pawl_request_generation_tokens", NULL, NULL,
                            "Tokens that a turn generated."},
    [MEASURE_STEP_TIME] = {TIME, "pawl_iteration_seconds", NULL, NULL, "Time of a forward pass."},
    [MEASURE_STEP_TOKENS] = {TOKENS, "pawl_iteration_tokens", NULL, NULL,
                             "Tokens that went into a forward pass."},
    [MEASURE_STEP_SLOTS] = {SLOTS, "pawl_iteration_sequences", NULL, NULL,
                            "Sequences in a forward pass."},
};

void run_measures_open(metrics *all, const char *model, metric *measures[MEASURE_COUNT])
{
    for (size_t i = 0; i < MEASURE_COUNT; i++) {
        const row *r = &rows[i];
        metric_spec spec = {.type = r->type,
                            .name = r->name,
                            .help = r->help,
                            .labels = {"model", r->label},
                            .bounds = r->bounds};
        measures[i] = metric_with(metrics_family(all, &spec), model, r->value);
    }
}
