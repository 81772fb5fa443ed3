/*
 * run/step.c - one forward pass: who is in it, and what comes of it. See step.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/step.h"

#include "base/log.h"
#include "run/plan.h"
#include "run/ready.h"
#include "run/restore.h"

#include <stdlib.h>
#include <string.h>

pawl_status run_step_open(run_step *step, const run_model *model, live_set *sequences,
                          run_waiting *waiting, run_pace *pace, pawl_error *error)
{
    size_t n = model->max_sequences;
    *step = (run_step){.model = model, .sequences = sequences, .waiting = waiting, .pace = pace};
    run_chunk_init(&step->chunk);
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

static int64_t now(const run_step *step)
{
    return step->clock->monotonic_ns(step->clock->context);
}

/* Puts an active turn where its rank is. There is room. */
static void insert(run_step *step, run_active a)
{
    size_t i = step->n_active++;
    for (; i > 0 && run_outranks(a.turn, step->active[i - 1].turn); i--)
        step->active[i] = step->active[i - 1];
    step->active[i] = a;
}

void run_step_add(run_step *step, run_turn *turn, live *entry, prefix_load *load)
{
    insert(step, (run_active){.turn = turn, .entry = entry, .load = load});
}

static run_active remove_at(run_step *step, size_t i)
{
    run_active out = step->active[i];
    step->n_active--;
    memmove(&step->active[i], &step->active[i + 1], (step->n_active - i) * sizeof out);
    return out;
}

run_active run_step_take_out(run_step *step, size_t i)
{
    run_active out = remove_at(step, i);
    prefix_load_end(out.load);
    out.load = NULL;
    return out;
}

void run_step_move(run_step *step, size_t i, enum run_priority class)
{
    run_active a = remove_at(step, i);
    run_fair_leave(&step->waiting->fair, a.turn);
    a.turn->standing.priority = class;
    run_fair_enter(&step->waiting->fair, a.turn);
    insert(step, a);
}

void run_step_return(run_step *step, size_t i)
{
    run_active a = run_step_take_out(step, i);
    live_drop(step->sequences, a.entry);
    a.turn->standing.returned = true;
    run_waiting_add(step->waiting, a.turn);
}

void run_step_preempt(run_step *step, size_t i, bool keep)
{
    run_active a = run_step_take_out(step, i);
    if (keep && !a.turn->request->probe)
        live_keep(step->sequences, a.entry);
    else
        live_evict(step->sequences, a.entry);
    metric_add(step->model->measures[MEASURE_PREEMPTIONS], 1);
    a.turn->standing.preempted++;
    a.turn->standing.returned = true;
    run_waiting_add(step->waiting, a.turn);
}

void run_step_wake(run_step *step, run_turn *turn)
{
    run_turn *next = turn->next;
    turn->next = NULL;
    if (next)
        run_waiting_add(step->waiting, next);
}

