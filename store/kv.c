/*
 * store/kv.c - saved attention state of prefixes: what callers do. See kv.h.
 *
 * A put goes into memory and, if the writer can take it, into its queue; the two are one
 * copy. What is queued counts in memory and cannot leave it. So memory holds at most
 * memory_bytes, or, where that is little, what may be queued (KV_QUEUE_LEAST).
 *
 * The writer is too far behind: a chunk stays in memory only, if there is room, and is
 * counted as dropped. It is queued again when it is found (kv_find), together with its
 * ancestors. Everything here is short and holds the lock for it; no I/O, no payload is
 * copied or freed under it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"

#define DEFAULT_RATE ((uint64_t)128 << 20) /* a disk takes 100 to 230 MB/s; half of that twice */
#define DEFAULT_RETRY_MS 5000
#define MOST_RETRY_MS 3600000
#define LEAST_PAGES 32 /* of a file with hardly anything in it */

void kv_lock(kv *k)
{
    pthread_mutex_lock(&k->lock);
}

void kv_unlock(kv *k)
{
    kv_trash trash;
    trash.n = k->index.trash.n;
    memcpy(trash.items, k->index.trash.items, trash.n * sizeof trash.items[0]);
    k->index.trash.n = 0;
    pthread_mutex_unlock(&k->lock);
    for (size_t i = 0; i < trash.n; i++)
        free(trash.items[i]);
}

int64_t kv_now_ms(const kv *k)
{
    return k->config.clock->wall_ms(k->config.clock->context);
}

int64_t kv_monotonic_ns(void)
{
    const base_clock *clock = clock_system();
    return clock->monotonic_ns(clock->context);
}

/* ------------------------------------------------------------- with the lock --- */

void kv_doom(void *context, kv_entry *e)
{
    kv *k = context;
    if (!k->path)
        return;
    if (k->n_doomed == k->room_doomed) {
        uint32_t room = k->room_doomed ? 2 * k->room_doomed : 64;
        int64_t *ids = realloc(k->doomed, room * sizeof *ids);
        if (!ids) /* the row stays; a restart finds it again */
            return;
        k->doomed = ids;
        k->room_doomed = room;
    }
    k->doomed[k->n_doomed++] = e->id;
    pthread_cond_signal(&k->work);
}

void kv_drop_entry(kv *k, kv_entry *e)
{
    kv_index_remove(&k->index, e, kv_doom, k);
}

static bool evict_memory(kv *k, const kv_tenant *tenant)
{
    kv_entry *e = kv_index_victim(&k->index, KV_MEMORY, tenant);
    if (!e)
        return false;
    kv_count_by(k, KV_EVICTED_MEMORY, 1);
    kv_rank_evicted(&k->index, e, KV_MEMORY, kv_now_ms(k));
    kv_index_clear_memory(&k->index, e);
    if (kv_index_nowhere(e))
        kv_drop_entry(k, e);
    return true;
}

bool kv_evict_disk(kv *k, const kv_tenant *tenant)
{
    kv_entry *e = kv_index_victim(&k->index, KV_DISK, tenant);
    if (!e)
        return false;
    kv_count_by(k, KV_EVICTED_DISK, 1);
    kv_rank_evicted(&k->index, e, KV_DISK, kv_now_ms(k));
    kv_doom(k, e);
    kv_index_clear_disk(&k->index, e);
    if (kv_index_nowhere(e))
        kv_drop_entry(k, e);
    return true;
}

static uint64_t quota_of(const kv *k)
{
    uint64_t quota = k->config.tenant_memory_bytes;
    return quota && quota < k->config.memory_bytes ? quota : k->config.memory_bytes;
}

/* Entries go one after the other, and with the last one its tenant: so by its place. */
static void keep_quotas(kv *k)
{
    for (uint32_t i = 0; k->config.tenant_memory_bytes && i < k->index.n_tenants; i++) {
        const kv_tenant *tenant = k->index.tenants[i];
        while (i < k->index.n_tenants && k->index.tenants[i] == tenant &&
               tenant->bytes[KV_MEMORY] > quota_of(k) && evict_memory(k, tenant))
            ;
    }
}

bool kv_make_room(kv *k, const kv_tenant *tenant, uint64_t more)
{
    if (!tenant)
        keep_quotas(k);
    while (tenant && tenant->bytes[KV_MEMORY] + more > quota_of(k)) { /* it has one that is held */
        if (!evict_memory(k, tenant))
            break;
    }
    bool fits = !tenant || tenant->bytes[KV_MEMORY] + more <= quota_of(k);
    while (k->index.bytes[KV_MEMORY] + k->promised + more > k->config.memory_bytes) {
        if (!evict_memory(k, NULL))
            return false;
    }
    return fits;
}

static bool fits_on_disk(const kv *k, uint64_t size, uint64_t n_tokens)
{
    uint64_t bytes = kv_db_footprint(size, n_tokens);
    uint64_t quota = k->config.tenant_disk_bytes;
    return k->path && bytes + LEAST_PAGES * KV_DB_PAGE <= k->config.disk_bytes &&
           (quota == 0 || bytes <= quota);
}

