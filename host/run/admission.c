/*
 * run/admission.c - who gets a sequence and pages, and who has to give way. See
 * admission.h.
 *
 * Pages are counted as if no sequence shared any but what the turn in question would
 * take over; the engine's own reserve() has the last word.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/admission.h"

#include "run/plan.h"
#include "run/restore.h"

/* What a turn would go on from. */
typedef struct origin {
    uint64_t shared;    /* tokens that a live sequence has state for; 0 where hit has */
    prefix_hit hit;     /* saved state that is better, or none            */
    prefix_chain chain; /* of the hit's tokens                            */
} origin;

static uint64_t pages_for(const run_step *step, uint64_t n_tokens)
{
    uint64_t page = step->model->info.page_tokens ? step->model->info.page_tokens : 1;
    return n_tokens / page + (n_tokens % page != 0);
}

/* What a turn needs state for until its next token comes. */
static uint64_t first_need(const run_turn *turn)
{
    return turn->n_tokens + turn->request->generate;
}

/* Pages beyond these that a turn is to be able to take. */
static uint64_t margin(const run_step *step, const run_turn *turn)
{
    uint32_t doublings = turn->standing.preempted;
    uint64_t more = (uint64_t)RUN_HEADROOM
                    << (doublings < RUN_MAX_DOUBLINGS ? doublings : RUN_MAX_DOUBLINGS);
    uint64_t end = turn->n_tokens + more < turn->limit ? turn->n_tokens + more : turn->limit;
    if (!turn->request->generate || end <= first_need(turn))
        return 0;
    return pages_for(step, end) - pages_for(step, first_need(turn));
}

/* Pages that must be free for the turn to begin. */
static uint64_t wanted(const run_step *step, const run_turn *turn, const origin *from)
{
    uint64_t pages = margin(step, turn) + pages_for(step, first_need(turn));
    uint64_t page = step->model->info.page_tokens ? step->model->info.page_tokens : 1;
    for (size_t i = 0; i < step->n_active; i++)
        pages += margin(step, step->active[i].turn);
    return pages - from->shared / page;
}

static uint64_t free_pages(const run_step *step)
{
    uint64_t total = 0, unused = 0;
    step->model->engine_api->capacity(step->model->engine, &total, &unused);
    return unused;
}

/* Looks over all tiers; the chain is to be cleared. */
static origin look(run_step *step, run_turn *turn)
{
    origin o = {0};
    live_find(step->sequences, turn, &o.shared);
    if (step->n_active && free_pages(step) < wanted(step, turn, &o))
        return o; /* not now, so it need not be looked for now */
    o.hit = run_restore_look(step, turn, o.shared, &o.chain);
    if (o.hit.n_tokens)
        o.shared = 0;
    return o;
}

/* Whether the turn may take from the running one of the lowest rank. */
static bool may_preempt(const run_step *step, const run_turn *turn)
{
    return step->n_active && turn->standing.priority == RUN_INTERACTIVE &&
           step->active[step->n_active - 1].turn->standing.priority == RUN_BATCH;
}

/* Whether the pages would suffice if all gave way who can. */
static bool is_possible(const run_step *step, const run_turn *turn, const origin *from)
{
    uint64_t pages = free_pages(step);
    for (size_t i = 0; i < step->sequences->n_entries; i++)
        if (!step->sequences->entries[i]->busy)
            pages += pages_for(step, step->sequences->entries[i]->n_tokens);
    for (size_t i = 0; i < step->n_active && turn->standing.priority == RUN_INTERACTIVE; i++)
        if (step->active[i].turn->standing.priority == RUN_BATCH)
            pages += pages_for(step, first_need(step->active[i].turn));
    return pages >= wanted(step, turn, from);
}

/* Somebody makes room for the turn. False: nobody can. */
static bool give_way(run_step *step, const run_turn *turn, const origin *from)
{
    uint64_t shared; /* looked for anew: a fork that found no pages may have become it */
    const live *source = from->hit.n_tokens ? NULL : live_find(step->sequences, turn, &shared);
    if (step->n_active == step->model->max_sequences) {
        if (!may_preempt(step, turn))
            return false;
        run_step_preempt(step, step->n_active - 1, true);
        return true;
    }
    if (step->n_active && !is_possible(step, turn, from))
        return false;
    if (live_evict_oldest(step->sequences, source))
        return true;
    if (may_preempt(step, turn)) {
        const live *last = step->active[step->n_active - 1].entry;
        run_step_preempt(step, step->n_active - 1, last == source);
        return true;
    }
    return step->n_active == 0 && live_evict_oldest(step->sequences, NULL);
}

