/*
 * terminal/chat.h - a conversation in the terminal.
 *
 *   input ─ message ─► reply ─► run: history, steps, events ─► standard output
 *         └ /command ─► session ─► conversations in the store
 *
 * Replies go to `out`, everything else that is said to `notes`, so that a script gets
 * replies alone. The first model of the runtime answers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TERMINAL_CHAT_H
#define TERMINAL_CHAT_H

#include "terminal/reply.h"

typedef struct chat_config {
    run_runtime *runtime;
    bool kept;           /* the runtime has a store                    */
    const char *session; /* name or id; NULL: a new one without a name */
    int in;              /* where messages come from                   */
    bool typed;          /* by somebody at a terminal                  */
    FILE *notes;
    reply_style style;
} chat_config;

/* Until the input ends, /exit or style.stop. 0; 1: the session could not be opened, or,
 * where nobody sits there to see it, a turn failed. [main] */
int chat_run(const chat_config *config);

#endif /* TERMINAL_CHAT_H */
