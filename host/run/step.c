/*
 * run/step.c - one forward pass: who is in it, and what comes of it. See step.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/step.h"

#include "base/log.h"
#include "run/ready.h"

#include <stdlib.h>
#include <string.h>

pawl_status run_step_open(run_step *step, const run_model *model, live_set *sequences,
                          run_pace *pace, pawl_error *error)
{
    size_t n = model->max_sequences;
    *step = (run_step){.model = model, .sequences = sequences, .pace = pace};
    step->active = calloc(n, sizeof *step->active);
    step->slots = calloc(n, sizeof *step->slots);
    step->out_tokens = calloc(n, sizeof *step->out_tokens);
    step->out_logprobs = calloc(n, sizeof *step->out_logprobs);
    step->top = calloc(n * RUN_MAX_TOP_LOGPROBS, sizeof *step->top);
    step->logprobs = calloc(n + RUN_STEP_TOKENS, sizeof *step->logprobs);
    if (step->logprobs && step->active && step->slots && step->out_tokens && step->out_logprobs &&
        step->top)
        return PAWL_OK;
    run_step_close(step);
    return pawl_fail(error, PAWL_E_MEMORY, "no memory for the slots of a step");
}

void run_step_close(run_step *step)
{
    free(step->active);
    free(step->slots);
    free(step->out_tokens);
    free(step->out_logprobs);
    free(step->top);
    free(step->logprobs);
    *step = (run_step){0};
}

void run_step_add(run_step *step, run_turn *turn, live *entry)
{
    int64_t now = turn->clock->monotonic_ns(turn->clock->context);
    step->active[step->n_active++] = (run_active){turn, entry, now};
}

void run_step_wake(run_step *step, run_turn *turn)
{
    run_turn **last = &step->woken;
    while (*last)
        last = &(*last)->next;
    *last = turn->next;
    turn->next = NULL;
}

void run_step_end(run_step *step, size_t i, enum run_turn_outcome outcome, const char *why)
{
    run_active ended = step->active[i];
    step->active[i] = step->active[--step->n_active];
    run_step_wake(step, ended.turn);
    if (outcome == TURN_FAILED || ended.turn->request->probe || ended.turn->request->forget)
        live_drop(step->sequences, ended.entry);
    else
        live_keep(step->sequences, ended.entry);
    const base_clock *clock = ended.turn->clock;
    int64_t ns = clock->monotonic_ns(clock->context) - ended.started_ns;
    if (!ended.turn->request->probe) /* one token says nothing of how long turns take */
        run_pace_note(step->pace, ns > 0 ? (uint64_t)ns / 1000000 : 0);
    run_turn_end(ended.turn, outcome, why);
}

/* Tokens of the timeline that have no state yet. */
static uint64_t missing(const run_active *a)
{
    return a->turn->n_tokens - a->entry->n_tokens;
}

static bool is_decoding(const run_active *a)
{
    return missing(a) == 1 && a->turn->n_tokens > a->turn->n_prompt;
}

/* Where the tokens begin that are to be scored. */
static uint64_t scored_from(const run_turn *turn)
{
    return turn->n_prompt - turn->prompt.n_scored;
}

/* Room for the log-probabilities of the next n tokens, where one of them is scored. */
static float *room_for_scores(run_step *step, const run_active *a, uint64_t n)
{
    if (!a->turn->prompt.n_scored || a->entry->n_tokens + n <= scored_from(a->turn))
        return NULL;
    float *room = step->logprobs + step->n_logprobs;
    step->n_logprobs += (size_t)n;
    return room;
}

static void add_scores(run_turn *turn, const pawl_slot *slot, uint64_t begin)
{
    for (uint64_t i = 0; slot->input_logprobs && i < slot->n_tokens; i++)
        if (begin + i >= scored_from(turn))
            turn->score += (double)slot->input_logprobs[i];
}

/* The i-th active turn is in the pass with its next n tokens. */
static void add_slot(run_step *step, size_t n_slots, size_t i, uint64_t n)
{
    run_active *a = &step->active[i];
    const run_request *request = a->turn->request;
    bool last = n == missing(a);
    step->slots[n_slots] = (pawl_slot){
        .sequence = a->entry->sequence,
        .tokens = a->turn->tokens + a->entry->n_tokens,
        .n_tokens = n,
        .flags = last && request->generate ? PAWL_SLOT_SAMPLE : 0,
        .sampling = &a->turn->sampling,
        .out_tokens = step->out_tokens + n_slots,
        .out_logprobs = step->out_logprobs + n_slots,
        .n_top = request->logprobs ? request->top_logprobs : 0,
        .top = step->top + n_slots * RUN_MAX_TOP_LOGPROBS,
        .input_logprobs = room_for_scores(step, a, n),
    };
}

