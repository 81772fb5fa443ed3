/*
 * run/log.h - the events of one response, kept so that they can be read again.
 *
 *   turn ─ listener ─► log ─┬─► bytes, the oldest dropped first ─► readers, at their own pace
 *                           └─► the client that asked, as before
 *
 * A log knows who is there: the client that asked until run_log_leave(), and every
 * reader. With the last one the response is detached: its turns go into the batch
 * class and are cancelled unless somebody comes within the time that logs.h was given.
 * A background response needs nobody.
 *
 * Logs are counted: the list (logs.h) holds a reference while the log can be found, the
 * turns hold one until their END, every reader and whoever found it another. What a log
 * holds is guarded by its lock, which is taken after the list's and never waits for
 * anything. A reader belongs to one thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_LOG_H
#define RUN_LOG_H

#include "run/runtime.h"

typedef struct run_log run_log;
typedef struct run_reader run_reader;

/* How many events there were of each type and kind; deltas that say nothing do not
 * count. From it a dialect knows the number of its message at any place. */
typedef struct run_tally {
    uint64_t n[RUN_END + 1][RUN_ITEM_CALL + 1];
} run_tally;

enum run_read {
    READ_EVENT, /* *event is the next one                                    */
    READ_WAIT,  /* there is none yet; wake() will be called once              */
    READ_OVER,  /* END has been read                                          */
    READ_LOST   /* the next one is no longer kept                             */
};

run_log *run_log_retain(run_log *log);
void run_log_release(run_log *log); /* [any], NULL allowed */

const char *run_log_id(const run_log *log);     /* of the response                 */
int64_t run_log_created(const run_log *log);    /* wall clock, ms                  */
bool run_log_is_background(const run_log *log); /* as the request said             */
bool run_log_is_stored(const run_log *log);     /* likewise                        */
const char *run_log_tenant(const run_log *log); /* whose it is                     */
const char *run_log_hash(const run_log *log);   /* of its Idempotency-Key's request; "" */
bool run_log_is_running(run_log *log);          /* END has not come. [any]         */
bool run_log_is_queued(run_log *log);           /* nor IN_PROGRESS. [any]          */
run_request *run_log_request(run_log *log);     /* a reference; NULL: it has ended */
run_record *run_log_record(run_log *log);       /* a reference; NULL: ask the store */
void run_log_tally(run_log *log, run_tally *seen, run_tally *dropped); /* [any] */

/* The client that asked is gone. [any] */
void run_log_leave(run_log *log);
/* Whether it runs on without a client, for a while at least. [any] */
bool run_log_stays(const run_log *log);
/* Somebody has looked after it: a detached one's time begins anew. [any] */
void run_log_touch(run_log *log);
/* Ends its turns soon. [any] */
void run_log_cancel(run_log *log);

/* Reads from the oldest event that is kept; *skipped: what was before it. NULL without
 * memory. [any] */
run_reader *run_reader_open(run_log *log, run_tally *skipped);
/* The record for its END, where the log does not keep it and the response had ended
 * already: run_find(). */
void run_reader_give(run_reader *reader, run_record *record);
/* wake(arg) is called from any thread after READ_WAIT, and never after close. */
void run_reader_on_wake(run_reader *reader, void (*wake)(void *arg), void *arg);
/* *event is the caller's. */
enum run_read run_reader_next(run_reader *reader, run_event **event);
void run_reader_close(run_reader *reader); /* NULL allowed */

#endif /* RUN_LOG_H */
