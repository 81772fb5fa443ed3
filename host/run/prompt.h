/*
 * run/prompt.h - a request as the tokens that the engine will see.
 *
 * history ─► chat plugin's render() ─► parts ─► tokenizer ─► tokens
 *
 * What the parent's timeline (or that of an edited conversation's base) already holds is
 * taken over token for token as far as the rendered text is the same, cut at a control
 * token: the assistant's turn stays the tokens that were generated and is never tokenised
 * anew. A raw prompt has neither history nor dialect: it is encoded as it is. Worker thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PROMPT_H
#define RUN_PROMPT_H

#include "run/history.h"

#define RUN_MAX_STOP_TOKENS 16
#define RUN_MAX_CUTS 8

typedef struct run_prompt {
    int32_t *tokens;
    uint64_t n_tokens;
    bool estimated;        /* n_tokens is a lower bound: the text was not encoded     */
    uint64_t n_taken_over; /* of them from an earlier timeline       */
    char *chat_request;    /* JSON that was rendered, for the parser  */
    int32_t stop_tokens[RUN_MAX_STOP_TOKENS]; /* each ends the reply                  */
    size_t n_stop_tokens;
    uint64_t cuts[RUN_MAX_CUTS]; /* n_cuts places, ascending, at which a pass is to end:
                                  * state up to there is worth saving. The end of the
                                  * system part is one                      */
    size_t n_cuts;
} run_prompt;

/* False: refused. On success the prompt is the caller's to run_prompt_clear(). */
bool run_prompt_build(run_runtime *runtime, const run_request *request, run_prompt *prompt,
                      run_refusal *refusal);
/* The same without a look at the context's length. */
bool run_prompt_measure(run_runtime *runtime, const run_request *request, run_prompt *prompt,
                        run_refusal *refusal);
pawl_status run_prompt_copy(const run_prompt *from, run_prompt *to, pawl_error *error);
void run_prompt_clear(run_prompt *prompt);

#endif /* RUN_PROMPT_H */