static size_t build_slots(run_step *step)
{
    size_t n_slots = 0;
    uint64_t budget = RUN_STEP_TOKENS;
    step->n_logprobs = 0;
    for (size_t i = 0; i < step->n_active; i++) {
        if (is_decoding(&step->active[i])) {
            add_slot(step, n_slots++, i, 1);
            budget -= budget > 0;
        }
    }
    for (size_t i = 0; i < step->n_active && budget; i++) {
        uint64_t n = missing(&step->active[i]);
        if (is_decoding(&step->active[i]) || n == 0)
            continue;
        n = n < budget ? n : budget;
        const run_active *a = &step->active[i];
        if (a->turn->prompt.n_scored && n > 1 && a->entry->n_tokens + n == scored_from(a->turn))
            n--; /* the first scored token needs the one before it in its pass */
        add_slot(step, n_slots++, i, n);
        budget -= n;
    }
    return n_slots;
}

static const char *why_failed(pawl_status status)
{
    switch (status) {
    case PAWL_E_MEMORY:
        return "the engine has no memory left for this sequence";
    case PAWL_E_DEVICE:
        return "the engine has lost its device";
    default:
        return "the engine failed";
    }
}

/* A turn whose slot the engine could not do. No memory is tried again, once idle
 * sequences are closed. */
static void slot_failed(run_step *step, size_t i, pawl_status status)
{
    run_turn *turn = step->active[i].turn;
    if (status == PAWL_E_CANCELLED)
        return; /* the pass was stopped; cancel_marked() ends whom it was meant for */
    if (status == PAWL_E_MEMORY && !turn->retried && live_drop_oldest(step->sequences)) {
        turn->retried = true;
        return;
    }
    log_write(PAWL_LOG_ERROR, "run", "%s: engine status %d", turn->request->id, (int)status);
    run_step_end(step, i, TURN_FAILED, why_failed(status));
}

/* What one slot brought. Ends its turn where that is due. */
static void take_result(run_step *step, const pawl_slot *slot, size_t i)
{
    run_active *a = &step->active[i];
    run_turn *turn = a->turn;
    enum run_turn_outcome outcome = TURN_STOPPED;
    if (slot->status != PAWL_OK) {
        slot_failed(step, i, slot->status);
        return;
    }
    add_scores(turn, slot, a->entry->n_tokens);
    if (!live_append(a->entry, slot->tokens, slot->n_tokens)) {
        run_step_end(step, i, TURN_FAILED, why_failed(PAWL_E_MEMORY));
        return;
    }
    turn->retried = false;
    if (!turn->request->generate) {
        if (missing(a) == 0)
            run_step_end(step, i, TURN_STOPPED, NULL);
        return;
    }
    if (slot->n_out)
        run_step_wake(step, turn);
    for (uint32_t k = 0; k < slot->n_out; k++) {
        if (run_turn_token(turn, slot->out_tokens[k], slot->out_logprobs[k], slot->top, slot->n_top,
                           &outcome))
            continue;
        run_step_end(step, i, outcome, NULL);
        return;
    }
}

/* What a pass was, and whether its engine can go on. */
static void measure_step(const run_step *step, size_t n_slots, int64_t ns, pawl_status status)
{
    metric *const *all = step->model->measures;
    uint64_t n_tokens = 0;
    bool lost = status == PAWL_E_DEVICE;
    for (size_t k = 0; k < n_slots; k++) {
        n_tokens += step->slots[k].n_tokens;
        lost = lost || (!status && step->slots[k].status == PAWL_E_DEVICE);
    }
    metric_observe(all[MEASURE_STEP_TIME], (double)ns / 1e9);
    metric_observe(all[MEASURE_STEP_TOKENS], (double)n_tokens);
    metric_observe(all[MEASURE_STEP_SLOTS], (double)n_slots);
    if (lost)
        run_lost(step->model);
}

void run_step_run(run_step *step)
{
    const base_clock *clock = step->active[0].turn->clock;
    int64_t begin = clock->monotonic_ns(clock->context);
    pawl_error error = {.struct_size = sizeof error};
    const pawl_engine_api *api = step->model->engine_api;
    size_t n_slots = build_slots(step);
    uint64_t ticket = 0;
    pawl_status status = api->submit(step->model->engine, step->slots, sizeof *step->slots, n_slots,
                                     &ticket, &error);
    if (!status)
        status = api->wait(step->model->engine, ticket, &error);
    if (status && status != PAWL_E_CANCELLED)
        log_write(PAWL_LOG_ERROR, "run", "%s: a step failed: %s", step->model->name, error.message);
    measure_step(step, n_slots, clock->monotonic_ns(clock->context) - begin, status);
    /* Turns are found by their sequence: ending one moves another into its place. */
    for (size_t k = 0; k < n_slots; k++) {
        if (status)
            step->slots[k].status = status;
        size_t i = 0;
        while (i < step->n_active && step->active[i].entry->sequence != step->slots[k].sequence)
            i++;
        if (i < step->n_active)
            take_result(step, &step->slots[k], i);
    }
}
