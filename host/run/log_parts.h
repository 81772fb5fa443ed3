/*
 * run/log_parts.h - the inside of a log, for log.c and logs.c alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_LOG_PARTS_H
#define RUN_LOG_PARTS_H

#include "run/logs.h"

#include <pthread.h>

struct run_reader {
    run_log *log;       /* a reference                         */
    run_reader *next;   /* of the log's readers                */
    uint64_t at;        /* its place, in bytes since the begin */
    bool waiting;       /* it is to be woken                   */
    bool over;          /* it has had END                      */
    run_record *record; /* of END, where the log keeps none    */
    void (*wake)(void *arg);
    void *arg;
};

struct run_log {
    run_logs *all;
    atomic_int references;
    /* Fixed from the beginning: */
    char id[CLOCK_ID_SIZE];
    char tenant[STORE_KEY_NAME_SIZE];
    char hash[STORE_KEY_HASH_SIZE];
    char *key; /* Idempotency-Key, or NULL */
    int64_t created_ms;
    bool background;
    bool stored;
    bool cancels; /* who leaves it cancels it */
    run_listener first;
    /* Under the list's lock: */
    run_log *newer;
    run_log *older;
    run_log *next_by_id; /* of its bucket */
    run_log *next_by_key;
    bool listed;
    /* Under its own: */
    pthread_mutex_t lock;
    buf bytes;        /* events, one behind the other                       */
    uint64_t dropped; /* bytes that were before them                        */
    run_tally seen;   /* of all events                                      */
    run_tally lost;   /* of those that were dropped                         */
    size_t counted;   /* what it counts for in all                          */
    bool gone;        /* its events were given up                           */
    bool ended;
    bool cancelled; /* the end was not an answer */
    bool in_progress;
    run_request *request;             /* until the end                      */
    run_turn *turns[RUN_MAX_CHOICES]; /* n_turns, until the end             */
    size_t n_turns;
    run_record *records[RUN_MAX_CHOICES]; /* of what no store has             */
    run_reader *readers;
    unsigned attached;   /* clients that are there, readers included          */
    int64_t detached_ns; /* since when nobody is; 0: somebody is, or none needs be */
    int64_t ended_ns;
};

struct run_logs {
    run_logs_config config;
    atomic_int references; /* its owner's and one for each log                 */
    pthread_mutex_t lock;
    pthread_cond_t settled;
    run_log *newest;
    run_log *oldest;
    size_t n;
    int accepting;   /* background responses on their way to the store */
    uint64_t seed;   /* of the buckets                                 */
    run_log **by_id; /* RUN_LOG_BUCKETS each                           */
    run_log **by_key;
    atomic_size_t total; /* bytes that all logs count for                  */
    metric *detached;    /* counters                                       */
    metric *abandoned;
    metric *reads;
    metric *gauges[5]; /* logs, bytes, readers, running, detached        */
};

#define RUN_LOG_BUCKETS 4096

/* Gives up its events. The log's lock is held. */
void run_log_give_up(run_log *log);
/* Cancels its turns. The log's lock is held. */
void run_log_cancel_turns(run_log *log);
/* Sets what it counts for. The log's lock is held. */
void run_log_count(run_log *log);
void run_logs_release(run_logs *all);

#endif /* RUN_LOG_PARTS_H */
