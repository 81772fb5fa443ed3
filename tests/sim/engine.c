/*
 * sim/engine.c - an engine that checks its caller. See engine.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CALLS 20000 /* of one round: more is a loop without end */

static uint32_t pages_of(const pawl_engine *e, uint64_t tokens)
{
    return (uint32_t)((tokens + e->sim->plan.page_tokens - 1) / e->sim->plan.page_tokens);
}

/* Every call about a sequence begins here. */
static sim_state *enter(const pawl_sequence *q, const char *call)
{
    pawl_engine *e = q->engine;
    if (e->ticket)
        sim_broken(e->sim, "%s of sequence %u while a pass is open", call, q->id);
    if (!q->state)
        sim_broken(e->sim, "%s of sequence %u, which is closed", call, q->id);
    if (++e->calls > MAX_CALLS)
        sim_broken(e->sim, "%s: the engine is called without end", call);
    return q->state;
}

/* An answer that the host may have to fail a turn for. */
static pawl_status refuse(pawl_engine *e, pawl_status status, pawl_error *error)
{
    e->refusals++;
    return pawl_fail(error, status, "the simulated engine refuses");
}

static void trim(pawl_engine *e, sim_state *q, uint32_t keep)
{
    while (q->n_pages > keep)
        pages_release(&e->pool, q->pages[--q->n_pages]);
}

static bool grow(pawl_engine *e, sim_state *q, uint32_t wanted)
{
    uint32_t before = q->n_pages;
    while (q->n_pages < wanted) {
        if (!pages_take(&e->pool, &q->pages[q->n_pages])) {
            trim(e, q, before);
            return false;
        }
        q->n_pages++;
    }
    return true;
}

static void cut(pawl_engine *e, sim_state *q, uint64_t n)
{
    q->n = n;
    trim(e, q, pages_of(e, n));
    if (n == 0)
        q->tenant = q->probe = SIM_NOBODY;
}

static pawl_status sequence_open(pawl_engine *e, pawl_sequence **out, pawl_error *error)
{
    const sim_plan *plan = &e->sim->plan;
    if (e->ticket || ++e->calls > MAX_CALLS)
        sim_broken(e->sim, "sequence_open %s", e->ticket ? "while a pass is open" : "without end");
    if (e->n_open > plan->max_sequences * RUN_IDLE_FACTOR)
        sim_broken(e->sim, "%u sequences are open", e->n_open);
    if (e->n_open == plan->open_sequences)
        return refuse(e, PAWL_E_BUSY, error);
    if (rng_chance(&e->random, plan->memory_fault))
        return refuse(e, PAWL_E_MEMORY, error);
    pawl_sequence *q = calloc(1, sizeof *q);
    *q = (pawl_sequence){e, e->n_sequences++, e->states, e->newest};
    while (q->state->used)
        q->state++;
    q->state->used = true;
    q->state->n = q->state->n_pages = 0;
    q->state->tenant = q->state->probe = SIM_NOBODY;
    if (!q->state->hash)
        q->state->hash = malloc((size_t)(plan->context + 1) * sizeof *q->state->hash);
    q->state->hash[0] = 1;
    e->newest = *out = q;
    e->n_open++;
    trace_add(e->sim, ACT_OPEN, q->id, 0, e->n_open);
    return PAWL_OK;
}

static void sequence_close(pawl_sequence *q)
{
    sim_state *state = enter(q, "sequence_close");
    pawl_engine *e = q->engine;
    e->n_open--;
    trace_add(e->sim, ACT_CLOSE, q->id, (int64_t)state->n, e->n_open);
    cut(e, state, 0);
    state->used = false;
    q->state = NULL;
}

static pawl_status reserve(pawl_sequence *q, uint64_t n, pawl_error *error)
{
    sim_state *state = enter(q, "reserve");
    pawl_engine *e = q->engine;
    pawl_status status = PAWL_OK;
    if (n > e->sim->plan.context - state->n)
        sim_broken(e->sim, "reserve of %llu tokens beyond the context", (unsigned long long)n);
    if (rng_chance(&e->random, e->sim->plan.memory_fault) ||
        !grow(e, state, pages_of(e, state->n + n)))
        status = refuse(e, PAWL_E_MEMORY, error);
    trace_add(e->sim, ACT_RESERVE, q->id, (int64_t)n, status);
    return status;
}

