/*
 * kv_trace.h - a day of conversations, for tests and figures of the prefix cache.
 *
 * 500 conversations stand on one of 10 system prompts of 2 chunks. At each visit, some 40
 * seconds after the last, one is chosen (Zipf, exponent 1): it wants its whole prefix and
 * the partial tail of its last turn, then grows by up to two chunks and leaves a new tail. A
 * conversation that is long enough starts anew, as people do.
 *
 * With `floods`, every second visit is somebody's who never comes back: four chunks.
 *
 *     prompt 0 ─ prompt 1 ─┬─ chunk 2 ─ chunk 3 ─┬─ tail of the last turn
 *                          └─ another's           └─ chunk 4 (its extension)
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KV_TRACE_H
#define KV_TRACE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRACE_CONVERSATIONS = 500,
    TRACE_PROMPTS = 10,
    TRACE_PROMPT_LENGTH = 2,
    TRACE_LENGTH = 24, /* chunks, at which a conversation starts anew */
    TRACE_MAX_ITEMS = TRACE_LENGTH + 3
};

/* One chunk or tail. Its id says which: the same id is the same state. */
typedef struct trace_item {
    uint32_t c, i;   /* for kv_help: conversation and place; a tail has a place of its own */
    uint32_t parent; /* place in the visit of the one before it; UINT32_MAX: a root       */
    bool tail;
} trace_item;

typedef struct trace_visit {
    trace_item items[TRACE_MAX_ITEMS];
    uint32_t n_wanted; /* the first ones: what this visit would like to find */
    uint32_t n_items;  /* then what it adds                                  */
    int64_t at_ms;
} trace_visit;

typedef struct trace {
    unsigned seed;
    int64_t now_ms;
    bool floods;
    uint32_t n_visits;
    double sums[TRACE_CONVERSATIONS]; /* of the Zipf weights         */
    struct {
        uint32_t life;   /* how often it has started anew */
        uint32_t length; /* chunks, with the prompt's     */
        uint32_t turns;  /* in this life                  */
    } state[TRACE_CONVERSATIONS];
} trace;

static inline void trace_begin(trace *t, unsigned seed, bool floods)
{
    double sum = 0;
    memset(t, 0, sizeof *t);
    t->seed = seed;
    t->floods = floods;
    t->now_ms = 1700000000000;
    for (int i = 0; i < TRACE_CONVERSATIONS; i++)
        t->sums[i] = sum += 1. / (i + 1);
}

static inline uint32_t trace_choose(trace *t)
{
    double x = t->sums[TRACE_CONVERSATIONS - 1] * (rand_r(&t->seed) % 1000003) / 1000003.;
    uint32_t c = 0;
    while (c < TRACE_CONVERSATIONS - 1 && t->sums[c] < x)
        c++;
    return c;
}

/* The i-th chunk of conversation c, which is its prompt's where i is small. */
static inline trace_item trace_chunk(const trace *t, uint32_t c, uint32_t i)
{
    uint32_t own = TRACE_PROMPTS + t->state[c].life * TRACE_CONVERSATIONS + c;
    return (trace_item){
        .c = i < TRACE_PROMPT_LENGTH ? c % TRACE_PROMPTS : own, .i = i, .parent = i - 1};
}

static inline trace_item trace_tail(const trace *t, uint32_t c, uint32_t length, uint32_t turn)
{
    return (trace_item){.c = TRACE_PROMPTS + t->state[c].life * TRACE_CONVERSATIONS + c,
                        .i = 1000 + turn,
                        .parent = length - 1,
                        .tail = true};
}

static inline void trace_next(trace *t, trace_visit *v)
{
    memset(v, 0, sizeof *v);
    if (t->n_visits++ % 2 && t->floods) {
        v->at_ms = t->now_ms;
        for (; v->n_items < 4; v->n_items++)
            v->items[v->n_items] = (trace_item){
                .c = (1u << 24) + t->n_visits, .i = v->n_items, .parent = v->n_items - 1};
        return;
    }
    uint32_t c = trace_choose(t);
    t->now_ms += 10000 + rand_r(&t->seed) % 60000;
    v->at_ms = t->now_ms;
    if (t->state[c].length >= TRACE_LENGTH) {
        t->state[c].life++;
        t->state[c].length = t->state[c].turns = 0;
    }
    bool first = t->state[c].turns == 0;
    uint32_t length = first ? TRACE_PROMPT_LENGTH : t->state[c].length;
    for (uint32_t i = 0; i < length; i++)
        v->items[v->n_items++] = trace_chunk(t, c, i);
    if (!first)
        v->items[v->n_items++] = trace_tail(t, c, length, t->state[c].turns);
    v->n_wanted = v->n_items;
    uint32_t grown = length + (uint32_t)rand_r(&t->seed) % 3;
    for (uint32_t i = length; i < grown; i++) {
        trace_item chunk = trace_chunk(t, c, i);
        chunk.parent = i == length ? length - 1 : v->n_items - 1;
        v->items[v->n_items++] = chunk;
    }
    t->state[c].length = grown;
    t->state[c].turns++;
    trace_item tail = trace_tail(t, c, grown, t->state[c].turns);
    tail.parent = grown == length ? length - 1 : v->n_items - 1;
    v->items[v->n_items++] = tail;
}

#endif /* KV_TRACE_H */
