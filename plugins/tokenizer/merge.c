/*
 * tokenizer/merge.c - the pair table and the two ways of merging.
 *
 * Short pieces: parallel arrays, scanned for the lowest rank; quadratic, but on a
 * few cache lines. Long pieces: a linked list of symbols and a heap of (rank,
 * place), n log n, so that a run of a hundred thousand letters is no trap. An entry
 * of the heap is stale when the pair at its place has another rank by now.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tokenizer/merge.h"

#include <stdlib.h>
#include <string.h>

pawl_status merges_init(struct merges *merges, uint64_t n, struct hash_seed seed, pawl_error *error)
{
    uint64_t slots = 16;
    while (slots < n * 2)
        slots *= 2;
    merges->slots = malloc((size_t)slots * sizeof *merges->slots);
    if (!merges->slots)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %llu merges", (unsigned long long)n);
    for (uint64_t i = 0; i < slots; i++)
        merges->slots[i] = (struct merge_pair){UINT64_MAX, MERGE_NONE, 0};
    for (int i = 0; i < 256; i++)
        merges->byte_ids[i] = -1;
    merges->mask = slots - 1;
    merges->room = n;
    merges->seed = seed;
    merges->seed.b |= 1; /* a factor of 0 would make all hashes 0 */
    return PAWL_OK;
}

void merges_clear(struct merges *merges)
{
    free(merges->slots);
    merges->slots = NULL;
}

void merges_put(struct merges *merges, uint32_t left, uint32_t right, uint32_t rank, uint32_t into)
{
    uint64_t key = (uint64_t)left << 32 | right;
    uint64_t at = hash_mix(key ^ merges->seed.a, merges->seed.b) & merges->mask;
    while (merges->slots[at].key != key && merges->slots[at].rank != MERGE_NONE)
        at = (at + 1) & merges->mask;
    merges->slots[at] = (struct merge_pair){key, rank, into};
}

/* -------------------------------------------------------- short pieces ---- */

struct symbols {
    uint32_t token[MERGE_SHORT];
    uint32_t rank[MERGE_SHORT]; /* of the pair that begins here             */
    uint32_t into[MERGE_SHORT]; /* what that pair becomes                   */
    size_t n;
};

static void rate(const struct merges *merges, struct symbols *s, size_t at)
{
    s->rank[at] = MERGE_NONE;
    if (at + 1 < s->n) {
        struct merge_pair pair = merges_find(merges, s->token[at], s->token[at + 1]);
        s->rank[at] = pair.rank;
        s->into[at] = pair.into;
    }
}

static void drop(uint32_t *array, size_t at, size_t n)
{
    memmove(array + at, array + at + 1, (n - at - 1) * sizeof *array);
}

size_t merge_short(const struct merges *merges, const uint8_t *piece, size_t size,
                   uint32_t tokens[MERGE_SHORT])
{
    struct symbols s = {.n = 0};
    for (size_t i = 0; i < size; i++)
        if (merges->byte_ids[piece[i]] >= 0)
            s.token[s.n++] = (uint32_t)merges->byte_ids[piece[i]];
    for (size_t i = 0; i < s.n; i++)
        rate(merges, &s, i);
    while (s.n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < s.n; i++)
            if (s.rank[i] < s.rank[best])
                best = i;
        if (s.rank[best] == MERGE_NONE)
            break;
        s.token[best] = s.into[best];
        drop(s.token, best + 1, s.n);
        drop(s.rank, best + 1, s.n);
        drop(s.into, best + 1, s.n);
        s.n--;
        rate(merges, &s, best);
        if (best > 0)
            rate(merges, &s, best - 1);
    }
    memcpy(tokens, s.token, s.n * sizeof *tokens);
    return s.n;
}

/* --------------------------------------------------------- long pieces ---- */

/* Symbols as a linked list over places 0..n-1. */
struct list {
    uint32_t *token;
    uint32_t *rank; /* of the pair that begins here; MERGE_NONE: none       */
    uint32_t *next; /* n: the end                                           */
    uint32_t *prev; /* MERGE_NONE: the start                                */
    uint64_t *heap; /* rank << 32 | place; smallest first                   */
    size_t n_heap;
    uint32_t n;
};