static uint64_t length(const pawl_sequence *q)
{
    return enter(q, "length")->n;
}

static void check_reach(const pawl_sequence *q, uint64_t n, const char *call)
{
    sim *s = q->engine->sim;
    if (n > q->state->n)
        sim_broken(s, "%s of sequence %u to %llu tokens; it has %llu", call, q->id,
                   (unsigned long long)n, (unsigned long long)q->state->n);
    if (q->state->n - n > s->plan.rewind)
        sim_broken(s, "%s of sequence %u goes back further than the engine can", call, q->id);
}

static pawl_status truncate_to(pawl_sequence *q, uint64_t n, pawl_error *error)
{
    sim_state *state = enter(q, "truncate");
    pawl_engine *e = q->engine;
    check_reach(q, n, "truncate");
    pawl_status status = PAWL_OK;
    if (n < state->n && rng_chance(&e->random, e->sim->plan.memory_fault))
        status = refuse(e, PAWL_E_UNSUPPORTED, error);
    else
        cut(e, state, n);
    trace_add(e->sim, ACT_TRUNCATE, q->id, (int64_t)n, status);
    return status;
}

static pawl_status fork_at(const pawl_sequence *from, uint64_t n, pawl_sequence **out,
                           pawl_error *error)
{
    const sim_state *state = enter(from, "fork");
    pawl_engine *e = from->engine;
    pawl_sequence *q = NULL;
    check_reach(from, n, "fork");
    pawl_status status = sequence_open(e, &q, error);
    if (!status) {
        sim_state *to = q->state;
        uint32_t whole = (uint32_t)(n / e->sim->plan.page_tokens);
        for (; to->n_pages < whole; to->n_pages++) {
            to->pages[to->n_pages] = state->pages[to->n_pages];
            pages_share(&e->pool, to->pages[to->n_pages]);
        }
        /* a part of a page is copied now, so that both may write on into their own */
        if (!grow(e, to, pages_of(e, n))) {
            sequence_close(q);
            status = refuse(e, PAWL_E_MEMORY, error);
        } else {
            to->n = n;
            to->tenant = n ? state->tenant : SIM_NOBODY;
            memcpy(to->hash, state->hash, (size_t)(n + 1) * sizeof *to->hash);
            e->sim->totals.forks++;
            *out = q;
        }
    }
    trace_add(e->sim, ACT_FORK, from->id, (int64_t)n, status ? -status : (int64_t)q->id);
    return status;
}

/* The turn that a slot is for; checks that it is what this turn needs next. */
static sim_turn *check_slot(pawl_engine *e, const pawl_slot *slot)
{
    sim *s = e->sim;
    sim_state *state = enter(slot->sequence, "submit");
    if (!slot->sampling || slot->sampling->seed >= s->n_turns)
        sim_broken(s, "a slot has the sampling of no turn");
    sim_turn *t = &s->turns[slot->sampling->seed];
    if (slot->n_tokens == 0 || !slot->tokens)
        sim_broken(s, "turn %u: a slot without tokens", t->id);
    if (t->ended || (t->cancelled && t->cancelled_in < s->rounds))
        sim_broken(s, "turn %u has %s and is in a pass", t->id,
                   t->ended ? "ended" : "been cancelled");
    if (state->tenant != SIM_NOBODY && state->tenant != t->tenant)
        sim_broken(s, "turn %u of tenant %u goes on from state of tenant %u", t->id, t->tenant,
                   state->tenant);
    if (state->probe != SIM_NOBODY && state->probe != t->id)
        sim_broken(s, "turn %u goes on from the sequence of a probe", t->id);
    uint64_t known = t->n_prompt + t->sampled;
    if (state->n + slot->n_tokens > known)
        sim_broken(s, "turn %u: %llu tokens are appended to %llu; %llu are known", t->id,
                   (unsigned long long)slot->n_tokens, (unsigned long long)state->n,
                   (unsigned long long)known);
    if (state->hash[state->n] != t->hash[state->n])
        sim_broken(s, "turn %u: its sequence holds %llu tokens of another timeline", t->id,
                   (unsigned long long)state->n);
    if (memcmp(slot->tokens, t->tokens + state->n, (size_t)slot->n_tokens * sizeof *t->tokens) != 0)
        sim_broken(s, "turn %u: wrong tokens are appended at %llu", t->id,
                   (unsigned long long)state->n);
    bool last = state->n + slot->n_tokens == known && t->generate;
    if (last != ((slot->flags & PAWL_SLOT_SAMPLE) != 0) ||
        slot->flags & ~(uint32_t)PAWL_SLOT_SAMPLE)
        sim_broken(s, "turn %u: %s with flags %u", t->id,
                   last ? "its last tokens" : "tokens before its last", slot->flags);
    for (size_t i = 0; i < t->n_cuts; i++)
        if (state->n < t->cuts[i] && t->cuts[i] < state->n + slot->n_tokens)
            sim_broken(s, "turn %u: a pass runs over the cut at %llu", t->id,
                       (unsigned long long)t->cuts[i]);
    if (last && !slot->out_tokens)
        sim_broken(s, "turn %u: no room for its token", t->id);
    return t;
}

