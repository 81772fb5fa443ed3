/*
 * chat/parser.h - the streaming parser of one reply.
 *
 * pawl_parser is the ABI's handle. One owner at a time uses it; it refers to
 * the constant tables of its dialect only, so a chat may be closed before it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_PARSER_H
#define CHAT_PARSER_H

#include "chat/dialect.h"

/* calls_allowed: markup of calls is looked for; false: it is text. */
pawl_status parser_open(const struct dialect *dialect, bool calls_allowed, bool starts_in_reasoning,
                        pawl_parser **parser, pawl_error *error);
void parser_close(pawl_parser *parser);

pawl_status parser_feed(pawl_parser *parser, pawl_segment piece, pawl_chat_emit emit, void *arg,
                        pawl_error *error);
pawl_status parser_finish(pawl_parser *parser, pawl_chat_emit emit, void *arg, pawl_error *error);

#endif /* CHAT_PARSER_H */
