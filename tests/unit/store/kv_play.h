/*
 * kv_play.h - plays a trace (kv_trace.h) on a kv, with the trace's clock.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KV_PLAY_H
#define KV_PLAY_H

#include "kv_help.h"
#include "kv_trace.h"

#define PLAY_TOKENS 256 /* of a chunk */

/* A clock that the trace sets. */
typedef struct play_clock {
    base_clock clock;
    _Atomic int64_t now_ms; /* the writer reads it too */
} play_clock;

static inline int64_t play_wall_ms(void *context)
{
    return ((play_clock *)context)->now_ms;
}

static inline void play_clock_init(play_clock *p)
{
    p->clock = *clock_system();
    p->clock.context = p;
    p->clock.wall_ms = play_wall_ms;
}

/* Tails of one life and their extensions begin with the same tokens. */
static inline void play_tokens(const trace_item *item, uint32_t place, int32_t *tokens, uint64_t *n)
{
    for (int t = 0; t < PLAY_TOKENS; t++)
        tokens[t] = (int32_t)((item->c * 64 + place) * PLAY_TOKENS + (uint32_t)t);
    *n = item->tail ? 40 + item->i % 100 : PLAY_TOKENS;
}

static inline pawl_status play_put(kv *k, const trace_visit *v, uint32_t at, uint64_t size)
{
    int32_t tokens[PLAY_TOKENS];
    const trace_item *item = &v->items[at];
    uint32_t place = item->parent + 1;
    kv_chunk chunk = {.key = kv_help_key(item->c, item->i),
                      .tenant = "",
                      .begin = (uint64_t)item->i * PLAY_TOKENS,
                      .tokens = tokens,
                      .part = PAWL_STATE_CHUNK,
                      .payload = malloc(size),
                      .size = size};
    if (item->parent != UINT32_MAX) {
        const trace_item *parent = &v->items[item->parent];
        chunk.parent = kv_help_key(parent->c, parent->i);
        place = parent->i + 1;
    }
    chunk.begin = (uint64_t)place * PLAY_TOKENS;
    play_tokens(item, place, tokens, &chunk.n_tokens);
    memset(chunk.payload, (int)item->i, size);
    return kv_put(k, &chunk);
}

/* One visit. Returns how many of the wanted were there, without a gap. */
static inline uint32_t play_visit(kv *k, const trace_visit *v, uint64_t size)
{
    kv_key chain[TRACE_MAX_ITEMS] = {{{0}}};
    int32_t tokens[PLAY_TOKENS];
    uint64_t n_tokens, tail = v->n_wanted > 0 && v->items[v->n_wanted - 1].tail;
    for (uint32_t i = 0; i < v->n_wanted; i++)
        chain[i] = kv_help_key(v->items[i].c, v->items[i].i);
    uint64_t n = kv_find(k, chain, v->n_wanted - tail);
    if (tail && n == v->n_wanted - 1) { /* as run does: the tail is looked for last, and read */
        kv_reader *reader;
        pawl_source source;
        const trace_item *item = &v->items[n];
        play_tokens(item, v->items[item->parent].i + 1, tokens, &n_tokens);
        if (kv_read(k, &chain[n], tokens, n_tokens, &reader, &source) == PAWL_OK) {
            kv_read_end(reader, true);
            n++;
        }
    }
    kv_pin(k, chain, n);
    for (uint32_t i = (uint32_t)n; i < v->n_items; i++)
        play_put(k, v, i, size);
    kv_unpin(k, chain, n);
    return (uint32_t)n;
}

#endif /* KV_PLAY_H */
