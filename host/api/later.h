/*
 * api/later.h - calls that are answered when the store has written.
 *
 * Nothing may wait for the store on the worker: the store's thread sends the call an END
 * that was made beforehand, and so the answer comes through net's loop like any other.
 *
 *     later *order = later_open(context, "Response", id);
 *     if (order && write(…, later_done, order) == PAWL_OK)
 *         return later_call(order, body);
 *     return later_refused(order, …);
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_LATER_H
#define API_LATER_H

#include "api/handlers.h"
#include "run/conversation.h"

typedef struct later later;

/* what, id: for "… with id '…' not found."; what is static. NULL: no memory. [worker] */
later *later_open(const api_context *context, const char *what, const char *id);
/* Takes the conversation, which is let go when the store has answered. */
void later_keep(later *order, run_conversation *held);
/* The text of the answer if all goes well; taken, NULL is no memory. */
void later_say(later *order, char *body);
/* The call; must be asked for before the store is. NULL: no memory. */
api_call *later_call(later *order);
/* A store_done; arg is the later, which ends here. */
void later_done(void *arg, pawl_status status, const pawl_error *error);
/* Nothing will be written: ends the order and its call, and makes a refusal of it. */
api_call *later_refused(later *order, api_call *call, pawl_status status);

#endif /* API_LATER_H */