static bool queue_takes(const kv *k, uint64_t size, uint64_t n_tokens)
{
    return !k->suspended && !k->closing && fits_on_disk(k, size, n_tokens) &&
           (k->queued_bytes == 0 || k->queued_bytes + size <= k->queue_most);
}

bool kv_queue(kv *k, kv_entry *e)
{
    kv_entry *list = NULL;
    for (kv_entry *a = e; a && !a->for_disk; a = a->parent) {
        a->queued_next = list;
        list = a;
    }
    bool takes = true;
    while (list) {
        kv_entry *a = list;
        list = a->queued_next;
        a->queued_next = NULL;
        takes = takes && queue_takes(k, a->size, a->n_tokens);
        if (!takes)
            continue; /* the links of the others are taken off too */
        kv_index_hold(&k->index, a);
        kv_index_queue_for_disk(&k->index, a);
        k->queued_bytes += a->size;
        *k->queue_last = a;
        k->queue_last = &a->queued_next;
        pthread_cond_signal(&k->work);
    }
    return takes;
}

/* ------------------------------------------------------------------ look-up --- */

bool kv_has(kv *k, const kv_key *key)
{
    kv_lock(k);
    bool has = kv_index_find(&k->index, key) != NULL;
    kv_unlock(k);
    return has;
}

uint64_t kv_find(kv *k, const kv_key *chain, uint64_t n_keys)
{
    uint64_t n = 0, in_memory = 0;
    kv_entry *last = NULL;
    int64_t now = kv_now_ms(k);
    kv_lock(k);
    for (; n < n_keys; n++) {
        kv_entry *e = kv_index_find(&k->index, &chain[n]);
        if (!e)
            break;
        kv_index_use(&k->index, e, now);
        in_memory += e->payload != NULL;
        last = e;
    }
    if (last && !last->for_disk)
        kv_queue(k, last);
    kv_unlock(k);
    uint64_t asked = n < n_keys ? n + 1 : n;
    kv_count_by(k, KV_ASKED_MEMORY, asked);
    kv_count_by(k, KV_FOUND_MEMORY, in_memory);
    kv_count_by(k, KV_ASKED_DISK, k->path ? asked - in_memory : 0);
    kv_count_by(k, KV_FOUND_DISK, n - in_memory);
    return n;
}

static void pin_all(kv *k, const kv_key *chain, uint64_t n_keys, int by)
{
    kv_lock(k);
    for (uint64_t i = 0; i < n_keys; i++) {
        kv_entry *e = kv_index_find(&k->index, &chain[i]);
        if (e)
            kv_index_pin(&k->index, e, by);
    }
    kv_unlock(k);
}

void kv_pin(kv *k, const kv_key *chain, uint64_t n_keys)
{
    pin_all(k, chain, n_keys, 1);
}

void kv_unpin(kv *k, const kv_key *chain, uint64_t n_keys)
{
    pin_all(k, chain, n_keys, -1);
}

void kv_remove(kv *k, const kv_key *key)
{
    kv_lock(k);
    kv_entry *e = kv_index_find(&k->index, key);
    if (e)
        kv_drop_entry(k, e);
    kv_unlock(k);
}

/* ---------------------------------------------------------------------- put --- */

static pawl_status check(const kv *k, const kv_chunk *chunk)
{
    static const kv_key zero;
    if (memcmp(&chunk->key, &zero, sizeof zero) == 0 ||
        memcmp(&chunk->key, &chunk->parent, sizeof zero) == 0)
        return PAWL_E_ARGUMENT;
    if (!chunk->payload || chunk->size == 0 || (chunk->n_tokens > 0 && !chunk->tokens))
        return PAWL_E_ARGUMENT;
    if (!chunk->tenant || strlen(chunk->tenant) >= KV_TENANT_SIZE || chunk->begin > INT64_MAX)
        return PAWL_E_ARGUMENT;
    if (chunk->size > KV_MAX_SIZE || chunk->n_tokens > KV_MAX_TOKENS)
        return PAWL_E_LIMIT;
    if (chunk->size > quota_of(k) && !fits_on_disk(k, chunk->size, chunk->n_tokens))
        return PAWL_E_LIMIT;
    return PAWL_OK;
}

/* Beyond its budget, memory takes what is on its way to the disk and no more than that. */
static bool fits_on_its_way(const kv *k, const kv_tenant *tenant, uint64_t size)
{
    uint64_t most = k->config.memory_bytes > k->queue_most ? k->config.memory_bytes : k->queue_most;
    uint64_t quota = quota_of(k) > k->queue_most ? quota_of(k) : k->queue_most;
    uint64_t now = k->index.bytes[KV_MEMORY] + k->promised;
    return now == 0 || (now + size <= most && tenant->bytes[KV_MEMORY] + size <= quota);
}

