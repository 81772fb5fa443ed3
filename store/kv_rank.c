/*
 * store/kv_rank.c - which chunk goes first.
 *
 * The rank of a chunk is a time: of its last use, and later than that for those that are
 * worth more than their last use says.
 *
 *     rank = last use + stay × (min(1, log2(heat)) + log2(1 + begin / 32768) / 4)
 *
 *     heat   its uses, each halved every six hours: 1 for one that was only written, 2 once
 *            it was used again, as what comes back tends to come back
 *     begin  later tokens cost more to compute again, since they attend to more
 *     stay   how long a chunk of the tier goes unused before it is evicted, of late
 *
 * So a chunk that was used twice stays up to twice as long. That it is a share of `stay`
 * fits it to every size of cache, and that it is no more keeps conversations that ended from
 * outliving those that go on: over a day of them (tests/bench/kv_bench.c), counting uses
 * without a limit loses a third of all hits to plain LRU, this wins over both, most where half
 * of the traffic never comes back. A rank stays right until the chunk is used again, so a
 * heap holds the order.
 *
 * A partial tail whose extension is there ranks below everything: nobody asks for it again.
 * It ranks as others do once it is used after all.
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
#define FAR_DOWN 1e15  /* ms: below what any clock says                */
#define FARTHER 32768. /* tokens before it that double a chunk's cost  */
#define SMOOTHING 0.02 /* of `stay`: some fifty evictions              */
#define MIN_ROOM 64    /* of a heap                                    */

void kv_rank_weigh(const kv_index *index, kv_entry *e)
{
    double bonus = e->heat > 1 ? log2(e->heat) : 0;
    bonus = (bonus < 1 ? bonus : 1) + log2(1. + (double)e->begin / FARTHER) / 4;
    for (int tier = 0; tier < KV_TIERS; tier++) {
        e->rank[tier] = (double)e->used_ms + bonus * index->stay_ms[tier];
        if (e->superseded)
            e->rank[tier] -= FAR_DOWN;
    }
}

void kv_rank_evicted(kv_index *index, const kv_entry *e, enum kv_tier tier, int64_t now_ms)
{
    double age = (double)(now_ms - e->used_ms), *stay = &index->stay_ms[tier];
    if (e->superseded || age < 0)
        return;
    *stay += (*stay > 0 ? SMOOTHING : 1) * (age - *stay);
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

static bool before(enum kv_tier tier, const kv_entry *a, const kv_entry *b)
{
    return a->rank[tier] != b->rank[tier] ? a->rank[tier] < b->rank[tier] : a->tick < b->tick;
}

static void set(kv_heap *heap, enum kv_tier tier, uint32_t at, kv_entry *e)
{
    heap->items[at] = e;
    e->place[tier] = at;
}

static void move_up(kv_heap *heap, enum kv_tier tier, uint32_t at)
{
    kv_entry *e = heap->items[at];
    while (at > 0 && before(tier, e, heap->items[(at - 1) / 2])) {
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
        if (child + 1 < heap->size && before(tier, heap->items[child + 1], heap->items[child]))
            child++;
        if (!before(tier, heap->items[child], e))
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
        if (heap->size && (!first || before(tier, heap->items[0], first)))
            first = heap->items[0];
    }
    return first;
}
