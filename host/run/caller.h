/*
 * run/caller.h - who asks: a key without its secret.
 *
 * Travels by value from the connection that showed the key to the request, its log
 * lines and the record that is stored. A server without keys serves run_nobody.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_CALLER_H
#define RUN_CALLER_H

#include "store/store.h"

#include <stdbool.h>
#include <string.h>

typedef struct run_caller {
    char key[STORE_KEY_ID_SIZE];      /* id of a stored key; "": none, or not a stored one */
    char name[STORE_KEY_NAME_SIZE];   /* for log lines and fairness; "" none               */
    char tenant[STORE_KEY_NAME_SIZE]; /* what it stores and sees belongs to it             */
    uint32_t scopes;                  /* of enum store_scope                               */
} run_caller;

/* Nobody in particular: may all, and shares the tenant "" with others like it. */
#define RUN_NOBODY ((run_caller){.scopes = STORE_SCOPES_ALL})

/* Whether two callers share what is shared out by key: the same key of the same tenant;
 * keys that are not stored have no id and are told apart by their name. */
static inline bool run_caller_same(const run_caller *a, const run_caller *b)
{
    return strcmp(a->tenant, b->tenant) == 0 && strcmp(a->key, b->key) == 0 &&
           (a->key[0] || strcmp(a->name, b->name) == 0);
}

/* Whether the caller showed no key: such callers cannot be told apart. */
static inline bool run_caller_is_nobody(const run_caller *caller)
{
    return !caller->key[0] && !caller->name[0] && !caller->tenant[0];
}

#endif /* RUN_CALLER_H */
