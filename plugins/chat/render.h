/*
 * chat/render.h - from a chat request to the parts of a prompt.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CHAT_RENDER_H
#define CHAT_RENDER_H

#include "chat/dialect.h"
#include "chat/request.h"

/* Writes the JSON object that pawl_chat_api.render promises. `eos`: one more
 * control token that ends a reply, or NULL. [any] */
pawl_status render_request(const struct dialect *dialect, const char *eos,
                           const struct request *request, const pawl_sink *to, pawl_error *error);

#endif /* CHAT_RENDER_H */
