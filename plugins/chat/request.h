/*
 * chat/request.h - a chat request, checked.
 *
 * The JSON of schemas/chat-request.schema.json as a list of messages. What a
 * prompt cannot hold is refused here, with the path of the member at fault.
 *
 * A request owns its list; all views borrow the JSON text it was read from.
 * One thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_REQUEST_H
#define CHAT_REQUEST_H

#include "chat/json.h"

enum message_role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };

struct message {
    enum message_role role;
    struct json_view content;   /* string, array of text parts, or no text       */
    struct json_view reasoning; /* string or nothing                             */
    struct json_view calls;     /* array of calls or nothing                     */
};

struct request {
    struct message *messages; /* owned                                            */
    size_t n_messages;        /* at least 1                                       */
    struct json_view tools;   /* non-empty array, or nothing                      */
    bool generate;            /* the prompt ends where an answer begins           */
    bool no_thinking;         /* the answer is to begin without a thought         */
};

pawl_status request_open(pawl_bytes json, struct request *request, pawl_error *error);
void request_clear(struct request *request);

/* What a parser needs of the same JSON; messages may be missing. */
struct reply_options {
    bool calls_allowed;       /* there are tools, and tool_choice is not "none" */
    bool starts_in_reasoning; /* only where the request says so                 */
};

pawl_status request_reply_options(pawl_bytes json, struct reply_options *options,
                                  pawl_error *error);

/* A message's text: the string, or its parts joined by a line break. */
void message_text(const struct message *message, struct text *to);

#endif /* CHAT_REQUEST_H */
