/*
 * run/plan.c - which turns are in the next pass. See plan.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/plan.h"

/* The i-th active turn is in the pass with its next n tokens. */
static void add_slot(run_step *step, size_t n_slots, size_t i, uint64_t n)
{
    run_active *a = &step->active[i];
    const run_request *request = a->turn->request;
    bool last = n == run_missing(a);
    a->in = true;
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
    };
}

static uint64_t save_interval(const run_turn *turn)
{
    uint64_t chunk = turn->request->model->info.state_chunk;
    return chunk > 1 ? (RUN_SAVE_TOKENS + chunk - 1) / chunk * chunk : RUN_SAVE_TOKENS;
}

bool run_is_save_point(const run_turn *turn, uint64_t n)
{
    if (n && n % save_interval(turn) == 0)
        return true;
    for (size_t i = 0; i < turn->prompt.n_cuts; i++)
        if (turn->prompt.cuts[i] == n)
            return true;
    return false;
}

/* The first save point after n tokens. */
static uint64_t next_save_point(const run_turn *turn, uint64_t n)
{
    uint64_t interval = save_interval(turn), next = (n / interval + 1) * interval;
    for (size_t i = 0; i < turn->prompt.n_cuts; i++)
        if (turn->prompt.cuts[i] > n && turn->prompt.cuts[i] < next)
            next = turn->prompt.cuts[i];
    return next;
}

/* Whether the prompt of a is computed before that of b; both are active, a by its rank
 * before b. */
static bool is_due_before(const run_turn *a, const run_turn *b)
{
    enum run_priority class = a->standing.priority;
    return class != b->standing.priority ||
           a->standing.account->served[class] <= b->standing.account->served[class];
}

/* The active turn whose prompt goes on first of those that are not in. NULL: none is left. */
static run_active *next_prompt(const run_step *step)
{
    run_active *best = NULL;
    for (size_t i = 0; i < step->n_active; i++) {
        run_active *a = &step->active[i];
        if (a->in || a->load || run_missing(a) == 0)
            continue;
        if (!best || !is_due_before(best->turn, a->turn))
            best = a;
    }
    return best;
}

/* Tokens of prompts that the pass may take beside the slots of those that decode.
 * streaming: one of these is interactive. */
static uint64_t budget_of(const run_step *step, size_t n_slots, bool streaming)
{
    uint64_t most = streaming ? run_chunk_limit(&step->chunk) : RUN_STEP_TOKENS;
    uint64_t left = n_slots < RUN_STEP_TOKENS ? RUN_STEP_TOKENS - n_slots : 0;
    left = left > RUN_LEAST_CHUNK ? left : RUN_LEAST_CHUNK;
    return left < most ? left : most;
}

size_t run_plan(run_step *step)
{
    size_t n_slots = 0;
    bool streaming = false;
    run_active *a;
    for (size_t i = 0; i < step->n_active; i++) {
        step->active[i].in = false;
        if (step->active[i].load || !run_is_decoding(&step->active[i]))
            continue;
        add_slot(step, n_slots++, i, 1);
        streaming = streaming || step->active[i].turn->standing.priority == RUN_INTERACTIVE;
    }
    uint64_t budget = budget_of(step, n_slots, streaming);
    while (budget && (a = next_prompt(step))) {
        uint64_t begin = a->entry->n_tokens, n = run_missing(a);
        uint64_t cut = next_save_point(a->turn, begin) - begin;
        n = n < cut ? n : cut;
        n = n < budget ? n : budget;
        add_slot(step, n_slots++, (size_t)(a - step->active), n);
        budget -= n;
    }
    return n_slots;
}
