/*
 * run/stream.h - from sampled tokens to output items.
 *
 *   token ─ piece() ─► bytes ─ utf8 ─► characters ─ stop strings ─► chat parser ─► output
 *
 * Text is held back where it may still become a split character, a stop string or
 * a tool marker. Engine thread only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_STREAM_H
#define RUN_STREAM_H

#include "run/output.h"
#include "run/request.h"

typedef struct run_stream run_stream;

/* chat_request: the JSON that was rendered, for the parser; NULL: plain text.
 * The request and model must outlive the stream. */
pawl_status run_stream_open(const run_request *request, const char *chat_request,
                            const base_clock *clock, run_listener listener, run_stream **stream,
                            pawl_error *error);
void run_stream_free(run_stream *s); /* NULL allowed */

/* One sampled token that does not end the turn. True: go on; false: the reply ends
 * here, at a stop string or after the only call that was wished for. */
bool run_stream_token(run_stream *s, int32_t token, float logprob, const struct pawl_top *top,
                      uint32_t n_top);
/* The end: flushes what was held back and closes the open item. complete false: it
 * was cut by a limit, a failure or a cancel. */
void run_stream_finish(run_stream *s, bool complete);

const cJSON *run_stream_items(const run_stream *s); /* array, borrowed         */
uint32_t run_stream_calls(const run_stream *s);     /* complete tool calls     */
uint64_t run_stream_reasoning(const run_stream *s); /* tokens of reasoning     */
bool run_stream_failed(const run_stream *s);        /* no memory, parser fault */

#endif /* RUN_STREAM_H */
