/*
 * run/record.h - a finished response as later turns see it.
 *
 * Immutable and counted: any thread may read it, whoever holds a reference must
 * release it. A record keeps its parent, so a chain that no store knows
 * (store:false) lives as long as its end does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_RECORD_H
#define RUN_RECORD_H

#include "base/json.h"
#include "store/store.h"

#include <stdbool.h>

typedef struct run_record run_record;

/* status is a static string: completed, incomplete, failed, cancelled. */
struct run_record {
    char *id;           /* "resp_…"                                          */
    char *parent_id;    /* or NULL                                           */
    run_record *parent; /* or NULL: none, or not looked up yet               */
    char *model;        /* name it was asked for by                          */
    char *tenant;       /* whose it is; NULL: ""                             */
    const char *status;
    int64_t created_ms; /* wall clock                                        */
    int64_t completed_ms;
    char *request;   /* JSON object: the echo                             */
    char *input;     /* JSON array: its own input items                   */
    char *output;    /* JSON array: its output items                      */
    char *result;    /* JSON object: "usage", "error", "incomplete_details" */
    int32_t *tokens; /* prompt, then what was generated                   */
    uint64_t n_tokens;
    uint64_t n_prompt;
    bool stored;    /* it is in the store                                */
    int references; /* touched by retain and release alone               */
};

run_record *run_record_new(void); /* one reference; NULL without memory */
run_record *run_record_retain(run_record *record);
void run_record_release(run_record *record); /* NULL allowed */

/* A copy of what the store gave. NULL without memory. */
run_record *run_record_from_store(const store_response *row);
/* A view for store->put; borrowed from the record. */
store_response run_record_view(const run_record *record);
/* Whether a turn may follow it: it completed, or was cut by a limit. */
bool run_record_can_continue(const run_record *record);

#endif /* RUN_RECORD_H */