static void check_pass(pawl_engine *e, pawl_slot *slots, uint64_t stride, uint64_t n)
{
    sim *s = e->sim;
    uint64_t tokens = 0, single = 0;
    if (e->ticket)
        sim_broken(s, "submit while a pass is open");
    if (n == 0 || n > s->plan.max_sequences || stride != sizeof *slots)
        sim_broken(s, "a pass of %llu slots of %llu bytes", (unsigned long long)n,
                   (unsigned long long)stride);
    for (uint64_t i = 0; i < n; i++) {
        check_slot(e, &slots[i]);
        tokens += slots[i].n_tokens;
        single += slots[i].n_tokens == 1;
        for (uint64_t k = 0; k < i; k++)
            if (slots[k].sequence == slots[i].sequence ||
                slots[k].sampling->seed == slots[i].sampling->seed)
                sim_broken(s, "turn %u is twice in a pass", (uint32_t)slots[i].sampling->seed);
    }
    if (tokens > RUN_STEP_TOKENS && tokens > single)
        sim_broken(s, "a pass of %llu tokens", (unsigned long long)tokens);
    trace_add(s, ACT_PASS, (uint32_t)n, (int64_t)tokens, e->pool.n_free);
    s->now += (300000 + (int64_t)(tokens * 20000 + n * 50000)) * s->plan.slow;
    for (uint64_t i = 0; i < n; i++)
        fairness_try(&s->turns[slots[i].sampling->seed]);
}

/* What an engine may say of one slot. */
static pawl_status slot_fault(pawl_engine *e, const pawl_slot *slot)
{
    static const pawl_status kinds[] = {PAWL_E_INTERNAL, PAWL_E_LIMIT, PAWL_E_INTERNAL,
                                        PAWL_E_CANCELLED};
    sim_state *state = slot->sequence->state;
    if (rng_chance(&e->random, e->sim->plan.slot_fault)) {
        pawl_status status = kinds[rng_below(&e->random, 4)];
        if (status == PAWL_E_INTERNAL && rng_chance(&e->random, 500))
            cut(e, state, 0); /* it could not be restored */
        return status;
    }
    return grow(e, state, pages_of(e, state->n + slot->n_tokens)) ? PAWL_OK : PAWL_E_MEMORY;
}

/* Whether a turn may fail for it: a cancelled pass never, memory the second time. */
static void note_fault(sim_turn *t, pawl_status status)
{
    bool first = status == PAWL_E_MEMORY && !t->short_once;
    t->short_once = t->short_once || status == PAWL_E_MEMORY;
    t->hit = t->hit || (status != PAWL_E_CANCELLED && !first);
}

