/*
 * sim/plan.c - what kind of schedule a seed stands for.
 *
 * Sizes are drawn so that everything that can be short is short in a good part of the
 * schedules: sequences, pages, queue, context, rewind. A third has no fault at all, and
 * there every turn must end as the oracle says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "sim.h"

static void draw_engine(rng *r, sim_plan *p)
{
    static const uint32_t page[] = {4, 16, 16, 64};
    p->max_sequences = rng_between(r, 1, 8);
    p->open_sequences = p->max_sequences * RUN_IDLE_FACTOR;
    if (rng_chance(r, 200))
        p->open_sequences = rng_between(r, p->max_sequences, p->open_sequences);
    p->page_tokens = page[rng_below(r, 4)];
    p->context = rng_chance(r, 300) ? rng_between(r, 40, 200) : rng_between(r, 200, 1200);
    uint64_t largest = (p->context + p->page_tokens - 1) / p->page_tokens;
    uint64_t share = rng_chance(r, 500) ? rng_between(r, 1000, 2500)
                                        : rng_between(r, 2500, 1000 * p->open_sequences + 2500);
    if (!p->clean && rng_chance(r, 200))
        share = rng_between(r, 300, 1000);
    p->pages = largest * share / 1000 + 1;
    p->pages = p->pages > SIM_MAX_PAGES ? SIM_MAX_PAGES : p->pages;
    if (p->pages < largest && p->clean)
        p->pages = largest;
    p->rewind = rng_chance(r, 600) ? UINT64_MAX : rng_below(r, 2) * rng_below(r, 64);
}

static void draw_faults(rng *r, sim_plan *p)
{
    p->slot_fault = rng_chance(r, 500) ? rng_between(r, 1, 20) : 0;
    p->pass_fault = rng_chance(r, 300) ? rng_between(r, 1, 20) : 0;
    p->pass_cancel = rng_chance(r, 300) ? rng_between(r, 1, 100) : 0;
    p->memory_fault = rng_chance(r, 400) ? rng_between(r, 1, 80) : 0;
    p->put_fault = rng_chance(r, 300) ? rng_between(r, 1, 200) : 0;
    p->put_busy = rng_chance(r, 300) ? rng_between(r, 1, 200) : 0;
}

/* Many small turns of keys that come one after the other, and few places to run. */
static void draw_small(rng *r, sim_plan *p)
{
    p->n_turns = rng_between(r, 100, 240);
    p->max_sequences = rng_between(r, 1, 2);
    p->longest_prompt = rng_between(r, 1, p->context < 30 ? (uint32_t)p->context - 1 : 30);
    p->longest_reply = rng_between(r, 1, 8);
    p->queue_limit = rng_between(r, 60, 240);
    p->per_key = p->queue_limit;
    p->gap_ns = (int64_t)rng_between(r, 1, 12) * 1000000 * p->slow;
    p->alone = rng_between(r, 0, p->n_turns * 2 / 3);
    p->small = true;
    p->follow = p->choices = 0;
}

void plan_draw(uint64_t seed, sim_plan *p)
{
    rng r = {rng_mix(seed + 1)};
    *p = (sim_plan){.clean = rng_chance(&r, 350)};
    p->n_turns = rng_chance(&r, 100) ? rng_between(&r, 100, 220) : rng_between(&r, 12, 80);
    draw_engine(&r, p);
    p->queue_limit = rng_chance(&r, 300) ? rng_between(&r, 1, 8) : rng_between(&r, 8, 128);
    p->n_families = rng_between(&r, 1, SIM_FAMILIES);
    p->n_tenants = rng_between(&r, 1, SIM_TENANTS);
    p->n_keys = rng_between(&r, p->n_tenants, SIM_KEYS);
    p->nobody = rng_chance(&r, 200);
    p->per_key = rng_chance(&r, 300) ? rng_between(&r, 1, 12) : 0;
    p->slow = rng_chance(&r, 300) ? rng_between(&r, 50, 1500) : 1;
    p->batch = rng_chance(&r, 600) ? rng_between(&r, 1, 600) : 0;
    p->demote = rng_chance(&r, 300) ? rng_between(&r, 1, rng_chance(&r, 100) ? 900 : 200) : 0;
    p->loud = rng_chance(&r, 400) ? rng_between(&r, 300, 900) : 0;
    p->longest_prompt = rng_between(&r, 1, (uint32_t)p->context - 1);
    p->longest_reply = rng_between(&r, 1, 60);
    p->end_odds = rng_between(&r, 4, 60);
    p->gap_ns = (int64_t)rng_between(&r, 1, 40) * 1000000 * p->slow;
    p->burst = rng_chance(&r, 300) ? rng_between(&r, 5, 40) : rng_between(&r, 1, 4);
    p->cancel = rng_chance(&r, 700) ? rng_between(&r, 0, 400) : 0;
    p->follow = rng_between(&r, 0, 700);
    p->choices = rng_between(&r, 0, 300);
    p->raw_end = rng_between(&r, 0, 100);
    p->stop = rng_between(&r, 0, 300);
    p->store = rng_between(&r, 0, 1000);
    if (rng_chance(&r, 150))
        draw_small(&r, p);
    if (!p->clean)
        draw_faults(&r, p);
    if (rng_chance(&r, 250))
        p->shutdown_at = rng_between(&r, 1, p->n_turns);
}
