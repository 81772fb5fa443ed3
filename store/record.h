/*
 * store/record.h - a store_response or a store_conversation as one allocation, and what
 * one may hold.
 *
 * Any implementation of the store checks and copies with these. [any]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_RECORD_H
#define STORE_RECORD_H

#include "store/store.h"

#include <stdbool.h>

#define RECORD_MAX_ID 64                      /* bytes of an id                    */
#define RECORD_MAX_NAME 1024                  /* bytes of model and status         */
#define RECORD_MAX_TENANT 64                  /* bytes of a tenant                 */
#define RECORD_MAX_TITLE 512                  /* bytes of a conversation's title   */
#define RECORD_MAX_METADATA ((size_t)1 << 18) /* and of its metadata              */
#define RECORD_MAX_TEXT ((size_t)64 << 20)    /* bytes of each JSON member         */
#define RECORD_MAX_TOKENS ((size_t)16 << 20)  /* tokens of a timeline              */

bool record_id_ok(const char *id); /* not NULL, not empty, not too long */

/* PAWL_E_ARGUMENT or PAWL_E_LIMIT names the first member that is not as it must be. */
pawl_status record_check(const store_response *r, pawl_error *error);

/* Everything in one allocation, to be free()d; *size is its size. The record was
 * checked before. Where r->tokens is NULL, room for n_tokens zeros is made.
 * NULL without memory. */
store_response *record_copy(const store_response *r, size_t *size);

/* The same two for a conversation. A text that is NULL stays NULL. */
pawl_status record_conversation_check(const store_conversation *c, pawl_error *error);
store_conversation *record_conversation_copy(const store_conversation *c, size_t *size);

#endif /* STORE_RECORD_H */