/* Takes the payload over if it is PAWL_OK. Locked. */
static pawl_status put(kv *k, const kv_chunk *chunk, int64_t now)
{
    kv_entry *e = kv_index_find(&k->index, &chunk->key);
    if (e) {
        if (!e->for_disk)
            kv_queue(k, e);
        return PAWL_E_FORMAT; /* for kv_put(): nothing to do */
    }
    if (k->index.n_entries >= KV_MAX_CHUNKS && !kv_evict_disk(k, NULL))
        evict_memory(k, NULL);
    pawl_status status = kv_index_add(&k->index, chunk, now, &e);
    if (status)
        return status;
    kv_index_hold(&k->index, e); /* in no tier yet: not to be evicted by its own room */
    bool fits = kv_make_room(k, e->tenant, e->size);
    bool goes = queue_takes(k, e->size, e->n_tokens) && (!e->parent || e->parent->for_disk);
    if (!fits && !(goes && fits_on_its_way(k, e->tenant, e->size))) {
        kv_drop_entry(k, e);
        kv_index_release(&k->index, e);
        return PAWL_E_BUSY;
    }
    kv_index_set_memory(&k->index, e, chunk->payload);
    if (!kv_queue(k, e) && k->path)
        kv_count_by(k, KV_DROPPED, 1);
    kv_index_release(&k->index, e);
    return PAWL_OK;
}

pawl_status kv_put(kv *k, kv_chunk *chunk)
{
    pawl_status status = check(k, chunk);
    bool taken = false;
    if (!status) {
        int64_t now = kv_now_ms(k);
        kv_lock(k);
        status = put(k, chunk, now);
        kv_unlock(k);
        taken = status == PAWL_OK;
        if (status == PAWL_E_FORMAT)
            status = PAWL_OK;
    }
    if (!taken)
        free(chunk->payload);
    chunk->payload = NULL;
    return status;
}

void kv_flush(kv *k)
{
    kv_lock(k);
    while (k->path && (k->busy || (!k->suspended && (k->queue_first || k->n_doomed > 0)))) {
        pthread_cond_signal(&k->work);
        pthread_cond_wait(&k->quiet, &k->lock);
    }
    kv_unlock(k);
}

/* ------------------------------------------------------------------ opening --- */

static void settle_config(kv *k, const kv_config *config)
{
    uint64_t queue = config->memory_bytes / 2;
    k->config = *config;
    k->config.folder = NULL;
    k->config.metrics = NULL;
    if (!k->config.clock)
        k->config.clock = clock_system();
    if (k->config.write_bytes_second == 0)
        k->config.write_bytes_second = DEFAULT_RATE;
    if (k->config.retry_ms == 0 || k->config.retry_ms > MOST_RETRY_MS)
        k->config.retry_ms = DEFAULT_RETRY_MS;
    queue = queue > KV_QUEUE_LEAST ? queue : KV_QUEUE_LEAST;
    k->queue_most = queue < KV_QUEUE_MOST ? queue : KV_QUEUE_MOST;
}

static void open_locks(kv *k)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->work, &monotonic);
    pthread_cond_init(&k->quiet, NULL);
    pthread_condattr_destroy(&monotonic);
    kv_pool_open(&k->pool);
}

pawl_status kv_open(const kv_config *config, kv **out, pawl_error *error)
{
    kv *k = calloc(1, sizeof *k);
    if (!k)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a cache of prefixes");
    settle_config(k, config);
    open_locks(k);
    k->queue_last = &k->queue_first;
    kv_measure_open(k, config->metrics);
    pawl_status status = kv_index_open(&k->index, error);
    if (!status && config->disk_bytes > 0) {
        k->path = file_join(config->folder, KV_DB_NAME);
        status = k->path ? kv_writer_open(k, error)
                         : pawl_fail(error, PAWL_E_MEMORY, "no memory to open kv.db");
        if (!status)
            status = kv_writer_start(k, error);
    }
    if (status) {
        kv_close(k);
        return status;
    }
    kv_stats stats;
    kv_stats_get(k, &stats);
    if (k->path)
        log_write(PAWL_LOG_INFO, "store", "%s holds %llu prefix chunks, %llu MiB", k->path,
                  (unsigned long long)stats.disk_chunks,
                  (unsigned long long)(stats.disk_bytes >> 20));
    kv_measure_start(k, config->metrics);
    *out = k;
    return PAWL_OK;
}

void kv_close(kv *k)
{
    if (!k)
        return;
    kv_lock(k);
    k->closing = true;
    pthread_cond_signal(&k->work);
    kv_unlock(k);
    if (k->started)
        pthread_join(k->writer.thread, NULL);
    kv_writer_close(k);
    kv_pool_close(&k->pool);
    kv_index_close(&k->index);
    pthread_cond_destroy(&k->quiet);
    pthread_cond_destroy(&k->work);
    pthread_mutex_destroy(&k->lock);
    free(k->doomed);
    free(k->path);
    free(k);
}
