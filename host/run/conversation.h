/*
 * run/conversation.h - a conversation: a name for a place in the tree of responses.
 *
 *   what is said in it:  items of the head's chain, root first │ items of the tail
 *                        (each generated turn as its tokens)     (no response has seen them)
 *
 * A turn on a conversation follows its head with the tail and its own input as its items;
 * stored, it is the new head, and the tail is empty. What changes an item of the chain
 * makes everything the tail of a conversation without head; the head it had is remembered
 * as its base, whose timeline the next prompt begins with as far as the text is the same.
 *
 * A run_conversation is what was read of one, and may be changed and written back. It
 * belongs to one thread at a time, but for run_conversation_let_go().
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_CONVERSATION_H
#define RUN_CONVERSATION_H

#include "run/runtime.h"

#include <stdatomic.h>

#define RUN_MAX_TAIL 10000 /* items of a tail */

typedef struct run_conversation {
    run_runtime *runtime; /* NULL: of a test */
    char *id;             /* "conv_…"                                         */
    char *title;          /* or NULL                                          */
    char *metadata;       /* JSON object                                      */
    char *head_id;        /* its latest response, or NULL                     */
    char *base_id;        /* without a head: the one it had before, or NULL   */
    cJSON *tail;          /* array of items                                   */
    run_record *head;     /* run_conversation_load(): of head_id, or NULL     */
    run_record *base;     /* likewise of base_id                              */
    char tenant[STORE_KEY_NAME_SIZE];
    int64_t created_ms;
    int64_t updated_ms;
    uint64_t revision; /* 0: it is new                                     */
    atomic_bool held;  /* nobody else may work on it until it is let go    */
} run_conversation;

enum run_conversation_answer {
    RUN_CONVERSATION_FOUND,
    RUN_CONVERSATION_UNKNOWN, /* or another tenant's             */
    RUN_CONVERSATION_HELD,    /* somebody else works on it       */
    RUN_CONVERSATION_FAILED   /* it cannot be read; this is logged */
};

/* An empty one of the caller's; it is in the store when it was written. NULL: no memory.
 * [worker] */
run_conversation *run_conversation_new(run_runtime *runtime, const run_caller *caller);
/* hold: to change it, or for a turn on it. [worker] */
enum run_conversation_answer run_conversation_open(run_runtime *runtime, const run_caller *caller,
                                                   const char *id, bool hold,
                                                   run_conversation **out);
/* Others may work on it again. A second time changes nothing. [any] */
void run_conversation_let_go(run_conversation *c);
void run_conversation_close(run_conversation *c); /* lets go; NULL allowed. [any] */

/* Reads the records of head and base. False: they cannot be read. [worker] */
bool run_conversation_load(run_conversation *c);
/* All its items, oldest first, as a new array. NULL: they cannot be read, or no memory.
 * [worker] */
cJSON *run_conversation_items(const run_conversation *c);

/* Makes a request follow a loaded conversation, which is the request's from now on: its
 * tail becomes the first items. False: no memory. */
bool run_conversation_attach(run_conversation *c, run_request *request);

/* Changes, to be written. Each false: no memory, or it cannot be read. */
bool run_conversation_describe(run_conversation *c, const cJSON *metadata); /* and its title */
/* *found: whether there is such an item, which is gone now. [worker] */
bool run_conversation_drop(run_conversation *c, const char *item_id, bool *found);
/* The latest turn, from its user's message on; *found: whether there is one. [worker] */
bool run_conversation_undo(run_conversation *c, bool *found);
/* Goes on where another one is, or was when a response of its chain was its head
 * (response_id, or NULL). *found: whether that is in its chain. [worker] */
bool run_conversation_fork(run_conversation *c, const run_conversation *from,
                           const char *response_id, bool *found);

/* Writes it, new or changed; as store.h says. [worker] */
pawl_status run_conversation_write(run_conversation *c, store_done done, void *arg,
                                   pawl_error *error);
pawl_status run_conversation_remove(run_conversation *c, store_done done, void *arg,
                                    pawl_error *error);
/* As in store.h; the page's tenant is the caller's. [worker] */
pawl_status run_conversation_list(run_runtime *runtime, const run_caller *caller, store_page page,
                                  store_conversation ***list, size_t *n, pawl_error *error);

#endif /* RUN_CONVERSATION_H */
