/*
 * run/logs.h - the logs of all responses: found by id or by key, bounded, let go.
 *
 * A log stays for a while after its response has ended. All together may hold so many
 * bytes; beyond that the oldest that have ended go first, and then the events of whoever
 * wanted to keep one more.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_LOGS_H
#define RUN_LOGS_H

#include "run/log.h"

#define RUN_MAX_LOGS 16384

typedef struct run_logs run_logs;

typedef struct run_logs_config {
    const base_clock *clock;
    int64_t detach_ns;      /* how long a detached response may run      */
    int64_t window_ns;      /* how long the events stay after the end    */
    size_t max_bytes;       /* of one log                                */
    size_t max_total_bytes; /* of all                                    */
    metrics *metrics;       /* or NULL                                   */
} run_logs_config;

run_logs *run_logs_open(const run_logs_config *config); /* NULL without memory. [main] */
/* When no turn runs any more; who still reads may read on. NULL allowed. [main] */
void run_logs_close(run_logs *all);
/* Waits until background responses that are being accepted have been. [main] */
void run_logs_settle(run_logs *all);

/* A log for the turns of a request, of which there will be n. NULL: no memory, or too many.
 * The request stays the caller's. first: where events go beside, on_event NULL: nowhere.
 * The reference is the turns'. [worker] */
run_log *run_logs_add(run_logs *all, run_request *request, size_t n, run_listener first);
/* For when its turns are not begun after all. [worker] */
void run_logs_drop(run_logs *all, run_log *log);
/* What the turns report to. */
run_listener run_log_listener(run_log *log);
/* The turns, once they are made: the log takes a reference of each. [worker] */
void run_log_begin(run_log *log, run_turn **turns, size_t n);

/* Removes a log, so that nobody finds it; who reads it reads on. [any] */
void run_logs_forget(run_logs *all, run_log *log);
/* A reference, or NULL. tenant NULL: anybody's. [any] */
run_log *run_logs_find(run_logs *all, const char *tenant, const char *id);
/* Whose answer is or will be one: not of a cancelled response. */
run_log *run_logs_find_key(run_logs *all, const char *tenant, const char *key);

/* Cancels who was detached for too long, drops what has been kept for long enough. */
void run_logs_tend(run_logs *all);
void run_logs_cancel_all(run_logs *all);
size_t run_logs_running(run_logs *all);

/* background.c: begins the one turn of a background response as soon as the store has it
 * as queued; a place of the scheduler is claimed. [worker] */
void run_background_begin(run_logs *all, run_scheduler *scheduler, store *keep, run_turn *turn);

/* For log.c: the log has grown; lets go of what is too much. No lock is held. [any] */
void run_logs_shrink(run_logs *all, run_log *log);
/* For background.c: one more, or one less, is being accepted. [any] */
void run_logs_accepting(run_logs *all, int more);

#endif /* RUN_LOGS_H */