void run_step_end(run_step *step, size_t i, enum run_turn_outcome outcome, const char *why)
{
    run_active ended = run_step_take_out(step, i);
    run_step_wake(step, ended.turn);
    run_fair_leave(&step->waiting->fair, ended.turn);
    if (outcome == TURN_FAILED || ended.turn->request->probe || ended.turn->request->forget)
        live_drop(step->sequences, ended.entry);
    else
        live_keep(step->sequences, ended.entry);
    int64_t ns = now(step) - ended.turn->admitted;
    if (!ended.turn->request->probe) /* one token says nothing of how long turns take */
        run_pace_note(step->pace, ns > 0 ? (uint64_t)ns / 1000000 : 0);
    run_turn_end(ended.turn, outcome, why);
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

/* A turn whose slot the engine could not do. No memory, although it was reserved, is tried
 * again once, with more room. */
static void slot_failed(run_step *step, size_t i, pawl_status status)
{
    run_turn *turn = step->active[i].turn;
    if (status == PAWL_E_CANCELLED)
        return; /* the pass was stopped; whom it was meant for is ended in the next round */
    if (status == PAWL_E_MEMORY && !turn->retried) {
        turn->retried = true;
        if (!live_evict_oldest(step->sequences, NULL) && step->n_active > 1)
            run_step_preempt(step, i, false);
        return; /* alone, too: others of this pass may just have given way */
    }
    log_write(PAWL_LOG_ERROR, "run", "%s: engine status %d", turn->request->id, (int)status);
    run_step_end(step, i, TURN_FAILED, why_failed(status));
}

/* The account pays for what of the prompt has state now, and for what was generated. */
static void charge(const run_active *a, uint32_t n_out)
{
    run_standing *standing = &a->turn->standing;
    uint64_t prompt =
        a->entry->n_tokens < a->turn->n_prompt ? a->entry->n_tokens : a->turn->n_prompt;
    uint64_t more = prompt > standing->paid ? prompt - standing->paid : 0;
    standing->paid += more;
    run_fair_charge(a->turn, more + (uint64_t)n_out * RUN_GENERATED_COST);
}

/* Log-probabilities of what was given from token `begin` on. */
static void add_scores(run_turn *turn, const pawl_slot *slot, uint64_t begin)
{
    for (uint64_t i = 0; slot->input_logprobs && i < slot->n_tokens; i++)
        if (begin + i >= run_scored_from(turn))
            turn->score += (double)slot->input_logprobs[i];
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
    run_turn_computed(turn, a->entry->n_tokens);
    add_scores(turn, slot, a->entry->n_tokens);
    if (!live_append(a->entry, slot->tokens, slot->n_tokens)) {
        run_step_end(step, i, TURN_FAILED, why_failed(PAWL_E_MEMORY));
        return;
    }
    turn->retried = false;
    charge(a, slot->n_out);
    if (run_is_save_point(turn, a->entry->n_tokens))
        run_save_point(step, a);
    if (!turn->request->generate) {
        if (run_missing(a) == 0)
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
static void measure_step(run_step *step, size_t n_slots, int64_t ns, pawl_status status)
{
    metric *const *all = step->model->measures;
    uint64_t n_tokens = 0, n_prompt = 0;
    bool lost = status == PAWL_E_DEVICE;
    for (size_t k = 0; k < n_slots; k++) {
        uint64_t n = step->slots[k].n_tokens;
        n_tokens += n;
        n_prompt += n > 1 ? n : 0;
        lost = lost || (!status && step->slots[k].status == PAWL_E_DEVICE);
    }
    if (status == PAWL_OK)
        run_chunk_note(&step->chunk, n_prompt, ns);
    metric_observe(all[MEASURE_STEP_TIME], (double)ns / 1e9);
    metric_observe(all[MEASURE_STEP_TOKENS], (double)n_tokens);
    metric_observe(all[MEASURE_STEP_SLOTS], (double)n_slots);
    if (lost)
        run_lost(step->model);
    step->pass_ns = ns;
    if (step->sequences->prefix && !status)
        prefix_pace_computed(&step->sequences->prefix->pace, n_tokens, ns);
}

/* A pass served the batch class if one of its turns, or one that was raised from it, was in. */
static void note_batch(run_step *step)
{
    for (size_t i = 0; i < step->n_active; i++) {
        const run_standing *standing = &step->active[i].turn->standing;
        if (step->active[i].in && (standing->priority == RUN_BATCH || standing->raised))
            step->batch_ns = now(step);
    }
}

void run_step_run(run_step *step)
{
    int64_t begin = now(step);
    pawl_error error = {.struct_size = sizeof error};
    const pawl_engine_api *api = step->model->engine_api;
    size_t n_slots = run_plan(step);
    uint64_t ticket = 0;
    if (n_slots == 0) /* all wait for their saved state */
        return;
    pawl_status status = api->submit(step->model->engine, step->slots, sizeof *step->slots, n_slots,
                                     &ticket, &error);
    if (!status)
        status = api->wait(step->model->engine, ticket, &error);
    if (status && status != PAWL_E_CANCELLED)
        log_write(PAWL_LOG_ERROR, "run", "%s: a step failed: %s", step->model->name, error.message);
    measure_step(step, n_slots, now(step) - begin, status);
    note_batch(step);
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