static void run_slot(pawl_engine *e, pawl_slot *slot)
{
    sim *s = e->sim;
    sim_state *state = slot->sequence->state;
    sim_turn *t = &s->turns[slot->sampling->seed];
    uint64_t at = state->n;
    slot->n_out = 0;
    slot->status = slot_fault(e, slot);
    if (slot->status) {
        e->faults++;
        note_fault(t, slot->status);
        trace_add(s, ACT_SLOT_FAULT, t->id, slot->status, (int64_t)at);
        return;
    }
    if (!t->entered)
        t->cached = at;
    t->entered = true;
    t->short_once = false;
    trace_add(s, ACT_SLOT, t->id, (int64_t)at, (int64_t)slot->n_tokens);
    for (uint64_t i = 0; i < slot->n_tokens; i++)
        state->hash[at + i + 1] = oracle_hash(state->hash[at + i], slot->tokens[i]);
    state->n += slot->n_tokens;
    state->tenant = t->tenant;
    if (t->probe)
        state->probe = t->id;
    t->computed += slot->n_tokens;
    s->totals.tokens += slot->n_tokens;
    s->progress++;
    fairness_serve(t, at, state->n, slot->flags & PAWL_SLOT_SAMPLE);
    if (!(slot->flags & PAWL_SLOT_SAMPLE))
        return;
    slot->out_tokens[0] = oracle_next(s, t, state->hash[state->n], state->n);
    if (slot->out_logprobs)
        slot->out_logprobs[0] = -1;
    for (uint32_t k = 0; k < slot->n_top; k++)
        slot->top[k] = (struct pawl_top){SIM_FIRST + (int32_t)k, -2};
    slot->n_out = 1;
    t->sampled++;
    if (!t->woke_in)
        t->woke_in = s->rounds;
}

static pawl_status submit(pawl_engine *e, pawl_slot *slots, uint64_t stride, uint64_t n,
                          uint64_t *ticket, pawl_error *error)
{
    sim *s = e->sim;
    check_pass(e, slots, stride, n);
    e->calls = 0;
    s->totals.passes++;
    pawl_status status = rng_chance(&e->random, s->plan.pass_cancel) ? PAWL_E_CANCELLED : PAWL_OK;
    if (rng_chance(&e->random, s->plan.pass_fault))
        status = rng_chance(&e->random, 500) ? PAWL_E_INTERNAL : PAWL_E_MEMORY;
    bool late = rng_chance(&e->random, 500);
    if (status) {
        e->faults += n;
        trace_add(s, ACT_PASS_FAULT, (uint32_t)n, status, late);
        for (uint64_t i = 0; i < n; i++) {
            sim_turn *t = &s->turns[slots[i].sampling->seed];
            note_fault(t, status);
        }
    }
    if (status && !late)
        return pawl_fail(error, status, "the simulated engine cannot begin");
    for (uint64_t i = 0; i < n && !status; i++)
        run_slot(e, &slots[i]);
    *ticket = e->ticket = ++e->passes;
    e->wait_status = status;
    return PAWL_OK;
}

static pawl_status wait_for(pawl_engine *e, uint64_t ticket, pawl_error *error)
{
    if (!e->ticket || ticket != e->ticket)
        sim_broken(e->sim, "wait for pass %llu", (unsigned long long)ticket);
    e->ticket = 0;
    return e->wait_status ? pawl_fail(error, e->wait_status, "the pass failed") : PAWL_OK;
}

static void cancel(pawl_engine *e)
{
    (void)e; /* passes end inside submit() */
}

static void capacity(const pawl_engine *e, uint64_t *total, uint64_t *unused)
{
    *total = e->pool.n_total;
    *unused = e->pool.n_free;
}

const pawl_engine_api sim_engine_api = {
    .struct_size = sizeof(pawl_engine_api),
    .capacity = capacity,
    .reserve = reserve,
    .sequence_open = sequence_open,
    .sequence_close = sequence_close,
    .submit = submit,
    .wait = wait_for,
    .cancel = cancel,
    .length = length,
    .truncate = truncate_to,
    .fork = fork_at,
};

void engine_open(sim *s)
{
    pawl_engine *e = calloc(1, sizeof *e);
    if (!e || !pages_open(&e->pool, (uint32_t)s->plan.pages))
        abort();
    e->sim = s;
    e->random = (rng){rng_mix(s->seed + 3)};
    s->engine = e;
}

void engine_close(sim *s)
{
    pawl_engine *e = s->engine;
    pages_close(&e->pool);
    for (size_t i = 0; i < SIM_MAX_SEQUENCES; i++)
        free(e->states[i].hash);
    while (e->newest) {
        pawl_sequence *q = e->newest;
        e->newest = q->older;
        free(q);
    }
    free(e);
}
