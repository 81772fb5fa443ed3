/*
 * run/output.h - the output items of one reply, and the events that build them.
 *
 * At most one item is open. Opening another kind closes it. An item that was
 * closed never changes. Engine thread only (or whoever runs the turn).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_OUTPUT_H
#define RUN_OUTPUT_H

#include "base/clock.h"
#include "run/event.h"

/* Longest text of one item; a reply is bounded by the context long before. */
#define RUN_MAX_ITEM_BYTES (64u << 20)

typedef struct run_output {
    const base_clock *clock;
    run_listener listener;
    cJSON *items;     /* array: the closed items, in the shape of api.md 4    */
    uint32_t n_calls; /* closed calls that are complete                       */
    bool open;        /* the members below describe an item                   */
    enum run_item_kind kind;
    char item_id[CLOCK_ID_SIZE];
    char call_id[CLOCK_ID_SIZE];
    char *name;      /* of an open call                                      */
    buf text;        /* all text of the open item                            */
    cJSON *logprobs; /* array: of the open message, or NULL                  */
    cJSON *pending;  /* array: logprobs of tokens whose text is still to come */
    bool failed;     /* no memory: the turn must fail                        */
} run_output;

void run_output_init(run_output *o, const base_clock *clock, run_listener listener);
void run_output_clear(run_output *o);

/* More text of a message or of reasoning. */
void run_output_text(run_output *o, enum run_item_kind kind, const char *text, size_t size);
void run_output_call(run_output *o, const char *name, size_t size);
void run_output_arguments(run_output *o, const char *text, size_t size);
/* Closes what is open. complete false: it was cut. */
void run_output_close(run_output *o, bool complete);
/* One token's log-probability entry, which goes with the next text of a message.
 * The entry becomes the output's. */
void run_output_logprob(run_output *o, cJSON *entry);

#endif /* RUN_OUTPUT_H */
