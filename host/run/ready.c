/*
 * run/ready.c - whether the models answer. See ready.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/ready.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_NS (5 * (int64_t)1000000000)

/* Moves on, but never away from RUN_LOST. */
static void move_to(const run_model *model, enum run_readiness state)
{
    int seen = atomic_load(&model->health->state);
    while (seen != RUN_LOST &&
           !atomic_compare_exchange_weak(&model->health->state, &seen, (int)state))
        continue;
    if (seen == RUN_LOST || seen == (int)state)
        return;
    metric_set(model->measures[MEASURE_READY], state == RUN_READY);
    if (state == RUN_READY)
        log_write(PAWL_LOG_INFO, "ready", "%s is ready", model->name);
    else if (state == RUN_LOST)
        log_write(PAWL_LOG_ERROR, "ready", "%s has lost its device; start the server again",
                  model->name);
}

void run_lost(const run_model *model)
{
    if (model->health)
        move_to(model, RUN_LOST);
}

static void failed(const run_model *model, const char *why)
{
    log_write(PAWL_LOG_ERROR, "ready", "%s does not answer: %s", model->name, why);
    move_to(model, RUN_FAILED);
}

/* The listener of a request of ours. [worker, engine] */
static void on_event(void *arg, run_event *event)
{
    const run_model *model = arg;
    if (event->type == RUN_END) {
        const char *status = event->record ? event->record->status : "without a record";
        bool good = strcmp(status, "completed") == 0 || strcmp(status, "incomplete") == 0;
        if (good && event->usage.output_tokens > 0)
            move_to(model, RUN_READY);
        else
            failed(model, good ? "no token came" : status);
        atomic_store(&model->health->trying, false);
    }
    run_event_free(event);
}

static run_request *make_request(const base_clock *clock, run_model *model)
{
    run_request *request = run_request_new(clock);
    if (!request)
        return NULL;
    request->model = model;
    request->store = false;
    request->probe = true;
    request->max_tokens = 1;
    request->sampling.temperature = 0;
    if (!model->chat) /* it serves plain completions only */
        request->raw_text = strdup("Hi");
    request->items = cJSON_Parse("[{\"type\":\"message\",\"id\":\"msg_ready\",\"role\":\"user\","
                                 "\"content\":[{\"type\":\"input_text\",\"text\":\"Hi\"}]}]");
    if (request->items && (model->chat || request->raw_text))
        return request;
    run_request_free(request);
    return NULL;
}

/* Whether it is time to send one. */
static bool is_due(const run_model *model, int64_t now)
{
    int state = atomic_load(&model->health->state);
    return state != RUN_READY && state != RUN_LOST && now >= atomic_load(&model->health->next) &&
           !atomic_load(&model->health->trying);
}

/* [worker] */
static void try(run_runtime *runtime, run_model *model)
{
    const base_clock *clock = run_clock(runtime);
    int64_t now = clock->monotonic_ns(clock->context);
    atomic_store(&model->health->asked, false);
    if (!is_due(model, now) || atomic_exchange(&model->health->trying, true))
        return;
    atomic_store(&model->health->next, now + RETRY_NS);
    run_turn *turn = NULL;
    run_refusal refusal = {.message = "no memory for a request"};
    run_request *request = make_request(clock, model);
    if (request && run_start(runtime, request, (run_listener){on_event, model}, &turn, &refusal)) {
        run_turn_release(turn);
        return;
    }
    failed(model, refusal.message);
    atomic_store(&model->health->trying, false);
}

/* [worker] */
static void try_all(void *arg)
{
    run_runtime *runtime = arg;
    for (size_t i = 0; i < run_model_count(runtime); i++)
        try(runtime, run_model_at(runtime, i));
}

/* Has the worker try a model once, however often this is called meanwhile. */
static void ask(run_runtime *runtime, const run_model *model)
{
    const base_clock *clock = run_clock(runtime);
    if (is_due(model, clock->monotonic_ns(clock->context)) &&
        !atomic_exchange(&model->health->asked, true) && !run_defer(runtime, try_all, runtime))
        atomic_store(&model->health->asked, false);
}

void run_warm_up(run_runtime *runtime)
{
    run_defer(runtime, try_all, runtime);
}

bool run_is_ready(run_runtime *runtime, char *why, size_t size)
{
    static const char *const reasons[] = {[RUN_STARTING] =
                                              "is starting: its first token has not come yet",
                                          [RUN_READY] = "is ready",
                                          [RUN_FAILED] = "does not answer; the log says why",
                                          [RUN_LOST] = "has lost its device"};
    bool ready = run_model_count(runtime) > 0;
    snprintf(why, size, "No model is loaded.");
    for (size_t i = 0; i < run_model_count(runtime); i++) {
        const run_model *model = run_model_at(runtime, i);
        int state = atomic_load(&model->health->state);
        if (state == RUN_READY)
            continue;
        snprintf(why, size, "The model '%.100s' %s.", model->name, reasons[state]);
        ready = false;
        ask(runtime, model);
    }
    return ready;
}
