/*
 * run/restore.c - state between sequences and the prefix cache. See restore.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/restore.h"

#define MAX_PARTS 8
#define MIN_GAIN 16  /* tokens; fewer are computed sooner than they are looked up */
#define MAX_BROKEN 3 /* restores of a turn that broke; then it is computed        */
#define LOAD_SHARE 2 /* of a pass's time: one half  */
#define SAVE_SHARE 8 /* one eighth                  */

static int64_t now(const run_step *step)
{
    return step->clock->monotonic_ns(step->clock->context);
}

prefix_hit run_restore_look(run_step *step, run_turn *turn, uint64_t shared, prefix_chain *chain)
{
    prefix *p = step->sequences->prefix;
    prefix_hit none = {0};
    const run_request *request = turn->request;
    *chain = (prefix_chain){0};
    if (!p || request->probe || turn->broken >= MAX_BROKEN || turn->n_tokens - shared <= MIN_GAIN)
        return none;
    if (prefix_chain_begin(chain, &p->fingerprint, p->chunk, request->caller.tenant,
                           request->cache_salt, NULL))
        return none;
    prefix_hit hit = prefix_find(p, chain, turn->tokens, run_turn_reusable(turn) + 1);
    bool pays = hit.n_tokens >= shared + MIN_GAIN &&
                prefix_pace_pays(&p->pace, hit.n_tokens, hit.n_tokens - shared);
    return pays ? hit : none;
}

/* It is looked at anew in the next round. */
static void begin_anew(run_step *step, size_t i)
{
    step->active[i].turn->broken++;
    run_step_return(step, i);
}

static void loaded(run_step *step, run_active *a)
{
    uint64_t n = a->entry->n_tokens, prompt = n < a->turn->n_prompt ? n : a->turn->n_prompt;
    prefix_load_end(a->load);
    a->load = NULL;
    a->entry->loading = false;
    if (a->turn->standing.paid < prompt)
        a->turn->standing.paid = prompt;
    metric_add(step->model->measures[MEASURE_STORED_HITS], (double)n);
    metric_add(step->model->measures[MEASURE_RESTORES], n > 0);
}

/* Loads the next part of the i-th active turn. */
static void load_one(run_step *step, size_t i)
{
    run_active *a = &step->active[i];
    live *entry = a->entry;
    enum prefix_progress progress = prefix_load_one(a->load, entry->sequence, a->turn->tokens);
    uint64_t n = a->load->n_tokens;
    bool noted = progress == PREFIX_BROKEN ||
                 live_append(entry, a->turn->tokens + entry->n_tokens, n - entry->n_tokens);
    if (progress == PREFIX_BROKEN || !noted)
        begin_anew(step, i);
    else if (progress == PREFIX_DONE)
        loaded(step, a);
}

void run_restore(run_step *step)
{
    size_t waiting = 0;
    for (size_t i = 0; i < step->n_active; i++)
        waiting += step->active[i].load != NULL;
    bool runs = waiting < step->n_active;
    int64_t begin = waiting ? now(step) : 0;
    for (int n = 0; n < MAX_PARTS && waiting; n++) {
        size_t i = 0;
        while (i < step->n_active && !step->active[i].load)
            i++;
        if (i == step->n_active || (n && runs && now(step) - begin >= step->pass_ns / LOAD_SHARE))
            return;
        load_one(step, i);
    }
}

/* Saves one part. False: there is none. */
static bool save_one(live_set *set)
{
    for (int busy = 0; busy < 2; busy++)
        for (size_t i = 0; i < set->n_entries; i++)
            if (set->entries[i]->busy == busy && live_save_one(set, set->entries[i], !busy))
                return true;
    return false;
}

static void count_save(const run_step *step)
{
    metric_add(step->model->measures[MEASURE_SAVES], 1);
}

bool run_save(run_step *step)
{
    if (!step->sequences->prefix || !step->clock)
        return false;
    int64_t begin = now(step);
    bool runs = step->n_active > 0;
    for (int n = 0; n < (runs ? MAX_PARTS : 1); n++) {
        if (n && now(step) - begin >= step->pass_ns / SAVE_SHARE)
            return true;
        if (!save_one(step->sequences))
            return n > 0;
        count_save(step);
    }
    return true;
}

void run_save_point(run_step *step, const run_active *a)
{
    live_set *set = step->sequences;
    bool aligned = set->prefix && a->entry->n_tokens % set->prefix->chunk == 0;
    metric_add(step->model->measures[MEASURE_SAVE_POINTS], 1);
    if (!set->prefix || (aligned && !set->prefix->boundary)) /* its chunks are saved anyway */
        return;
    while (live_save_one(set, a->entry, true))
        count_save(step);
}
