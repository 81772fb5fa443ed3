/*
 * sim/client.c - those who ask: prompts that share beginnings, choices, cancels.
 *
 * A prompt is a beginning of one of a few families, or the whole timeline of a turn that
 * has ended, and then a few letters of its own; tenants draw from the same families, so
 * that what must not be shared lies ready to be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "disk.h"

#include <stdlib.h>
#include <string.h>

static int32_t letter(uint64_t from)
{
    return SIM_FIRST + (int32_t)(rng_mix(from) % SIM_LETTERS);
}

/* A turn that has ended and can be followed, or NULL. */
static const sim_turn *earlier(sim *s)
{
    if (!s->n_turns || !rng_chance(&s->random, s->plan.follow))
        return NULL;
    const sim_turn *t = &s->turns[rng_below(&s->random, s->n_turns)];
    return t->ended && t->n_end < s->plan.context - 2 ? t : NULL;
}

static void make_prompt(sim *s, sim_turn *t)
{
    rng *r = &s->random;
    uint64_t most = s->plan.context - 1, n = 0;
    const sim_turn *from = earlier(s);
    bool first = t->id < s->plan.alone || rng_chance(r, s->plan.loud);
    t->key = first ? 0 : rng_below(r, s->plan.n_keys);
    if (from) {
        n = from->n_end;
        memcpy(t->tokens, from->tokens, (size_t)n * sizeof *t->tokens);
        if (rng_chance(r, 700))
            t->key = from->key;
        else if (n && rng_chance(r, 300))
            n = rng_below(r, n) + 1;
    } else if (!rng_chance(r, 100)) {
        uint64_t family = s->seed * SIM_FAMILIES + rng_below(r, s->plan.n_families);
        uint64_t whole = rng_mix(family) % s->plan.longest_prompt + 1;
        n = rng_chance(r, 600) ? whole : rng_below(r, whole + 1);
        for (uint64_t i = 0; i < n; i++)
            t->tokens[i] = letter(family * SIM_MAX_CONTEXT + i);
    }
    uint64_t own = rng_below(r, rng_chance(r, 200) ? s->plan.longest_prompt + 1 : 12);
    for (uint64_t i = 0; i < own && n < most; i++)
        t->tokens[n++] = letter(rng_next(r));
    if (n == 0 && t->generate)
        t->tokens[n++] = letter(t->id);
    t->n_prompt = n;
    t->tenant =
        s->plan.nobody && t->key == s->plan.n_keys - 1 ? SIM_TENANTS : t->key % s->plan.n_tenants;
    for (size_t i = 0; i < SIM_CUTS && n > 2 && rng_chance(r, 300); i++) {
        uint64_t after = i ? t->cuts[i - 1] : 0;
        if (after + 1 < n)
            t->cuts[t->n_cuts++] = after + 1 + rng_below(r, n - after - 1);
    }
}

run_caller client_caller(const sim *s, uint32_t key)
{
    run_caller caller = RUN_NOBODY;
    if (s->plan.nobody && key == s->plan.n_keys - 1)
        return caller;
    caller.tenant[0] = (char)('A' + key % s->plan.n_tenants);
    snprintf(key % 2 ? caller.key : caller.name, 8, "key_%u", key);
    return caller;
}

bool client_waits(const sim_turn *t)
{
    return t->created && !t->in_progress && !t->ended && t->put == PUT_NONE;
}

static void make_turn(sim *s, sim_turn *t)
{
    rng *r = &s->random;
    const sim_plan *p = &s->plan;
    *t = (sim_turn){.sim = s, .id = s->n_turns++, .arrived = s->now};
    t->batch = rng_chance(r, p->batch);
    t->demote = rng_chance(r, p->demote);
    t->demote_at =
        rng_chance(r, 400) ? SIM_NEVER : s->now + (int64_t)rng_below(r, 2000) * p->gap_ns / 400;
    t->greedy = rng_chance(r, 400);
    t->generate = !rng_chance(r, 60);
    t->probe = rng_chance(r, 20);
    t->store = !t->probe && rng_chance(r, p->store);
    t->ignore_end = rng_chance(r, 100);
    t->max_tokens = p->small || rng_chance(r, 950) ? rng_between(r, 1, p->longest_reply) : 0;
    t->min_tokens = rng_chance(r, 100) ? rng_below(r, 10) : 0;
    if (rng_chance(r, p->stop))
        snprintf(t->stop, sizeof t->stop, rng_chance(r, 500) ? "%c" : "%c%c",
                 (char)letter(rng_next(r)), (char)letter(rng_next(r)));
    t->tokens = malloc((size_t)p->context * sizeof *t->tokens + sizeof *t->tokens);
    t->hash = malloc((size_t)(p->context + 2) * sizeof *t->hash);
    t->text = malloc((size_t)p->context + 2);
    if (!t->tokens || !t->hash || !t->text)
        abort();
    make_prompt(s, t);
    oracle_foresee(t);
}

