/*
 * store/kv_index.h - what is known of every chunk, in memory.
 *
 * One entry a chunk, found by its key, linked into the tree that chunks form, counted
 * in its tenant, and ranked for eviction in each tier that it is in. No I/O, no locks:
 * the kv that owns an index holds its lock around every call.
 *
 *                 memory   disk
 *     put           x               on its way: held by the queue
 *     written       x       x
 *     cooled                x       evicted from memory
 *     unwritten     x               the writer was too far behind, or the disk failed
 *
 * Rules that hold between calls:
 *   - an entry is in some tier, and its parent is in the index: what is there can be reached
 *   - the parent of one that is on disk, or queued for it, is so too: a restart finds
 *     no chunk without its ancestors
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_KV_INDEX_H
#define STORE_KV_INDEX_H

#include "store/kv.h"

#define KV_MAX_CHUNKS (1u << 20)
#define KV_MAX_TOKENS (1u << 16)  /* of one chunk                                        */
#define KV_MAX_SIZE (1ull << 31)  /* of one payload                                      */
#define KV_MAX_TENANTS 4096       /* with chunks at a time                               */
#define KV_TENANT_SIZE 65         /* with NUL                                            */
#define KV_HALF_LIFE_MS 21600000. /* a use counts half after so long                   */

enum kv_tier { KV_MEMORY, KV_DISK, KV_TIERS };

typedef struct kv_entry kv_entry;

/* Entries of one tenant that may leave a tier, the one to go first at [0]: a binary heap. */
typedef struct kv_heap {
    kv_entry **items;
    uint32_t size, room;
} kv_heap;

typedef struct kv_tenant {
    char name[KV_TENANT_SIZE];
    uint64_t bytes[KV_TIERS]; /* payloads; on disk whole pages         */
    uint32_t n_entries;       /* the last one takes the tenant with it */
    kv_entry *first_root;     /* newest first                          */
    kv_heap heaps[KV_TIERS];
} kv_tenant;

struct kv_entry {
    kv_key key;
    kv_entry *in_bucket;                   /* the next one                                   */
    kv_entry *parent;                      /* NULL: a root                                   */
    kv_entry *first_child;                 /* newest first                                   */
    kv_entry *older, *newer;               /* siblings                                       */
    kv_entry *queued_next;                 /* of those that wait for the writer              */
    kv_entry *touched_next, *touched_prev; /* of those whose use is not on disk yet          */
    kv_tenant *tenant;                     /* counts it                                      */
    int32_t *tokens;                       /* n_tokens, owned                                */
    void *payload;                         /* size bytes, owned; NULL: not in memory         */
    int64_t id;                            /* of its row; 0: not on disk                     */
    uint64_t begin, size;                  /* as in kv_chunk                                 */
    uint64_t disk_bytes;                   /* what it takes in the file                      */
    uint64_t sum;                          /* of the row; 0 until it is written or loaded    */
    uint64_t hits;                         /* uses ever                                      */
    uint64_t tick;                         /* of the last use: orders uses within a millisecond */
    int64_t used_ms;                       /* wall clock of the last use                     */
    double heat;                           /* uses, halved every half-life, as of used_ms    */
    double rank[KV_TIERS];                 /* lower goes first; a time in ms */
    uint32_t n_tokens, part;               /* as in kv_chunk                                 */
    uint32_t n_children[KV_TIERS];         /* in this tier; of disk: or queued for it        */
    uint32_t place[KV_TIERS];              /* in its tenant's heap; UINT32_MAX: in none      */
    uint32_t pins;                         /* kv_pin                                         */
    uint32_t holds;                        /* readers, writer, queue: it stays where it is   */
    uint32_t disk_reads;                   /* since it was last in memory                    */
    uint32_t seen;                         /* the last loading of kv.db that met it          */
    bool for_disk;                         /* on disk or queued for it                       */
    bool superseded;                       /* a partial tail whose extension is there        */
    bool touched;                          /* in that list                                   */
    bool gone;                             /* out of the index, lives while it is held       */
};

/* Payloads that are to be freed when the lock is released: giving back megabytes takes long. */
typedef struct kv_trash {
    void *items[64];
    size_t n;
} kv_trash;

typedef struct kv_index {
    kv_entry **buckets;
    uint32_t n_buckets;                 /* a power of two                            */
    uint64_t salt[2];                   /* nobody who writes a file knows the buckets */
    kv_tenant *tenants[KV_MAX_TENANTS]; /* the first n_tenants                        */
    uint32_t n_tenants;
    uint32_t n_entries;
    uint64_t
        bytes[KV_TIERS]; /* as in kv_tenant, of all of them; with those that are gone and held */
    uint32_t n_chunks[KV_TIERS];
    uint64_t tick;            /* of the latest use                          */
    kv_entry *touched;        /* head of the list                           */
    double stay_ms[KV_TIERS]; /* how long those that are evicted went unused, of late */
    kv_trash trash;
} kv_index;

pawl_status kv_index_open(kv_index *index, pawl_error *error);
void kv_index_close(kv_index *index);

kv_entry *kv_index_find(const kv_index *index, const kv_key *key);

/* Makes an entry that is in no tier yet: the caller puts it into one at once. Refused:
 * PAWL_E_NOT_FOUND its parent is not there, PAWL_E_LIMIT too many, PAWL_E_MEMORY. */
pawl_status kv_index_add(kv_index *index, const kv_chunk *chunk, int64_t now_ms, kv_entry **out);
/* Takes it out, with all that descends from it. forget() is told of each that has a row
 * on disk. Freed as soon as nobody holds it. */
void kv_index_remove(kv_index *index, kv_entry *e, void (*forget)(void *arg, kv_entry *e),
                     void *arg);

void kv_index_set_memory(kv_index *index, kv_entry *e, void *payload);
void kv_index_clear_memory(kv_index *index, kv_entry *e);
void kv_index_queue_for_disk(kv_index *index, kv_entry *e); /* counted as a child on disk */
void kv_index_set_disk(kv_index *index, kv_entry *e, int64_t id, uint64_t disk_bytes);
void kv_index_clear_disk(kv_index *index, kv_entry *e); /* or its place in the queue */
/* All that the loading numbered `seen` did not meet are no longer on disk. */
void kv_index_forget(kv_index *index, uint32_t seen);
/* After a loading: all that is on disk tells how long chunks stay, and is ranked by that. */
void kv_index_rank_loaded(kv_index *index);
/* True if, in no tier, it is to be removed. */
bool kv_index_nowhere(const kv_entry *e);

void kv_index_use(kv_index *index, kv_entry *e, int64_t now_ms);
void kv_index_pin(kv_index *index, kv_entry *e, int by); /* +1 or -1 */
void kv_index_hold(kv_index *index, kv_entry *e);
void kv_index_release(kv_index *index, kv_entry *e);
void kv_index_untouch(kv_index *index, kv_entry *e); /* its use was written */

/* kv_rank.c: what is to leave a tier first, of one tenant or (NULL) of all. NULL: nothing may. */
kv_entry *kv_index_victim(const kv_index *index, enum kv_tier tier, const kv_tenant *tenant);
/* Puts the entry where it belongs in the heaps, after anything about it changed. */
void kv_rank_settle(kv_entry *e);
void kv_rank_leave(kv_entry *e); /* out of all heaps */
/* Computes its ranks from its use. */
void kv_rank_weigh(const kv_index *index, kv_entry *e);
/* It is being evicted, which tells how long chunks stay. */
void kv_rank_evicted(kv_index *index, const kv_entry *e, enum kv_tier tier, int64_t now_ms);

#endif /* STORE_KV_INDEX_H */
