/*
 * store/kv_state.h - a kv, as its files see it; nobody else includes this.
 *
 *   kv.c         what callers do to the memory tier and the index
 *   kv_read.c    readers, and their connections
 *   kv_writer.c  the writer thread; kv_pass.c one transaction of it
 *   kv_measure.c counts and gauges
 *
 * `lock` guards the index, the queue, the list of the doomed and the counts, and is never
 * held over I/O. Members marked [writer] are the writer thread's own, and the opener's until
 * it starts. Order of locks: lock before pool.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_KV_STATE_H
#define STORE_KV_STATE_H

#include "store/kv_db.h"

#include <pthread.h>
#include <stdatomic.h>

#define KV_MAX_READERS 16                   /* readers from disk at a time               */
#define KV_QUEUE_LEAST ((uint64_t)32 << 20) /* bytes that may wait, however little memory */
#define KV_QUEUE_MOST ((uint64_t)512 << 20) /* and however much                          */
#define KV_LOG_SPARE ((uint64_t)32 << 20)   /* what files may take beyond the budget     */

/* What is counted. Those of a tier come in pairs: memory, disk. */
enum kv_count {
    KV_READS_MEMORY,
    KV_READS_DISK,
    KV_ASKED_MEMORY,
    KV_ASKED_DISK,
    KV_FOUND_MEMORY,
    KV_FOUND_DISK,
    KV_EVICTED_MEMORY,
    KV_EVICTED_DISK,
    KV_MISSES,
    KV_DAMAGED,
    KV_WRITTEN,
    KV_DROPPED,
    KV_WRITTEN_BYTES,
    KV_READ_BYTES,
    KV_COUNTS
};

/* Any thread adds; no lock. Series are NULL where nothing is measured. */
typedef struct kv_measures {
    atomic_uint_fast64_t counts[KV_COUNTS];
    metric *series[KV_COUNTS];
    metric *bytes[KV_TIERS], *chunks[KV_TIERS]; /* gauges, set on asking */
    metric *queued, *file;
} kv_measures;

typedef struct kv_connection kv_connection;

/* Connections that read kv.db and are not in use. */
typedef struct kv_pool {
    pthread_mutex_t lock;
    kv_connection *idle;
    uint32_t n_open;     /* those in use too                                 */
    uint32_t generation; /* of the file: one of an older file is closed      */
} kv_pool;

/* [writer] */
typedef struct kv_writer {
    pthread_t thread;
    kv_db db;
    bool open;       /* db is                                              */
    bool log_unsafe; /* after an error: to be emptied before a write       */
    bool failing;    /* said so already                                    */
    bool shrinking;  /* the file is larger than its budget                 */
    int64_t next_id;
    uint64_t log_bytes; /* as of the last commit                              */
    uint32_t loading;   /* how often kv.db was loaded: kv_entry.seen          */
    kv_entry *current;  /* being written: held                                */
    uint32_t piece;     /* of it, the next                                    */
    int64_t current_id;
    kv_sum sum;          /* of what was written of it                          */
    int64_t tokens_ns;   /* of the rate limit: paid until then                 */
    int64_t flush_ns;    /* when uses are written next                         */
    uint32_t backoff_ms; /* after the next error                               */
} kv_writer;

struct kv {
    pthread_mutex_t lock;
    pthread_cond_t work;  /* for the writer thread */
    pthread_cond_t quiet; /* the writer has nothing left to do; for kv_flush() */
    kv_index index;
    kv_config config;      /* folder and metrics are not to be used from here  */
    char *path;            /* of kv.db; NULL: no disk tier                     */
    uint64_t queue_most;   /* bytes that may wait                              */
    kv_entry *queue_first; /* held, linked by queued_next                      */
    kv_entry **queue_last; /* where the next one is hung                       */
    uint64_t queued_bytes; /* what waits and what is being written             */
    uint64_t promised;     /* bytes that readers are about to put into memory  */
    int64_t *doomed;       /* ids of rows that are to be deleted               */
    uint32_t n_doomed, room_doomed;
    bool suspended;   /* the disk failed: nothing is queued                     */
    int64_t retry_ns; /* monotonic: until then                                  */
    bool closing;
    bool busy; /* the writer is at work                                */
    kv_pool pool;
    kv_writer writer;
    bool started; /* the thread                                           */
    kv_measures measures;
};

/* kv.c */
void kv_lock(kv *k);
void kv_unlock(kv *k); /* and frees what the index has thrown away */
int64_t kv_now_ms(const kv *k);
int64_t kv_monotonic_ns(void);
void kv_doom(void *k, kv_entry *e);     /* its row is to be deleted; for kv_index_remove() */
void kv_drop_entry(kv *k, kv_entry *e); /* and what descends from it */
/* Takes the one that ranks lowest from the disk tier; its row is doomed. False: none may go. */
bool kv_evict_disk(kv *k, const kv_tenant *tenant);
/* Evicts from memory until `more` bytes of the tenant fit, as far as something may go. */
bool kv_make_room(kv *k, const kv_tenant *tenant, uint64_t more);
/* Queues it, and the ancestors that are not on disk. False: there is no room. */
bool kv_queue(kv *k, kv_entry *e);

/* kv_read.c */
void kv_pool_open(kv_pool *pool);
void kv_pool_close(kv_pool *pool);
void kv_pool_renew(kv_pool *pool); /* the file was replaced, or its disk failed */

/* kv_writer.c */
pawl_status kv_writer_open(kv *k, pawl_error *error);  /* opens kv.db and loads it */
pawl_status kv_writer_start(kv *k, pawl_error *error); /* starts the thread        */
void kv_writer_close(kv *k);

/* kv_pass.c: one transaction. PAWL_OK: *more says whether it left something to do. */
pawl_status kv_pass(kv *k, bool *more, pawl_error *error);
void kv_pass_give_up(kv *k); /* what is queued or half written stays in memory only */

/* kv_measure.c */
void kv_count_by(kv *k, enum kv_count what, uint64_t by);
void kv_measure_open(kv *k, metrics *all); /* before the thread starts */
void kv_measure_start(kv *k,
                      metrics *all); /* when nothing can fail any more: gauges are asked for */
uint64_t kv_file_bytes(const kv *k);

#endif /* STORE_KV_STATE_H */
