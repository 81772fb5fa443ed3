/*
 * store/kv_measure.c - what a kv counts, for kv_stats_get() and for Prometheus.
 *
 * Everything is in chunks or bytes, and by tier: a look-up asks memory for each key until
 * one is missing, and the disk for those that memory does not have, so hits over queries is
 * the rate of each. The families pawl_prefix_cache_queries and _hits without a tier are
 * run's and count tokens, as vLLM's do. Nothing here knows tenants or keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_state.h"

#include <string.h>

#include "base/file.h"

/* A series for each count. */
static const struct {
    const char *name, *help, *label, *value;
} specs[KV_COUNTS] = {
    [KV_READS_MEMORY] = {"pawl_prefix_cache_reads_total", "Chunks opened to be loaded.", "tier",
                         "memory"},
    [KV_READS_DISK] = {"pawl_prefix_cache_reads_total", "Chunks opened to be loaded.", "tier",
                       "disk"},
    [KV_ASKED_MEMORY] = {"pawl_prefix_cache_tier_queries_total", "Chunks that were looked up.",
                         "tier", "memory"},
    [KV_ASKED_DISK] = {"pawl_prefix_cache_tier_queries_total", "Chunks that were looked up.",
                       "tier", "disk"},
    [KV_FOUND_MEMORY] = {"pawl_prefix_cache_tier_hits_total", "Chunks that were found.", "tier",
                         "memory"},
    [KV_FOUND_DISK] = {"pawl_prefix_cache_tier_hits_total", "Chunks that were found.", "tier",
                       "disk"},
    [KV_EVICTED_MEMORY] = {"pawl_prefix_cache_evictions_total", "Chunks that made room.", "tier",
                           "memory"},
    [KV_EVICTED_DISK] = {"pawl_prefix_cache_evictions_total", "Chunks that made room.", "tier",
                         "disk"},
    [KV_MISSES] = {"pawl_prefix_cache_read_misses_total",
                   "Chunks that could not be opened, for whatever reason.", NULL, NULL},
    [KV_DAMAGED] = {"pawl_prefix_cache_damaged_total",
                    "Chunks that were not what they should be, and were removed.", NULL, NULL},
    [KV_WRITTEN] = {"pawl_prefix_cache_writes_total", "Chunks on their way to kv.db.", "outcome",
                    "written"},
    [KV_DROPPED] = {"pawl_prefix_cache_writes_total", "Chunks on their way to kv.db.", "outcome",
                    "dropped"},
    [KV_WRITTEN_BYTES] = {"pawl_prefix_cache_written_bytes_total", "Payload written to kv.db.",
                          NULL, NULL},
    [KV_READ_BYTES] = {"pawl_prefix_cache_read_bytes_total", "Payload read from kv.db.", NULL,
                       NULL},
};

void kv_count_by(kv *k, enum kv_count what, uint64_t by)
{
    atomic_fetch_add_explicit(&k->measures.counts[what], by, memory_order_relaxed);
    metric_add(k->measures.series[what], (double)by);
}

uint64_t kv_file_bytes(const kv *k)
{
    return k->path ? (uint64_t)(file_size(k->path, "") + file_size(k->path, "-wal")) : 0;
}

void kv_stats_get(kv *k, kv_stats *stats)
{
    uint64_t count[KV_COUNTS];
    for (int i = 0; i < KV_COUNTS; i++)
        count[i] = atomic_load_explicit(&k->measures.counts[i], memory_order_relaxed);
    *stats = (kv_stats){.file_bytes = kv_file_bytes(k),
                        .hits_memory = count[KV_READS_MEMORY],
                        .hits_disk = count[KV_READS_DISK],
                        .misses = count[KV_MISSES],
                        .damaged = count[KV_DAMAGED],
                        .evicted_memory = count[KV_EVICTED_MEMORY],
                        .evicted_disk = count[KV_EVICTED_DISK],
                        .dropped = count[KV_DROPPED]};
    kv_lock(k);
    stats->memory_bytes = k->index.bytes[KV_MEMORY];
    stats->memory_chunks = k->index.n_chunks[KV_MEMORY];
    stats->disk_bytes = k->index.bytes[KV_DISK];
    stats->disk_chunks = k->index.n_chunks[KV_DISK];
    stats->queued_bytes = k->queued_bytes;
    kv_unlock(k);
}

static void collect(void *context)
{
    kv *k = context;
    kv_measures *m = &k->measures;
    kv_stats stats;
    kv_stats_get(k, &stats);
    metric_set(m->bytes[KV_MEMORY], (double)stats.memory_bytes);
    metric_set(m->bytes[KV_DISK], (double)stats.disk_bytes);
    metric_set(m->chunks[KV_MEMORY], (double)stats.memory_chunks);
    metric_set(m->chunks[KV_DISK], (double)stats.disk_chunks);
    metric_set(m->queued, (double)stats.queued_bytes);
    metric_set(m->file, (double)stats.file_bytes);
}

void kv_measure_open(kv *k, metrics *all)
{
    static const metric_spec bytes = {
        METRIC_GAUGE, "pawl_prefix_cache_bytes", "What chunks take.", {"tier"}, NULL};
    static const metric_spec chunks = {
        METRIC_GAUGE, "pawl_prefix_cache_chunks", "How many there are.", {"tier"}, NULL};
    static const metric_spec queued = {METRIC_GAUGE,
                                       "pawl_prefix_cache_queue_bytes",
                                       "Payload that waits to be written.",
                                       {0},
                                       NULL};
    static const metric_spec file = {
        METRIC_GAUGE, "pawl_prefix_cache_file_bytes", "Size of kv.db with its log.", {0}, NULL};
    static const char *const tiers[] = {"memory", "disk"};
    kv_measures *m = &k->measures;
    for (int i = 0; i < KV_COUNTS; i++) {
        metric_spec spec = {METRIC_COUNTER, specs[i].name, specs[i].help, {specs[i].label}, NULL};
        m->series[i] = metric_with(metrics_family(all, &spec), specs[i].value, NULL);
    }
    for (int tier = 0; tier < KV_TIERS; tier++) {
        m->bytes[tier] = metric_with(metrics_family(all, &bytes), tiers[tier], NULL);
        m->chunks[tier] = metric_with(metrics_family(all, &chunks), tiers[tier], NULL);
    }
    m->queued = metrics_single(all, &queued);
    m->file = metrics_single(all, &file);
}

void kv_measure_start(kv *k, metrics *all)
{
    metrics_on_write(all, collect, k);
}
