/*
 * run/event.h - what a turn says while it runs, for every dialect alike.
 *
 * Order for one turn, which every listener may rely on:
 *
 *   CREATED  IN_PROGRESS  ( ITEM_BEGIN  DELTA*  ITEM_END )*  END
 *
 * END comes exactly once for every turn that run_start() accepted, whatever
 * happens, and nothing follows it. When it comes, a turn that is to be stored is
 * stored. Items follow each other with output_index 0, 1, 2…; DELTA texts of an
 * item join to the text of its ITEM_END. A cancelled turn that was still queued
 * has no IN_PROGRESS.
 *
 * Where one request has several choices (run_start_choices), each of them has this
 * order, their events come mixed, and `choice` says whose an event is. The end of a
 * choice is a CHOICE_END but for the one that ends last: its end is the END of all.
 *
 * An event is one allocation that the listener owns and run_event_free()s.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_EVENT_H
#define RUN_EVENT_H

#include "run/record.h"

enum run_event_type {
    RUN_CREATED,
    RUN_IN_PROGRESS,
    RUN_ITEM_BEGIN,
    RUN_DELTA,
    RUN_ITEM_END,
    RUN_CHOICE_END, /* as END, while other choices go on */
    RUN_END
};

enum run_item_kind { RUN_ITEM_MESSAGE, RUN_ITEM_REASONING, RUN_ITEM_CALL };

typedef struct run_usage {
    uint64_t input_tokens;
    uint64_t cached_tokens; /* of the input: state that was already there */
    uint64_t output_tokens; /* reasoning included                          */
    uint64_t reasoning_tokens;
} run_usage;

/* How a turn spent its time, in nanoseconds; 0 for what it did not come to. */
typedef struct run_times {
    int64_t queue;   /* from its arrival to its first step       */
    int64_t prefill; /* from there to its first token            */
    int64_t decode;  /* from there to its last token             */
} run_times;

typedef struct run_event {
    enum run_event_type type;
    uint32_t choice; /* which of the request's choices, from 0            */
    /* ITEM_BEGIN, DELTA, ITEM_END: */
    uint32_t output_index;
    enum run_item_kind kind;
    char item_id[40]; /* "msg_…", "rs_…", "fc_…"                           */
    char call_id[40]; /* "call_…" of a call, else ""                       */
    char *name;       /* of a call's function, else NULL                   */
    char *text;       /* DELTA: the new text or arguments (whole UTF-8
                       * characters); ITEM_END: all of it; else NULL       */
    cJSON *logprobs;  /* DELTA, ITEM_END of a message, where asked for: array of
                       * {"token","logprob","bytes","top_logprobs":[{"token",
                       * "logprob","bytes"}]}; else NULL                   */
    cJSON *item;      /* ITEM_END: the item as the record's output has it  */
    bool complete;    /* ITEM_END: whole; false: cut by limit or failure   */
    /* END, CHOICE_END: */
    run_record *record;      /* a reference: status, output, result, all of it    */
    const char *stop_reason; /* "stop", "length", "tool_calls", "cancelled", "error" */
    run_usage usage;
    run_times times;
    double score;      /* of a request with `score`: the sum of the log-probabilities ... */
    uint64_t n_scored; /* ... of so many tokens: its text's and the one that ends a reply */
} run_event;

run_event *run_event_new(enum run_event_type type); /* NULL without memory */
void run_event_free(run_event *event);              /* NULL allowed       */

/* Where a turn's events go. Called from the worker, the engine or the store
 * thread, one event at a time in order; must not block. */
typedef struct run_listener {
    void (*on_event)(void *arg, run_event *event);
    void *arg;
} run_listener;

#endif /* RUN_EVENT_H */
