/*
 * sim/fairness.c - nobody starves: what keys and classes got, against what they should get.
 *
 * Keys: while a key has an interactive turn in the queue, no other may be served more
 * than it, from any moment of that time on, by more than twice what a batch of the largest
 * turns comes to. That is the bound of virtual token counters.
 *
 * Classes: where the batch class has turns and was not served for RUN_STARVED_NS, one of
 * them has been raised, and another one after each such time again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sim.h"

/* Of the batch class as the scheduler has it; a raised turn still stands for it. Turns that are
 * or may become so are not given back before the end. */
static bool is_batch(const sim_turn *t)
{
    return t->turn && (t->turn->standing.priority == RUN_BATCH || t->turn->standing.raised);
}

void fairness_try(sim_turn *t)
{
    sim_fairness *f = &t->sim->fairness;
    if (!is_batch(t))
        return;
    f->batch_at = t->sim->now;
    f->raised = f->all_raised;
}

void fairness_serve(sim_turn *t, uint64_t begin, uint64_t end, bool sampled)
{
    sim_fairness *f = &t->sim->fairness;
    uint64_t from = begin > t->paid ? begin : t->paid;
    uint64_t to = end < t->n_prompt ? end : t->n_prompt;
    uint64_t work = (to > from ? to - from : 0) + 2 * sampled;
    t->paid = to > t->paid ? to : t->paid;
    if (!is_batch(t))
        f->served[t->key] += work;
}

static int64_t bound(const sim *s)
{
    return (int64_t)(2 * s->plan.max_sequences * s->fairness.largest);
}

static void check_keys(sim *s, const bool *waits)
{
    sim_fairness *f = &s->fairness;
    for (uint32_t k = 0; k < s->plan.n_keys; k++) {
        for (uint32_t other = 0; other < s->plan.n_keys; other++) {
            int64_t ahead = (int64_t)(f->served[other] - f->served[k]);
            if (!f->waits[k] || ahead < f->ahead[other][k])
                f->ahead[other][k] = ahead;
            if (waits[k] && ahead - f->ahead[other][k] > bound(s))
                sim_broken(s, "key %u was served %lld more than key %u, which waits; bound %lld",
                           other, (long long)(ahead - f->ahead[other][k]), k, (long long)bound(s));
        }
        f->waits[k] = waits[k];
    }
}

/* Whether it could be taken: not a choice whose first one has no state yet. */
static bool is_in_line(const sim_turn *t)
{
    return client_waits(t) &&
           (t->id == t->group->first || t[-1].sampled || t[-1].ended || t[-1].put != PUT_NONE);
}

static void check_classes(sim *s, bool batch, uint64_t raised)
{
    sim_fairness *f = &s->fairness;
    if (!batch) {
        f->batch_at = s->now;
        f->raised = raised;
    }
    f->batch = batch;
    if (raised > f->all_raised && f->waited < RUN_STARVED_NS / 2)
        sim_broken(s, "a batch turn is raised after %lld ms", (long long)f->waited / 1000000);
    /* each time it may be seen a pass later */
    uint64_t due = (uint64_t)((s->now - f->batch_at) / (RUN_STARVED_NS + f->longest_pass));
    if (due > 1 && raised - f->raised < due - 1)
        sim_broken(s, "the batch class was not served for %lld s, and %llu turns were raised",
                   (long long)(s->now - f->batch_at) / 1000000000,
                   (unsigned long long)(raised - f->raised));
    s->totals.raised += due > 0;
}

void fairness_begin(sim *s)
{
    s->fairness.began = s->now;
    if (!s->fairness.batch)
        s->fairness.batch_at = s->now;
    s->fairness.waited = s->now - s->fairness.batch_at;
}

void fairness_round(sim *s)
{
    sim_fairness *f = &s->fairness;
    bool waits[SIM_KEYS] = {false}, batch = false;
    uint64_t raised = 0;
    for (uint32_t i = 0; i < s->n_turns; i++) {
        const sim_turn *t = &s->turns[i];
        uint64_t all = t->n_prompt + 2 * (t->n_full - t->n_prompt);
        f->largest = all > f->largest ? all : f->largest;
        waits[t->key] = waits[t->key] || (is_in_line(t) && !is_batch(t));
        bool lifted = t->turn && t->turn->standing.raised;
        bool there = is_in_line(t) || (t->in_progress && !t->ended && t->put == PUT_NONE);
        batch = batch || (there && is_batch(t) && !lifted);
        raised += lifted;
    }
    if (s->now - f->began > f->longest_pass)
        f->longest_pass = s->now - f->began;
    if (!s->plan.demote && !raised)
        check_keys(s, waits);
    if (s->plan.batch || s->plan.demote)
        check_classes(s, batch, raised);
    f->all_raised = raised;
}
