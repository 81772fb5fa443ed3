/*
 * unit/run/driven.h - a scheduler that a test drives round by round, under its own clock.
 *
 * A pass takes PASS_NS of the clock, and token_ns for each token of a prompt. Events are noted in
 * the order in which they come, so that two runs can be compared and one can ask who was first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef UNIT_RUN_DRIVEN_H
#define UNIT_RUN_DRIVEN_H

#include "fake_model.h"
#include "run/scheduler.h"

#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#define DRIVEN_TURNS 400
#define PASS_NS 10000000

struct driven;

typedef struct driven_turn {
    struct driven *driven;
    run_turn *turn;
    int began, ended; /* when IN_PROGRESS and END came, as numbers of events; 0: not yet */
    char status[16];
    run_usage usage;
    int32_t tokens[4096];
    uint64_t n_tokens;
} driven_turn;

typedef struct driven {
    int64_t ns;
    int64_t token_ns;
    uint64_t seed;
    base_clock clock;
    pawl_engine engine;
    run_model model;
    metrics *metrics;
    run_scheduler *scheduler;
    uint64_t cut; /* of all prompts that are longer; 0: none */
    int n_events;
    uint64_t log; /* a hash of all events, in order */
    int n_turns;
    driven_turn turns[DRIVEN_TURNS];
} driven;

static int64_t driven_now(void *context)
{
    return ((driven *)context)->ns;
}

static int64_t driven_wall(void *context)
{
    return ((driven *)context)->ns / 1000000;
}

static void driven_random(void *context, void *bytes, size_t size)
{
    driven *d = context;
    unsigned char *out = bytes;
    for (size_t i = 0; i < size; i++)
        out[i] =
            (unsigned char)((d->seed = d->seed * 6364136223846793005u + 1442695040888963407u) >>
                            56);
}

static void driven_pass(void *arg, const pawl_slot *slots, uint64_t n)
{
    driven *d = arg;
    d->ns += PASS_NS;
    for (uint64_t i = 0; i < n; i++)
        d->ns += (int64_t)(slots[i].n_tokens - 1) * d->token_ns;
}

static void driven_event(void *arg, run_event *event)
{
    driven_turn *t = arg;
    driven *d = t->driven;
    d->n_events++;
    d->log = (d->log ^ (uint64_t)(t - d->turns) ^ ((uint64_t)event->type << 32)) * 1099511628211u;
    if (event->type == RUN_IN_PROGRESS) {
        assert_int_equal(t->began, 0);
        t->began = d->n_events;
    }
    if (event->type == RUN_END) {
        assert_int_equal(t->ended, 0);
        t->ended = d->n_events;
        snprintf(t->status, sizeof t->status, "%s", event->record->status);
        t->usage = event->usage;
        t->n_tokens = event->record->n_tokens;
        memcpy(t->tokens, event->record->tokens, t->n_tokens * sizeof(int32_t));
    }
    run_event_free(event);
}

/* saved: where its state goes, in chunks of so many tokens; or NULL. */
static driven *driven_open_saving(uint64_t pages, uint32_t max_sequences, int reply_length,
                                  struct kv *saved, uint32_t chunk, bool boundary)
{
    driven *d = calloc(1, sizeof *d);
    d->ns = 1000000000;
    d->clock = (base_clock){d, driven_now, driven_wall, driven_random};
    d->engine = (pawl_engine){.max_sequences = (int)max_sequences * RUN_IDLE_FACTOR,
                              .pages = pages,
                              .reply_length = reply_length,
                              .on_pass = driven_pass,
                              .arg = d};
    d->model = saved ? fake_saving_model(&d->engine, chunk, boundary) : fake_model(&d->engine);
    d->model.max_sequences = max_sequences;
    d->metrics = metrics_open();
    run_measures_open(d->metrics, "fake", d->model.measures);
    run_scheduler_config config = {.queue = DRIVEN_TURNS,
                                   .per_key = DRIVEN_TURNS,
                                   .kv = saved,
                                   .kv_min_tokens = 1,
                                   .clock = &d->clock,
                                   .driven = true};
    assert_int_equal(run_scheduler_open(&d->model, &config, &d->scheduler, NULL), PAWL_OK);
    return d;
}

static inline driven *driven_open(uint64_t pages, uint32_t max_sequences, int reply_length)
{
    return driven_open_saving(pages, max_sequences, reply_length, NULL, 0, false);
}

