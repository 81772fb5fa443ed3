/*
 * sim/world.c - the loop that plays a schedule: time, arrivals, rounds, the end.
 *
 * Time passes in passes; where the scheduler has nothing to do, it jumps to what
 * happens next. After each round nothing may have grown beyond its maximum; after the
 * end nothing may be left.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "disk.h"
#include "engine.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ROUNDS 200000
#define MAX_IDLE_ROUNDS 3 /* that bring nothing and in which nothing was refused */

static int64_t monotonic(void *context)
{
    return ((sim *)context)->now + 1;
}

static int64_t wall(void *context)
{
    return 1796000000000 + ((sim *)context)->now / 1000000;
}

static void random_bytes(void *context, void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        uint64_t x = rng_next(&((sim *)context)->entropy);
        memcpy((char *)bytes + i, &x, size - i < 8 ? size - i : 8);
    }
}

static pawl_bytes piece(const pawl_tokenizer *t, int32_t token)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    (void)t;
    if (token < SIM_FIRST || token >= SIM_FIRST + SIM_LETTERS)
        return (pawl_bytes){"<|end|>", 7};
    return (pawl_bytes){letters + (token - SIM_FIRST), 1};
}

static uint32_t token_flags(const pawl_tokenizer *t, int32_t token)
{
    (void)t;
    return token == SIM_END ? PAWL_TOKEN_CONTROL | PAWL_TOKEN_ADDED : 0;
}

static const pawl_tokenizer_api tokenizer_api = {
    .struct_size = sizeof(pawl_tokenizer_api), .piece = piece, .token_flags = token_flags};

static void open_world(sim *s)
{
    s->random = (rng){rng_mix(s->seed + 2)};
    s->entropy = (rng){rng_mix(s->seed + 5)};
    s->clock = (base_clock){s, monotonic, wall, random_bytes};
    engine_open(s);
    disk_open(s);
    s->model = (run_model){
        .name = (char *)(uintptr_t) "sim",
        .engine_api = &sim_engine_api,
        .tokenizer_api = &tokenizer_api,
        .engine = s->engine,
        .info = {.struct_size = sizeof(pawl_engine_info),
                 .vocab_size = 257,
                 .context_limit = s->plan.context,
                 .max_in_flight = 1,
                 .page_tokens = s->plan.page_tokens,
                 .state_chunk = s->plan.page_tokens,
                 .rewind_tokens = s->plan.rewind},
        .vocabulary = {.vocab_size = 257, .bos = -1, .eos = SIM_END, .eot = -1},
        .max_sequences = s->plan.max_sequences,
    };
    run_scheduler_config config = {
        .queue = s->plan.queue_limit, .per_key = s->plan.per_key, .driven = true};
    if (run_scheduler_open(&s->model, &config, &s->scheduler, NULL) != PAWL_OK)
        abort();
}

static void close_world(sim *s)
{
    for (uint32_t i = 0; i < s->n_turns; i++) {
        client_release(&s->turns[i]);
        free(s->turns[i].tokens);
        free(s->turns[i].hash);
        free(s->turns[i].text);
    }
    engine_close(s);
    disk_close(s);
}