/* A further choice: the same but for its seed. */
static void make_choice(sim *s, sim_turn *t, const sim_turn *first)
{
    uint64_t context = s->plan.context;
    *t = *first;
    t->id = s->n_turns++;
    t->tokens = malloc((size_t)(context + 1) * sizeof *t->tokens);
    t->hash = malloc((size_t)(context + 2) * sizeof *t->hash);
    t->text = malloc((size_t)context + 2);
    if (!t->tokens || !t->hash || !t->text)
        abort();
    memcpy(t->tokens, first->tokens, (size_t)first->n_prompt * sizeof *t->tokens);
    oracle_foresee(t);
}

static void draw_cancel(sim *s, sim_turn *t)
{
    rng *r = &s->random;
    static const enum sim_cancel kinds[] = {CANCEL_FIRST, CANCEL_AT,      CANCEL_AT,  CANCEL_AT,
                                            CANCEL_TOKEN, CANCEL_STORING, CANCEL_LATE};
    if (!rng_chance(r, s->plan.cancel))
        return;
    t->cancel = kinds[rng_below(r, 7)];
    t->cancel_at = s->now + (int64_t)rng_below(r, 1000) * rng_below(r, 200) * 1000 * s->plan.slow;
    if (t->cancel == CANCEL_TOKEN)
        t->cancel_at = rng_between(r, 1, 10);
}

/* The request of a turn, which all choices share. */
static run_request *make_request(sim *s, const sim_turn *t)
{
    run_request *request = run_request_new(&s->clock);
    if (!request)
        abort();
    request->model = &s->model;
    request->store = t->store;
    request->generate = t->generate;
    request->probe = t->probe;
    request->max_tokens = t->max_tokens;
    request->min_tokens = t->min_tokens;
    request->ignore_eos = t->ignore_end;
    request->sampling.temperature = t->greedy ? 0 : 1;
    request->sampling.seed = t->id;
    request->caller = client_caller(s, t->key);
    request->priority = t->batch ? RUN_BATCH : RUN_INTERACTIVE;
    if (t->stop[0])
        request->stop[request->n_stop++] = strdup(t->stop);
    if (t->id % 16 == 5) {
        request->logprobs = true;
        request->top_logprobs = 2;
    }
    return request;
}

static run_turn *new_turn(sim *s, run_request *request, const sim_turn *t, run_listener to)
{
    run_prompt prompt = {.n_tokens = t->n_prompt, .stop_tokens = {SIM_END}, .n_stop_tokens = 1};
    run_turn *turn = NULL;
    prompt.tokens = malloc((size_t)(t->n_prompt + 1) * sizeof *prompt.tokens);
    if (!prompt.tokens)
        abort();
    for (; prompt.n_cuts < t->n_cuts; prompt.n_cuts++)
        prompt.cuts[prompt.n_cuts] = t->cuts[prompt.n_cuts];
    memcpy(prompt.tokens, t->tokens, (size_t)t->n_prompt * sizeof *prompt.tokens);
    if (run_turn_new(run_request_retain(request), &prompt, to, &s->clock, &s->disk->store, &turn,
                     NULL) != PAWL_OK)
        abort();
    turn->sampling.seed = t->id;
    return turn;
}

/* As runtime.c begins them: all places or none, then the first one into the queue. */
static void begin(sim *s, sim_group *group)
{
    sim_turn *turns = &s->turns[group->first];
    run_request *request = make_request(s, turns);
    run_listener listener = {events_take, group};
    run_choices *choices = group->n > 1 ? run_choices_open(group->n, listener) : NULL;
    for (uint32_t k = 0; k < group->n; k++) {
        run_turn *turn =
            new_turn(s, request, &turns[k], choices ? run_choices_listener(choices, k) : listener);
        turns[k].turn = turn;
        atomic_fetch_add(&turn->references, 1);
        if (k)
            turns[k - 1].turn->next = turn;
    }
    run_request_free(request);
    for (uint32_t k = 0; k < group->n; k++) {
        run_turn_created(turns[k].turn);
        if (turns[k].cancel == CANCEL_FIRST)
            client_cancel(&turns[k]);
    }
    if (!run_scheduler_submit(s->scheduler, turns[0].turn))
        sim_broken(s, "turn %u had a place and was not taken", turns[0].id);
    for (uint32_t k = 0; k < group->n; k++)
        if (turns[k].cancel == CANCEL_NEVER && !turns[k].demote && !turns[k].batch &&
            rng_chance(&s->random, 500))
            client_release(&turns[k]);
}

