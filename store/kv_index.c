/*
 * store/kv_index.c - what is known of every chunk, in memory. See kv_index.h.
 *
 * Memory: about 250 bytes a chunk and 4 bytes a token, for at most KV_MAX_CHUNKS; beside the
 * attention state that is nothing (tens of kilobytes a token). Token ids stay here so that
 * a look-up compares them without the disk, and so that a partial tail is recognised when
 * its extension comes:
 *
 *     parent ─┬─ tail       [begin, begin + 100)    superseded: the sibling begins
 *             └─ extension  [begin, begin + 256)    with the same 100 tokens
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define FIRST_BUCKETS 4096 /* doubled whenever there are more entries */
#define MAX_SIBLINGS 1024  /* that are compared: newest first, and a tail is new     */

/* --------------------------------------------------------- map and tenants --- */

static bool is_zero(const kv_key *key)
{
    static const kv_key zero;
    return memcmp(key, &zero, sizeof zero) == 0;
}

static uint32_t hash_of(const kv_index *index, const kv_key *key)
{
    uint64_t words[4];
    memcpy(words, key, sizeof words);
    uint64_t x = (words[0] ^ index->salt[0]) * (words[1] | 1);
    x ^= (words[2] ^ index->salt[1]) * (words[3] | 1);
    x = (x ^ x >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(x >> 32);
}

static kv_entry **bucket_of(const kv_index *index, const kv_key *key)
{
    return &index->buckets[hash_of(index, key) & (index->n_buckets - 1)];
}

/* Without memory for more the chains become longer. */
static void grow(kv_index *index)
{
    uint32_t n = 2 * index->n_buckets;
    kv_entry **buckets = calloc(n, sizeof(kv_entry *));
    if (!buckets)
        return;
    for (uint32_t b = 0; b < index->n_buckets; b++) {
        for (kv_entry *e = index->buckets[b], *next; e; e = next) {
            kv_entry **bucket = &buckets[hash_of(index, &e->key) & (n - 1)];
            next = e->in_bucket;
            e->in_bucket = *bucket;
            *bucket = e;
        }
    }
    free(index->buckets);
    index->buckets = buckets;
    index->n_buckets = n;
}

kv_entry *kv_index_find(const kv_index *index, const kv_key *key)
{
    kv_entry *e = *bucket_of(index, key);
    while (e && memcmp(&e->key, key, sizeof *key) != 0)
        e = e->in_bucket;
    return e;
}

static kv_tenant *tenant_of(kv_index *index, const char *name)
{
    for (uint32_t i = 0; i < index->n_tenants; i++) {
        if (strcmp(index->tenants[i]->name, name) == 0)
            return index->tenants[i];
    }
    if (index->n_tenants == KV_MAX_TENANTS)
        return NULL;
    kv_tenant *tenant = calloc(1, sizeof *tenant);
    if (!tenant)
        return NULL;
    strcpy(tenant->name, name);
    index->tenants[index->n_tenants++] = tenant;
    return tenant;
}

static void free_tenant(kv_tenant *tenant)
{
    for (int tier = 0; tier < KV_TIERS; tier++)
        free(tenant->heaps[tier].items);
    free(tenant);
}

static void drop_tenant(kv_index *index, kv_tenant *tenant)
{
    uint32_t i = 0;
    if (tenant->n_entries > 0)
        return;
    while (index->tenants[i] != tenant)
        i++;
    index->tenants[i] = index->tenants[--index->n_tenants];
    free_tenant(tenant);
}

pawl_status kv_index_open(kv_index *index, pawl_error *error)
{
    const base_clock *clock = clock_system();
    memset(index, 0, sizeof *index);
    clock->random(clock->context, index->salt, sizeof index->salt);
    index->n_buckets = FIRST_BUCKETS;
    index->buckets = calloc(FIRST_BUCKETS, sizeof *index->buckets);
    if (!index->buckets)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for an index of prefix chunks");
    return PAWL_OK;
}

static void throw_away(kv_index *index, void *payload)
{
    if (index->trash.n < sizeof index->trash.items / sizeof index->trash.items[0])
        index->trash.items[index->trash.n++] = payload;
    else
        free(payload);
}

static void free_entry(kv_entry *e)
{
    free(e->tokens);
    free(e->payload);
    free(e);
}

void kv_index_close(kv_index *index)
{
    for (uint32_t b = 0; index->buckets && index->n_entries > 0 && b < index->n_buckets; b++) {
        for (kv_entry *e = index->buckets[b], *next; e; e = next) {
            next = e->in_bucket;
            free_entry(e);
            index->n_entries--;
        }
    }
    for (uint32_t i = 0; i < index->n_tenants; i++)
        free_tenant(index->tenants[i]);
    for (size_t i = 0; i < index->trash.n; i++)
        free(index->trash.items[i]);
    free(index->buckets);
    index->buckets = NULL;
}

/* ------------------------------------------------------------------- tree --- */

/* True if a is a proper beginning of b. */
static bool begins(const kv_entry *a, const kv_entry *b)
{
    return a->part == b->part && a->begin == b->begin && a->n_tokens < b->n_tokens &&
           memcmp(a->tokens, b->tokens, a->n_tokens * sizeof a->tokens[0]) == 0;
}

static void supersede(const kv_index *index, kv_entry *e)
{
    e->superseded = true;
    kv_rank_weigh(index, e);
    kv_rank_settle(e);
}

/* Of e and its siblings, who is an old tail of whom? One that was used twice is where
 * conversations part (the end of a system prompt), and no session's tail. */
static void compare_siblings(const kv_index *index, kv_entry *e)
{
    int n = 0;
    for (kv_entry *s = e->older; s && n < MAX_SIBLINGS; s = s->older, n++) {
        if (s->hits <= 1 && begins(s, e))
            supersede(index, s);
        else if (begins(e, s))
            supersede(index, e);
    }
}

static kv_entry **siblings_of(kv_entry *e)
{
    return e->parent ? &e->parent->first_child : &e->tenant->first_root;
}

static void link_to_parent(const kv_index *index, kv_entry *e, kv_entry *parent)
{
    e->parent = parent;
    kv_entry **list = siblings_of(e);
    e->older = *list;
    if (e->older)
        e->older->newer = e;
    *list = e;
    if (parent)
        kv_rank_settle(parent);
    compare_siblings(index, e);
}

static void unlink_from_parent(kv_entry *e)
{
    if (e->newer)
        e->newer->older = e->older;
    else
        *siblings_of(e) = e->older;
    if (e->older)
        e->older->newer = e->newer;
    if (e->parent)
        kv_rank_settle(e->parent);
    e->parent = e->older = e->newer = NULL;
}

static void count_in_parent(kv_entry *e, enum kv_tier tier, int by)
{
    if (!e->parent)
        return;
    e->parent->n_children[tier] += (uint32_t)by;
    kv_rank_settle(e->parent);
}

/* ------------------------------------------------------------------ tiers --- */

void kv_index_set_memory(kv_index *index, kv_entry *e, void *payload)
{
    e->payload = payload;
    e->disk_reads = 0;
    index->bytes[KV_MEMORY] += e->size;
    index->n_chunks[KV_MEMORY]++;
    e->tenant->bytes[KV_MEMORY] += e->size;
    count_in_parent(e, KV_MEMORY, 1);
    kv_rank_settle(e);
}

void kv_index_clear_memory(kv_index *index, kv_entry *e)
{
    if (!e->payload)
        return;
    throw_away(index, e->payload);
    e->payload = NULL;
    index->bytes[KV_MEMORY] -= e->size;
    index->n_chunks[KV_MEMORY]--;
    e->tenant->bytes[KV_MEMORY] -= e->size;
    count_in_parent(e, KV_MEMORY, -1);
    kv_rank_settle(e);
}

void kv_index_queue_for_disk(kv_index *index, kv_entry *e)
{
    (void)index;
    e->for_disk = true;
    count_in_parent(e, KV_DISK, 1);
}

void kv_index_set_disk(kv_index *index, kv_entry *e, int64_t id, uint64_t disk_bytes)
{
    if (!e->for_disk)
        kv_index_queue_for_disk(index, e);
    e->id = id;
    e->disk_bytes = disk_bytes;
    index->bytes[KV_DISK] += disk_bytes;
    index->n_chunks[KV_DISK]++;
    e->tenant->bytes[KV_DISK] += disk_bytes;
    kv_rank_settle(e);
}

void kv_index_clear_disk(kv_index *index, kv_entry *e)
{
    if (!e->for_disk)
        return;
    if (e->id) {
        index->bytes[KV_DISK] -= e->disk_bytes;
        index->n_chunks[KV_DISK]--;
        e->tenant->bytes[KV_DISK] -= e->disk_bytes;
    }
    e->id = 0;
    e->for_disk = false;
    kv_index_untouch(index, e);
    count_in_parent(e, KV_DISK, -1);
    kv_rank_settle(e);
}

bool kv_index_nowhere(const kv_entry *e)
{
    return !e->payload && !e->id;
}

/* ----------------------------------------------------------- coming, going --- */

pawl_status kv_index_add(kv_index *index, const kv_chunk *chunk, int64_t now_ms, kv_entry **out)
{
    kv_entry *parent = NULL;
    if (index->n_entries >= KV_MAX_CHUNKS)
        return PAWL_E_LIMIT;
    if (!is_zero(&chunk->parent)) {
        parent = kv_index_find(index, &chunk->parent);
        if (!parent)
            return PAWL_E_NOT_FOUND;
    }
    kv_entry *e = calloc(1, sizeof *e);
    if (!e)
        return PAWL_E_MEMORY;
    e->tokens = malloc(chunk->n_tokens * sizeof e->tokens[0] + 1);
    e->tenant = e->tokens ? tenant_of(index, chunk->tenant) : NULL;
    if (!e->tenant) {
        free_entry(e);
        return index->n_tenants == KV_MAX_TENANTS ? PAWL_E_LIMIT : PAWL_E_MEMORY;
    }
    if (chunk->n_tokens > 0)
        memcpy(e->tokens, chunk->tokens, chunk->n_tokens * sizeof e->tokens[0]);
    e->key = chunk->key;
    e->begin = chunk->begin;
    e->part = chunk->part;
    e->n_tokens = (uint32_t)chunk->n_tokens;
    e->size = chunk->size;
    e->place[KV_MEMORY] = e->place[KV_DISK] = UINT32_MAX;
    e->heat = 1;
    e->hits = 0;
    e->used_ms = now_ms;
    e->tick = ++index->tick;
    e->tenant->n_entries++;
    index->n_entries++;
    if (index->n_entries > index->n_buckets)
        grow(index);
    kv_entry **bucket = bucket_of(index, &e->key);
    e->in_bucket = *bucket;
    *bucket = e;
    kv_rank_weigh(index, e);
    link_to_parent(index, e, parent);
    *out = e;
    return PAWL_OK;
}

static void finish_gone(kv_index *index, kv_entry *e)
{
    kv_tenant *tenant = e->tenant;
    kv_index_clear_memory(index, e);
    free_entry(e);
    tenant->n_entries--;
    drop_tenant(index, tenant);
}

static void remove_leaf(kv_index *index, kv_entry *e, void (*forget)(void *arg, kv_entry *e),
                        void *arg)
{
    kv_entry **at = bucket_of(index, &e->key);
    while (*at != e)
        at = &(*at)->in_bucket;
    *at = e->in_bucket;
    index->n_entries--;
    if (e->id)
        forget(arg, e);
    kv_index_clear_disk(index, e);
    if (e->payload)
        count_in_parent(e, KV_MEMORY, -1);
    e->gone = true;
    kv_rank_leave(e);
    unlink_from_parent(e);
    if (e->holds == 0)
        finish_gone(index, e);
}

void kv_index_remove(kv_index *index, kv_entry *e, void (*forget)(void *arg, kv_entry *e),
                     void *arg)
{
    kv_entry *at = e;
    for (;;) { /* bottom up, without recursion: chains are thousands long */
        while (at->first_child)
            at = at->first_child;
        kv_entry *parent = at->parent;
        bool last = at == e;
        remove_leaf(index, at, forget, arg);
        if (last)
            return;
        at = parent;
    }
}

static void forget_nothing(void *arg, kv_entry *e)
{
    (void)arg;
    (void)e;
}

void kv_index_forget(kv_index *index, uint32_t seen)
{
    for (uint32_t b = 0; b < index->n_buckets; b++) {
        kv_entry *e = index->buckets[b];
        while (e) {
            kv_entry *next = e->in_bucket;
            bool lost = e->id && e->seen != seen;
            if (lost)
                kv_index_clear_disk(index, e);
            if (lost && kv_index_nowhere(e)) {
                kv_index_remove(index, e, forget_nothing, NULL);
                next = index->buckets[b]; /* what descended from it may have been here */
            }
            e = next;
        }
    }
}

/* A cache that is full has kept what was used since its oldest chunk was. */
void kv_index_rank_loaded(kv_index *index)
{
    int64_t oldest = INT64_MAX, newest = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t b = 0; b < index->n_buckets; b++) {
            for (kv_entry *e = index->buckets[b]; e; e = e->in_bucket) {
                oldest = e->id && e->used_ms < oldest ? e->used_ms : oldest;
                newest = e->id && e->used_ms > newest ? e->used_ms : newest;
                if (pass == 0)
                    continue;
                kv_rank_weigh(index, e);
                kv_rank_settle(e);
            }
        }
        if (newest > oldest)
            index->stay_ms[KV_DISK] = (double)(newest - oldest);
    }
}

