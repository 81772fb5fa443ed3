/*
 * store/kv_rank.c - which chunk goes first.
 *
 * What a chunk is worth is how much it was used of late, times what it costs to compute
 * again, over the bytes that it takes:
 *
 *     heat(now) = sum over its uses of 2^-(age of the use / half-life)
 *     worth     = heat × tokens × (1 + begin / 32768) / bytes
 *
 * (later tokens cost more, since they attend to more). Heat cools for all at one speed, so
 * the order of two chunks changes only when one is used: with logarithms,
 *
 *     rank = log2(worth as of the last use) + time of the last use / half-life
 *
 * is a number that stays right without ever being computed again, and a heap holds the
 * order. A partial tail whose extension is there ranks below everything: nobody asks for it
 * again. It ranks as others do once it is used after all.
 *
 * Who may go at all (may_leave): leaves only, for what stands on a chunk is of no use
 * without it; nobody who is held; and from its last tier nobody who is pinned.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_index.h"

#include <math.h>
#include <stdlib.h>

#define NOWHERE UINT32_MAX
#define FAR_DOWN 1e9   /* below what age and use can make */
#define FARTHER 32768. /* tokens before it that double a chunk's worth */
#define MIN_ROOM 64    /* of a heap */

void kv_rank_weigh(kv_entry *e)
{
    double cost = (e->n_tokens + 1.) * (1. + (double)e->begin / FARTHER);
    double bytes = (double)e->size + 4096.; /* the smallest ones have their price too */
    e->rank = log2(e->heat * cost / bytes) + (double)e->used_ms / KV_HALF_LIFE_MS;
    if (e->superseded)
        e->rank -= FAR_DOWN;
}

static bool may_leave(const kv_entry *e, enum kv_tier tier)
{
    bool is_in = tier == KV_MEMORY ? e->payload != NULL : e->id != 0;
    bool elsewhere = tier == KV_MEMORY ? e->id != 0 : e->payload != NULL;
    if (!is_in || e->gone || e->holds > 0 || e->n_children[tier] > 0)
        return false;
    return elsewhere || (e->pins == 0 && e->first_child == NULL);
}

/* ------------------------------------------------------------------ heaps --- */

static bool before(const kv_entry *a, const kv_entry *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->tick < b->tick;
}

static void set(kv_heap *heap, enum kv_tier tier, uint32_t at, kv_entry *e)
{
    heap->items[at] = e;
    e->place[tier] = at;
}

static void move_up(kv_heap *heap, enum kv_tier tier, uint32_t at)
{
    kv_entry *e = heap->items[at];
    while (at > 0 && before(e, heap->items[(at - 1) / 2])) {
        set(heap, tier, at, heap->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    set(heap, tier, at, e);
}

static void move_down(kv_heap *heap, enum kv_tier tier, uint32_t at)
{
    kv_entry *e = heap->items[at];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= heap->size)
            break;
        if (child + 1 < heap->size && before(heap->items[child + 1], heap->items[child]))
            child++;
        if (!before(heap->items[child], e))
            break;
        set(heap, tier, at, heap->items[child]);
        at = child;
    }
    set(heap, tier, at, e);
}

/* Without memory for the place it merely cannot be evicted until it is settled again. */
static void join(kv_entry *e, enum kv_tier tier)
{
    kv_heap *heap = &e->tenant->heaps[tier];
    if (heap->size == heap->room) {
        uint32_t room = heap->room ? 2 * heap->room : MIN_ROOM;
        kv_entry **items = realloc(heap->items, room * sizeof *items);
        if (!items)
            return;
        heap->items = items;
        heap->room = room;
    }
    set(heap, tier, heap->size++, e);
    move_up(heap, tier, e->place[tier]);
}

static void leave(kv_entry *e, enum kv_tier tier)
{
    kv_heap *heap = &e->tenant->heaps[tier];
    uint32_t at = e->place[tier];
    e->place[tier] = NOWHERE;
    kv_entry *last = heap->items[--heap->size];
    if (last == e)
        return;
    set(heap, tier, at, last);
    move_up(heap, tier, at);
    move_down(heap, tier, last->place[tier]);
}

/* ----------------------------------------------------------------- public --- */

void kv_rank_settle(kv_entry *e)
{
    for (enum kv_tier tier = 0; tier < KV_TIERS; tier++) {
        bool is_in = e->place[tier] != NOWHERE, may = may_leave(e, tier);
        if (is_in && !may) {
            leave(e, tier);
        } else if (!is_in && may) {
            join(e, tier);
        } else if (is_in) {
            move_up(&e->tenant->heaps[tier], tier, e->place[tier]);
            move_down(&e->tenant->heaps[tier], tier, e->place[tier]);
        }
    }
}

void kv_rank_leave(kv_entry *e)
{
    for (enum kv_tier tier = 0; tier < KV_TIERS; tier++) {
        if (e->place[tier] != NOWHERE)
            leave(e, tier);
    }
}

kv_entry *kv_index_victim(const kv_index *index, enum kv_tier tier, const kv_tenant *tenant)
{
    kv_entry *first = NULL;
    if (tenant)
        return tenant->heaps[tier].size ? tenant->heaps[tier].items[0] : NULL;
    for (uint32_t i = 0; i < index->n_tenants; i++) {
        const kv_heap *heap = &index->tenants[i]->heaps[tier];
        if (heap->size && (!first || before(heap->items[0], first)))
            first = heap->items[0];
    }
    return first;
}