/* Takes n places, which must be there exactly when the queue and the key have them. */
static bool claim(sim *s, uint32_t key, uint32_t n)
{
    run_caller caller = client_caller(s, key);
    uint32_t all = 0, own = 0, quarter = s->plan.queue_limit / 4;
    uint32_t share = quarter > RUN_LEAST_KEY_PLACES ? quarter : RUN_LEAST_KEY_PLACES;
    for (uint32_t i = s->first_open; i < s->groups[s->n_groups - 1].first; i++) {
        all += client_waits(&s->turns[i]);
        own += client_waits(&s->turns[i]) && s->turns[i].key == key;
    }
    if (run_scheduler_waiting(s->scheduler, &caller) != own)
        sim_broken(s, "key %u has %u places and %u turns that wait", key,
                   run_scheduler_waiting(s->scheduler, &caller), own);
    share = s->plan.per_key ? s->plan.per_key : share;
    enum run_place due = own + n > share && !run_caller_is_nobody(&caller) ? RUN_KEY_FULL
                         : all + n > s->plan.queue_limit                   ? RUN_QUEUE_FULL
                                                                           : RUN_PLACED;
    enum run_place place = run_scheduler_claim(s->scheduler, &caller, n);
    if (place != due)
        sim_broken(s, "%u places for key %u with %u of %u, and %u of %u in all, taken: %d", n, key,
                   own, share, all, s->plan.queue_limit, (int)place);
    s->totals.key_full += place == RUN_KEY_FULL;
    if (place == RUN_PLACED && rng_chance(&s->random, 50)) { /* given back before it is used */
        run_scheduler_unclaim(s->scheduler, &caller, n);
        return false;
    }
    return place == RUN_PLACED;
}

void client_arrive(sim *s)
{
    rng *r = &s->random;
    uint32_t left = s->plan.n_turns - s->n_turns;
    uint32_t n = rng_chance(r, s->plan.choices) ? rng_between(r, 2, RUN_MAX_CHOICES) : 1;
    n = n < left ? n : left;
    sim_group *group = &s->groups[s->n_groups++];
    *group = (sim_group){.sim = s, .first = s->n_turns, .n = n};
    for (uint32_t k = 0; k < n; k++) {
        sim_turn *t = &s->turns[group->first + k];
        if (k)
            make_choice(s, t, &s->turns[group->first]);
        else
            make_turn(s, t);
        t->group = group;
    }
    sim_turn *first = &s->turns[group->first];
    trace_add(s, ACT_ARRIVE, first->id, (int64_t)first->n_prompt, (int64_t)first->limit);
    trace_add(s, ACT_WHOSE, first->id, first->key, first->batch);
    if (!claim(s, first->key, n)) {
        trace_add(s, ACT_REFUSED, first->id, run_scheduler_waiting(s->scheduler, NULL), n);
        s->totals.refused += n;
        for (uint32_t k = 0; k < n; k++)
            first[k].ended = group->over = true;
        s->n_ended += n;
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        draw_cancel(s, &first[k]);
    begin(s, group);
}

void client_cancel(sim_turn *t)
{
    if (!t->turn || t->cancelled)
        return;
    trace_add(t->sim, ACT_CANCEL, t->id, t->deltas, t->in_progress);
    t->cancelled = true;
    t->cancelled_in = t->sim->rounds;
    run_cancel(t->turn);
}

void client_demote(sim_turn *t)
{
    if (!t->demote || !t->turn)
        return;
    trace_add(t->sim, ACT_DEMOTE, t->id, t->batch, t->in_progress);
    t->demote = false;
    t->batch = true;
    t->sim->totals.demoted++;
    run_demote(t->turn);
}

int64_t client_cancel_due(sim *s)
{
    int64_t next = SIM_NEVER;
    for (uint32_t i = 0; i < s->n_turns; i++) {
        sim_turn *t = &s->turns[i];
        if (t->demote_at <= s->now)
            client_demote(t);
        if (t->cancelled || (t->ended && t->cancel != CANCEL_LATE))
            continue;
        if ((t->cancel == CANCEL_AT && t->cancel_at <= s->now) ||
            (t->cancel == CANCEL_LATE && t->ended))
            client_cancel(t);
        else if (t->cancel == CANCEL_AT && t->cancel_at < next)
            next = t->cancel_at;
    }
    return next;
}

void client_release(sim_turn *t)
{
    run_turn_release(t->turn);
    t->turn = NULL;
}