/* Those whose time has come; when the next ones come. */
static int64_t arrive(sim *s)
{
    while (s->n_turns < s->plan.n_turns && s->next_arrival <= s->now) {
        uint32_t burst = rng_between(&s->random, 1, s->plan.burst);
        while (burst-- && s->n_turns < s->plan.n_turns)
            client_arrive(s);
        s->next_arrival += (int64_t)rng_below(&s->random, 2000) * s->plan.gap_ns / 1000 + 1;
    }
    return s->n_turns < s->plan.n_turns ? s->next_arrival : SIM_NEVER;
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_round(sim *s)
{
    const sim_plan *p = &s->plan;
    uint32_t waiting = run_scheduler_waiting(s->scheduler, NULL);
    if (waiting > p->queue_limit + 3 * p->max_sequences)
        sim_broken(s, "%u turns wait; %u may", waiting, p->queue_limit);
    while (s->first_open < s->n_turns && s->turns[s->first_open].ended)
        s->first_open++;
    for (uint32_t i = s->first_open; i < s->n_turns; i++) {
        const sim_turn *t = &s->turns[i];
        bool chained = i > t->group->first && (!t[-1].woke_in || t[-1].woke_in >= s->rounds);
        if (t->cancelled && t->cancelled_in < s->rounds && !t->ended && t->put == PUT_NONE &&
            !chained)
            sim_broken(s, "turn %u was cancelled a round ago and goes on", i);
    }
    if (s->engine->ticket)
        sim_broken(s, "a round ends with a pass open");
}

/* Rounds until all that will come has come, or until it is time to shut down. */
static void play(sim *s)
{
    uint64_t idle = 0;
    for (;;) {
        int64_t next = arrive(s);
        if (s->plan.shutdown_at && s->n_turns >= s->plan.shutdown_at)
            return;
        next = earliest(next, client_cancel_due(s));
        next = earliest(next, disk_work(s, false));
        uint64_t before = s->progress, refused = s->engine->refusals + s->engine->faults;
        s->engine->calls = 0;
        s->rounds++;
        fairness_begin(s);
        bool more = run_scheduler_round(s->scheduler);
        check_round(s);
        fairness_round(s);
        idle = more && s->progress == before && s->engine->refusals + s->engine->faults == refused
                   ? idle + 1
                   : 0;
        if (idle > MAX_IDLE_ROUNDS || s->rounds > MAX_ROUNDS)
            sim_broken(s, "%llu rounds bring nothing", (unsigned long long)idle);
        next = earliest(next, s->disk->n_queued ? s->disk->queue[0].due : SIM_NEVER);
        if (!more && next == SIM_NEVER) {
            run_scheduler_round(s->scheduler); /* tells others what the last one changed */
            return;
        }
        if (!more && next > s->now)
            s->now = next;
    }
}

static void shut_down(sim *s)
{
    run_scheduler *scheduler = s->scheduler;
    bool early = s->plan.shutdown_at > 0;
    trace_add(s, ACT_SHUTDOWN, s->n_turns, s->n_ended, run_scheduler_waiting(scheduler, NULL));
    if (!early && run_scheduler_waiting(scheduler, NULL))
        sim_broken(s, "all is done and %u places are taken",
                   run_scheduler_waiting(scheduler, NULL));
    if (!early && s->n_ended != s->n_turns)
        sim_broken(s, "all is done and %u turns have not ended", s->n_turns - s->n_ended);
    s->scheduler = NULL; /* from here on anything may be cancelled */
    s->engine->calls = 0;
    run_scheduler_close(scheduler);
    disk_work(s, true);
    for (uint32_t i = 0; i < s->n_turns; i++)
        if (!s->turns[i].ended)
            sim_broken(s, "turn %u has no END", i);
    client_cancel_due(s);
    if (s->engine->n_open || s->engine->pool.n_free != s->engine->pool.n_total)
        sim_broken(s, "%u sequences and %u pages are left", s->engine->n_open,
                   s->engine->pool.n_total - s->engine->pool.n_free);
    s->totals.shutdowns += early;
}

static void add_totals(const sim *s, sim_totals *all)
{
    const uint64_t *from = (const uint64_t *)&s->totals;
    uint64_t *to = (uint64_t *)all;
    for (size_t i = 0; i < sizeof *all / sizeof *to; i++)
        to[i] += from[i];
    all->schedules++;
    all->turns += s->n_turns;
    all->refusals += s->engine->refusals;
    all->faults += s->engine->faults;
}

void sim_play(uint64_t seed, sim_trace *trace, sim_totals *totals)
{
    sim *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->seed = seed;
    s->trace = trace;
    trace_begin(trace, seed);
    plan_draw(seed, &s->plan);
    open_world(s);
    play(s);
    shut_down(s);
    add_totals(s, totals);
    close_world(s);
    free(s);
}