/* A sequence with what the turn goes on from, or one that it is to be loaded into. */
static pawl_status take(run_step *step, const run_turn *turn, const origin *from, live **entry,
                        prefix_load **load, pawl_error *error)
{
    if (!from->hit.n_tokens)
        return live_take(step->sequences, turn, entry, error);
    /* Pinned before anything is closed for it, and saved instead. */
    pawl_status status =
        prefix_load_begin(step->sequences->prefix, &from->chain, &from->hit, load, error);
    if (!status)
        status = live_open(step->sequences, turn, entry, error);
    if (status) {
        prefix_load_end(*load);
        *load = NULL;
    } else {
        (*entry)->loading = true;
    }
    return status;
}

/* The turn is active. */
static void begin(run_step *step, run_turn *turn, live *entry, prefix_load *load)
{
    uint64_t cached = entry->n_tokens;
    run_waiting_remove(step->waiting, turn);
    turn->standing.returned = false;
    if (turn->standing.paid < cached)
        turn->standing.paid = cached < turn->n_prompt ? cached : turn->n_prompt;
    run_step_add(step, turn, entry, load);
    if (!turn->in_progress)
        run_turn_in_progress(turn);
    if (step->sequences->prefix && !turn->request->probe)
        metric_add(step->model->measures[MEASURE_STORED_QUERIES],
                   (double)(turn->n_tokens - cached));
}

/* PAWL_E_BUSY: not as things are. */
static pawl_status try_once(run_step *step, run_turn *turn, const origin *from, pawl_error *error)
{
    live *entry = NULL;
    prefix_load *load = NULL;
    if (step->n_active && free_pages(step) < wanted(step, turn, from))
        return PAWL_E_BUSY;
    pawl_status status = take(step, turn, from, &entry, &load, error);
    if (status)
        return status == PAWL_E_MEMORY ? PAWL_E_BUSY : status;
    uint64_t cached = entry->n_tokens;
    status = step->model->engine_api->reserve(entry->sequence, first_need(turn) - cached, error);
    if (!status) {
        begin(step, turn, entry, load);
        return PAWL_OK;
    }
    prefix_load_end(load);
    if (status == PAWL_E_MEMORY && cached)
        live_keep(step->sequences, entry);
    else
        live_drop(step->sequences, entry);
    return status == PAWL_E_MEMORY ? PAWL_E_BUSY : status;
}

pawl_status run_admit(run_step *step, run_turn *turn, pawl_error *error)
{
    pawl_status status = PAWL_E_BUSY;
    bool again = true;
    while (status == PAWL_E_BUSY && again) {
        bool full = step->n_active == step->model->max_sequences;
        origin from = full ? (origin){0} : look(step, turn);
        if (!full)
            status = try_once(step, turn, &from, error);
        again = status == PAWL_E_BUSY && give_way(step, turn, &from);
        prefix_chain_clear(&from.chain);
    }
    if (status == PAWL_E_BUSY && step->n_active == 0) /* nobody will end and make room */
        return pawl_fail(error, PAWL_E_MEMORY,
                         "the engine has no memory for the %llu tokens of this prompt",
                         (unsigned long long)turn->n_tokens);
    return status;
}

void run_make_room(run_step *step)
{
    const pawl_engine_api *api = step->model->engine_api;
    for (size_t i = 0; i < step->n_active;) {
        const run_active *a = &step->active[i];
        uint64_t n = run_missing(a) < RUN_STEP_TOKENS ? run_missing(a) : RUN_STEP_TOKENS;
        bool short_of = api->reserve(a->entry->sequence, n, NULL) == PAWL_E_MEMORY;
        if (short_of && live_evict_oldest(step->sequences, NULL))
            continue;
        if (short_of && step->n_active > 1) /* perhaps itself */
            run_step_preempt(step, step->n_active - 1, false);
        else
            i++;
    }
}