/* -------------------------------------------------------------------- use --- */

static void touch(kv_index *index, kv_entry *e)
{
    if (e->touched || !e->id)
        return;
    e->touched = true;
    e->touched_prev = NULL;
    e->touched_next = index->touched;
    if (index->touched)
        index->touched->touched_prev = e;
    index->touched = e;
}

void kv_index_untouch(kv_index *index, kv_entry *e)
{
    if (!e->touched)
        return;
    e->touched = false;
    if (e->touched_prev)
        e->touched_prev->touched_next = e->touched_next;
    else
        index->touched = e->touched_next;
    if (e->touched_next)
        e->touched_next->touched_prev = e->touched_prev;
    e->touched_next = e->touched_prev = NULL;
}

void kv_index_use(kv_index *index, kv_entry *e, int64_t now_ms)
{
    int64_t age = now_ms - e->used_ms;
    if (age > 0) /* a clock that was set back makes nothing hotter */
        e->heat *= exp2(-(double)age / KV_HALF_LIFE_MS);
    e->heat += 1;
    e->used_ms = age > 0 ? now_ms : e->used_ms;
    e->hits++;
    e->tick = ++index->tick;
    e->superseded = false;
    kv_rank_weigh(index, e);
    kv_rank_settle(e);
    touch(index, e);
}

void kv_index_pin(kv_index *index, kv_entry *e, int by)
{
    (void)index;
    if (by < 0 && e->pins == 0)
        return;
    e->pins += (uint32_t)by;
    kv_rank_settle(e);
}

void kv_index_hold(kv_index *index, kv_entry *e)
{
    (void)index;
    e->holds++;
    kv_rank_settle(e);
}

void kv_index_release(kv_index *index, kv_entry *e)
{
    e->holds--;
    if (e->gone && e->holds == 0)
        finish_gone(index, e);
    else if (!e->gone)
        kv_rank_settle(e);
}