static void sift_down(uint64_t *heap, size_t n, size_t at)
{
    uint64_t moving = heap[at];
    for (;;) {
        size_t child = at * 4 + 1, end = child + 4 < n ? child + 4 : n, least = child;
        if (child >= n)
            break;
        for (size_t i = child + 1; i < end; i++)
            if (heap[i] < heap[least])
                least = i;
        if (heap[least] >= moving)
            break;
        heap[at] = heap[least];
        at = least;
    }
    heap[at] = moving;
}

static void push(struct list *list, uint64_t entry)
{
    size_t at = list->n_heap++;
    while (at > 0 && list->heap[(at - 1) / 4] > entry) {
        list->heap[at] = list->heap[(at - 1) / 4];
        at = (at - 1) / 4;
    }
    list->heap[at] = entry;
}

static uint64_t pop(struct list *list)
{
    uint64_t top = list->heap[0];
    list->heap[0] = list->heap[--list->n_heap];
    if (list->n_heap)
        sift_down(list->heap, list->n_heap, 0);
    return top;
}

/* Looks up the pair that begins at a place; true if there is one. */
static bool rate_place(const struct merges *merges, struct list *list, uint32_t at)
{
    list->rank[at] = MERGE_NONE;
    if (list->next[at] < list->n)
        list->rank[at] = merges_find(merges, list->token[at], list->token[list->next[at]]).rank;
    return list->rank[at] != MERGE_NONE;
}

static void merge_place(const struct merges *merges, struct list *list, uint32_t at)
{
    uint32_t gone = list->next[at], before = list->prev[at];
    list->token[at] = merges_find(merges, list->token[at], list->token[gone]).into;
    list->next[at] = list->next[gone];
    if (list->next[at] < list->n)
        list->prev[list->next[at]] = at;
    list->rank[gone] = MERGE_NONE;
    if (rate_place(merges, list, at))
        push(list, (uint64_t)list->rank[at] << 32 | at);
    if (before != MERGE_NONE && rate_place(merges, list, before))
        push(list, (uint64_t)list->rank[before] << 32 | before);
}

/* A merge takes one entry and adds at most two, and there are fewer than n. */
static pawl_status reserve(struct merge_scratch *scratch, size_t n, pawl_error *error)
{
    if (n <= scratch->room)
        return PAWL_OK;
    merge_scratch_clear(scratch);
    scratch->memory = malloc(n * 4 * sizeof *scratch->memory);
    scratch->heap = malloc(n * 2 * sizeof *scratch->heap);
    if (!scratch->memory || !scratch->heap) {
        merge_scratch_clear(scratch);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to merge a word of %zu bytes", n);
    }
    scratch->room = n;
    return PAWL_OK;
}

void merge_scratch_clear(struct merge_scratch *scratch)
{
    free(scratch->memory);
    free(scratch->heap);
    *scratch = (struct merge_scratch){NULL, NULL, 0};
}

static void fill(const struct merges *merges, const uint8_t *piece, size_t size, struct list *list)
{
    for (size_t i = 0; i < size; i++)
        if (merges->byte_ids[piece[i]] >= 0)
            list->token[list->n++] = (uint32_t)merges->byte_ids[piece[i]];
    for (uint32_t i = 0; i < list->n; i++) {
        list->next[i] = i + 1;
        list->prev[i] = i == 0 ? MERGE_NONE : i - 1;
        if (rate_place(merges, list, i))
            list->heap[list->n_heap++] = (uint64_t)list->rank[i] << 32 | i;
    }
    for (size_t i = list->n_heap / 4 + 1; i-- > 0;)
        if (i < list->n_heap)
            sift_down(list->heap, list->n_heap, i);
}

pawl_status merge_long(const struct merges *merges, const uint8_t *piece, size_t size,
                       struct merge_scratch *scratch, const uint32_t **tokens, size_t *n,
                       pawl_error *error)
{
    pawl_status status = reserve(scratch, size, error);
    if (status != PAWL_OK)
        return status;
    uint32_t *memory = scratch->memory;
    struct list list = {
        memory, memory + size, memory + size * 2, memory + size * 3, scratch->heap, 0, 0};
    fill(merges, piece, size, &list);
    while (list.n_heap > 0) {
        uint64_t entry = pop(&list);
        uint32_t at = (uint32_t)entry;
        if (list.rank[at] == entry >> 32)
            merge_place(merges, &list, at);
    }
    size_t count = 0;
    for (uint32_t at = 0; at < list.n; at = list.next[at])
        list.token[count++] = list.token[at]; /* count never overtakes at */
    *tokens = list.token;
    *n = count;
    return PAWL_OK;
}