/* All turns must have ended, once and with the tokens that they would have had alone. */
static void driven_check(const driven *d)
{
    for (int i = 0; i < d->n_turns; i++) {
        const driven_turn *t = &d->turns[i];
        assert_true(t->ended);
        for (uint64_t k = (uint64_t)t->tokens[0]; k < t->n_tokens; k++) {
            bool end = fake_ends(&d->engine, t->tokens, k);
            assert_int_equal(t->tokens[k], end ? FAKE_END : fake_next(t->tokens, k));
        }
    }
}

static void driven_close(driven *d)
{
    run_scheduler_close(d->scheduler);
    driven_check(d);
    for (int i = 0; i < d->n_turns; i++)
        run_turn_release(d->turns[i].turn);
    assert_int_equal(d->engine.open_sequences, 0);
    assert_int_equal(d->engine.free_pages, d->engine.pages);
    metrics_close(d->metrics);
    free(d);
}

/* A turn of a key that is still to be submitted, in a place, with these tokens; the first of
 * them says how many are the prompt, for fake_ends(). */
static driven_turn *driven_make_with(driven *d, const char *key, enum run_priority priority,
                                     const int32_t *tokens, uint64_t n, uint64_t max_tokens)
{
    driven_turn *t = &d->turns[d->n_turns];
    run_request *request = run_request_new(&d->clock);
    run_prompt prompt = {.n_tokens = n, .stop_tokens = {FAKE_END}, .n_stop_tokens = 1};
    prompt.tokens = malloc((n + 1) * sizeof *prompt.tokens);
    memcpy(prompt.tokens, tokens, n * sizeof *tokens);
    prompt.cuts[0] = d->cut;
    prompt.n_cuts = d->cut && d->cut < n;
    snprintf(request->caller.key, sizeof request->caller.key, "%s", key);
    request->model = &d->model;
    request->priority = priority;
    request->max_tokens = max_tokens;
    assert_true(d->n_turns < DRIVEN_TURNS);
    d->n_turns++;
    t->driven = d;
    run_caller caller = request->caller;
    assert_int_equal(run_turn_new(request, &prompt, (run_listener){driven_event, t}, &d->clock,
                                  NULL, &t->turn, NULL),
                     PAWL_OK);
    atomic_fetch_add(&t->turn->references, 1);
    assert_int_equal(run_scheduler_claim(d->scheduler, &caller, 1), RUN_PLACED);
    return t;
}

/* The same; its prompt is like no other's, or as another's that has the same length. */
static inline driven_turn *driven_make(driven *d, const char *key, enum run_priority priority,
                                       uint64_t n_prompt, uint64_t max_tokens,
                                       const driven_turn *like)
{
    int32_t tokens[4096];
    tokens[0] = (int32_t)n_prompt;
    for (uint64_t i = 1; i < n_prompt; i++)
        tokens[i] = (int32_t)((i * 31 + (uint64_t)d->n_turns * 7 + i / 200) % 256);
    if (n_prompt > 2)
        tokens[1] = d->n_turns % 256;
    if (like)
        memcpy(tokens, like->turn->tokens, n_prompt * sizeof *tokens);
    return driven_make_with(d, key, priority, tokens, n_prompt, max_tokens);
}

static inline driven_turn *driven_start_with(driven *d, const char *key, enum run_priority priority,
                                             const int32_t *tokens, uint64_t n, uint64_t max_tokens)
{
    driven_turn *t = driven_make_with(d, key, priority, tokens, n, max_tokens);
    assert_true(run_scheduler_submit(d->scheduler, t->turn));
    return t;
}

static inline driven_turn *driven_start(driven *d, const char *key, enum run_priority priority,
                                        uint64_t n_prompt, uint64_t max_tokens)
{
    driven_turn *t = driven_make(d, key, priority, n_prompt, max_tokens, NULL);
    assert_true(run_scheduler_submit(d->scheduler, t->turn));
    return t;
}

static void driven_rounds(driven *d, int n)
{
    while (n-- > 0)
        run_scheduler_round(d->scheduler);
}

static void driven_finish(driven *d)
{
    int n = 0;
    while (run_scheduler_round(d->scheduler))
        assert_true(++n < 200000);
}

static double driven_measure(const driven *d, enum run_measure which)
{
    return metric_value(d->model.measures[which]);
}

#endif /* UNIT_RUN_DRIVEN_H */
