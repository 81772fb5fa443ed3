/*
 * api/conversations.h - what the endpoints of conversations and of their items share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_CONVERSATIONS_H
#define API_CONVERSATIONS_H

#include "api/later.h"

/* The conversation that the path names. NULL: refused. */
run_conversation *conversations_open(const api_context *context, bool hold, api_error *error);
/* Its object as text, to be free()d; NULL without memory. */
char *conversations_object(const run_conversation *c);
/* Parses a body that says something of a conversation: what parse() adds to the request's
 * items is added to its tail; *echo, if wanted, is what it made of "metadata". */
bool conversations_parse(const api_context *context, const cJSON *body, run_conversation *c,
                         bool (*parse)(parse_state *state), cJSON **echo, api_error *error);
/* The call that is answered with body when c is written, or removed. Takes both. */
api_call *conversations_write(const api_context *context, run_conversation *c, char *body,
                              bool removes);

#endif /* API_CONVERSATIONS_H */
