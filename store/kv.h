/*
 * store/kv.h - saved attention state of prefixes: host memory over kv.db.
 *
 * A chunk is the state of a stretch of tokens, as an engine wrote it. Its key is
 * a hash over everything before and in it (run/prefix makes keys; here they are 32
 * bytes), so that chunks form a tree: a chunk is useful only with its ancestors.
 * A chunk is written once and never changes.
 *
 *   engine thread ── kv_put ──► memory tier ──► writer thread ──► kv.db
 *   engine thread ◄─ kv_read ── memory tier, else a reading connection to kv.db
 *
 * A cache, nothing more: whatever is wrong with a row (damage, other tokens, a
 * version that is not known, a disk that fails) is a miss that is counted, and the row
 * goes. Losing the newest writes in a power cut is harmless. Nothing here makes a
 * token wait for the disk but kv_read, whose caller has weighed that.
 *
 * All functions are [any] unless said otherwise.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_KV_H
#define STORE_KV_H

#include "base/clock.h"
#include "base/metrics.h"

#include <pawl/plugin.h>

#include <stdbool.h>

#define KV_KEY_SIZE 32

typedef struct kv kv;

typedef struct kv_key {
    uint8_t bytes[KV_KEY_SIZE];
} kv_key;

typedef struct kv_config {
    const char *folder;           /* the data folder, which the caller holds (folder.h)       */
    uint64_t disk_bytes;          /* of kv.db with its log; 0: no disk tier                   */
    uint64_t memory_bytes;        /* of payloads in host memory; 0: only those on their way   */
    uint64_t tenant_disk_bytes;   /* of one tenant; 0: the tier's                             */
    uint64_t tenant_memory_bytes; /* likewise                                                 */
    uint64_t write_bytes_second;  /* rate limit of the writer; 0: a default                   */
    metrics *metrics;             /* outlives the kv; NULL: nothing is measured               */
    const base_clock *clock;      /* of wall time, for ages; NULL: the system's               */
    uint32_t retry_ms; /* after a disk error, until the disk tier is tried again; 0: a default */
} kv_config;

/* One chunk to be kept. */
typedef struct kv_chunk {
    kv_key key;
    kv_key parent;         /* zero: a root                                             */
    const char *tenant;    /* whose quota it counts in, up to 64 bytes                 */
    uint64_t begin;        /* position of its first token                              */
    const int32_t *tokens; /* n_tokens ids; copied                                     */
    uint64_t n_tokens;
    uint32_t part; /* of enum pawl_state_part                                  */
    void *payload; /* size bytes from malloc(); becomes the kv's in every case */
    uint64_t size;
} kv_chunk;

typedef struct kv_reader kv_reader; /* one chunk's payload being read */

pawl_status kv_open(const kv_config *config, kv **out, pawl_error *error);
/* Writes what is queued, within a few seconds; then closes. NULL allowed. [main] */
void kv_close(kv *k);

/* True where the chunk is in some tier. Touches nothing. */
bool kv_has(kv *k, const kv_key *key);
/* How many of the first keys of a chain are there, without a gap. Counts as a use of them. */
uint64_t kv_find(kv *k, const kv_key *chain, uint64_t n_keys);
/* Nothing that is pinned is evicted from the last tier it is in. Pins are counted;
 * keys that are not there are passed over. */
void kv_pin(kv *k, const kv_key *chain, uint64_t n_keys);
void kv_unpin(kv *k, const kv_key *chain, uint64_t n_keys);

/* Keeps a chunk: in memory at once, on disk later. A key that is there is PAWL_OK and
 * nothing is done. PAWL_E_LIMIT: larger than its budget, or a count is (tokens, tenants);
 * PAWL_E_BUSY: the writer is too far behind and memory is full; PAWL_E_NOT_FOUND: its parent
 * is not there (any more: save the chain from its first gap); PAWL_E_ARGUMENT: no payload, no
 * key, a tenant of over 64 bytes. Never blocks. */
pawl_status kv_put(kv *k, kv_chunk *chunk);

/* Opens a chunk for reading, which is a use of it; tokens must be its own. PAWL_E_NOT_FOUND: a
 * miss, of whatever cause. The source gives its bytes, straight from the database where it is on
 * disk; a source that fails or ends early is a damaged row. One thread uses a reader. */
pawl_status kv_read(kv *k, const kv_key *key, const int32_t *tokens, uint64_t n_tokens,
                    kv_reader **out, pawl_source *source);
/* good: the engine took it. False: it is damaged and is removed from every tier. */
void kv_read_end(kv_reader *reader, bool good);

/* Forgets a chunk and all that descends from it. */
void kv_remove(kv *k, const kv_key *key);

typedef struct kv_stats {
    uint64_t memory_bytes, memory_chunks;
    uint64_t disk_bytes, disk_chunks; /* payloads                                  */
    uint64_t file_bytes;              /* kv.db and its log                         */
    uint64_t queued_bytes;            /* not yet written                           */
    uint64_t hits_memory, hits_disk;  /* chunks read                               */
    uint64_t misses, damaged, evicted_memory, evicted_disk, dropped;
} kv_stats;
void kv_stats_get(kv *k, kv_stats *stats);
/* Waits until everything that was put is on disk or dropped. For tests and for the end. */
void kv_flush(kv *k);

#endif /* STORE_KV_H */
