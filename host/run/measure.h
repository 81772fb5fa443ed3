/*
 * run/measure.h - what is measured of a model's turns and steps.
 *
 * Names follow vLLM's, so that dashboards made for it need another prefix only. A
 * model's series are looked up once, when it is opened; a model that nobody measures
 * has none, and measuring it costs nothing. [any]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_MEASURE_H
#define RUN_MEASURE_H

#include "base/metrics.h"

enum run_measure {
    /* gauges */
    MEASURE_RUNNING,
    MEASURE_WAITING,
    MEASURE_WAITING_INTERACTIVE, /* in the order of run_priority */
    MEASURE_WAITING_BATCH,
    MEASURE_LIVE_BUSY,
    MEASURE_LIVE_IDLE,
    MEASURE_KV_PAGES,
    MEASURE_KV_FREE,
    MEASURE_KV_USAGE,
    MEASURE_READY,
    /* counters */
    MEASURE_PROMPT_TOKENS,
    MEASURE_CACHED_TOKENS,
    MEASURE_GENERATED_TOKENS,
    MEASURE_PREFIX_QUERIES,
    MEASURE_PREFIX_HITS,
    MEASURE_STORED_QUERIES,
    MEASURE_STORED_HITS,
    MEASURE_RESTORES,
    MEASURE_SAVES,
    MEASURE_ENDED_STOP, /* in the order of run_turn_outcome, then calls */
    MEASURE_ENDED_LENGTH,
    MEASURE_ENDED_CANCELLED,
    MEASURE_ENDED_FAILED,
    MEASURE_ENDED_CALLS,
    MEASURE_REJECTED_INPUT, /* in the order of run_refusal_reason */
    MEASURE_REJECTED_TOO_LONG,
    MEASURE_REJECTED_UNSUPPORTED,
    MEASURE_REJECTED_BUSY,
    MEASURE_REJECTED_NOT_FOUND,
    MEASURE_REJECTED_STOPPING,
    MEASURE_REJECTED_INTERNAL,
    MEASURE_REJECTED_KEY_BUSY,
    MEASURE_PREEMPTIONS,
    MEASURE_SAVE_POINTS,
    MEASURE_EVICTIONS,
    /* histograms */
    MEASURE_QUEUE_TIME,
    MEASURE_PREFILL_TIME,
    MEASURE_DECODE_TIME,
    MEASURE_INFERENCE_TIME,
    MEASURE_TOTAL_TIME,
    MEASURE_FIRST_TOKEN,
    MEASURE_BETWEEN_TOKENS,
    MEASURE_PER_TOKEN,
    MEASURE_PROMPT_SIZE,
    MEASURE_REPLY_SIZE,
    MEASURE_STEP_TIME,
    MEASURE_STEP_TOKENS,
    MEASURE_STEP_SLOTS,
    MEASURE_COUNT
};

/* Finds the series of a model of this name. all NULL: none. */
void run_measures_open(metrics *all, const char *model, metric *measures[MEASURE_COUNT]);

#endif /* RUN_MEASURE_H */
