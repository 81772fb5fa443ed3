/*
 * run/history.h - items of a whole conversation as the messages of a chat request.
 *
 * Items that belong to one assistant turn (reasoning, message, calls in a row)
 * become one assistant message, since a chat template knows no smaller unit.
 * Worker thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_HISTORY_H
#define RUN_HISTORY_H

#include "run/runtime.h"

/* Longest chain of previous responses. */
#define RUN_MAX_CHAIN 4096

/* The ancestors of a request and the request's own items as an array of messages
 * ({"role","content","tool_calls"?,"tool_call_id"?,"reasoning_content"?}), the
 * instructions first. NULL: refused. */
cJSON *run_history_messages(run_runtime *runtime, const run_request *request, run_refusal *refusal);

/* A record and all its ancestors, root first, each with a reference, in an array to be
 * free()d. Their number, or -1: refused. */
int run_history_chain(run_runtime *runtime, run_record *from, run_record ***chain,
                      run_refusal *refusal);

/* A turn begins with each user message. */
size_t run_history_turns(const cJSON *messages);
/* The same messages, referred to, without the n oldest turns: leading system messages
 * and everything from the n + 1st user message on. The list must outlive it. */
cJSON *run_history_without(const cJSON *messages, size_t n_turns);

/* Fills a refusal; always false. */
bool run_refuse(run_refusal *refusal, enum run_refusal_reason reason, const char *param,
                const char *format, ...) PAWL_PRINTF(4, 5);

#endif /* RUN_HISTORY_H */
