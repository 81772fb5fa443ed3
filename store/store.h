/*
 * store/store.h - what outlives the process: responses and the tree they form,
 * conversations, which are names for a place in that tree, and keys.
 *
 * An interface: a store is a table of functions and its own state, so that the
 * embedded SQLite store (sqlite_store.h) can be joined by a shared one. The same
 * contract tests run on every implementation.
 *
 * Writes are asynchronous. They copy what they need and queue it; the store's own
 * thread does it and then calls done() from that thread, once, with
 * PAWL_OK only when the write will survive `kill -9` and a power cut. A full
 * queue is PAWL_E_BUSY at once and done() is not called. Reads are synchronous
 * and see every write whose done() was called. All functions are [any]; done()
 * must be quick and may call what writes, but not close.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <pawl/plugin.h>

#include <stdbool.h>

/* The status of a response that was accepted and has not ended. */
#define STORE_QUEUED "queued"

/* One finished response: an immutable node of the tree, but for a queued one. JSON members are
 * texts of the shape that host/api gives them; the store does not look inside. */
typedef struct store_response {
    const char *id;        /* "resp_…"                                           */
    const char *parent_id; /* previous_response_id, or NULL at a root            */
    const char *model;     /* the name it was asked for by                       */
    const char *status;    /* completed, incomplete, failed, cancelled; STORE_QUEUED */
    int64_t created_ms;    /* wall clock                                         */
    int64_t completed_ms;
    const char *request;   /* JSON object: what the Response object echoes       */
    const char *input;     /* JSON array: this response's own input items        */
    const char *output;    /* JSON array: its output items                       */
    const char *result;    /* JSON object: usage, error, incomplete_details      */
    const int32_t *tokens; /* the whole timeline: prompt, then what was generated */
    uint64_t n_tokens;
    uint64_t n_prompt;  /* how many of them are the prompt                    */
    const char *tenant; /* whose it is, up to 64 bytes; NULL is ""            */
    /* The conversation that it was made in, or NULL. */
    const char *conversation_id;
    /* For put: it becomes that conversation's head, whose tail is then empty, if the
     * conversation still has this revision; 0: the conversation stays as it is. */
    uint64_t conversation_revision;
    /* For put() alone; get() gives neither: */
    const char *key;      /* Idempotency-Key that it answers, or NULL           */
    const char *key_hash; /* of what was asked with it                          */
} store_response;

/* A conversation: what is said in it are the items of its head and the head's
 * ancestors, and after them those of its tail. */
typedef struct store_conversation {
    const char *id;       /* "conv_…"                                             */
    const char *tenant;   /* as in store_response                                 */
    const char *title;    /* up to 512 bytes; "" or NULL: none                    */
    const char *metadata; /* JSON object                                          */
    const char *tail;     /* JSON array: items that no response has seen yet      */
    const char *head_id;  /* its latest response, or NULL                         */
    const char *base_id;  /* without a head: whose timeline the tail once was, or NULL */
    int64_t created_ms;   /* wall clock                                           */
    int64_t updated_ms;
    uint64_t revision; /* as it was read; 0: there is none of this id yet     */
} store_conversation;

/* Which conversations, by time of creation. */
typedef struct store_page {
    const char *tenant;
    const char *title; /* only those of this title, or NULL: all; the one changed last
                        * comes first, and the two below do not count             */
    const char *after; /* id of a conversation that is before the first, or NULL   */
    bool ascending;
    size_t limit; /* up to STORE_MAX_PAGE                                    */
} store_page;

#define STORE_MAX_PAGE 1000

/* Bits for get(). */
enum store_get {
    STORE_GET_REMOVED = 1, /* also a removed one that others descend from       */
    STORE_GET_TEXTS = 2    /* no tokens, tenant and conversation: quicker, for chains */
};

#define STORE_MAX_KEY 255                              /* bytes of an Idempotency-Key */
#define STORE_ANSWER_MS ((int64_t)24 * 60 * 60 * 1000) /* how long one is known       */
#define STORE_ID_SIZE 65                               /* of a response, with NUL     */

/* What answered a key. */
typedef struct store_answer {
    char hash[65]; /* of what was asked */
    char response_id[STORE_ID_SIZE];
} store_answer;

#define STORE_MAX_KEYS 4096    /* rows, revoked ones too                     */
#define STORE_KEY_ID_SIZE 24   /* with NUL, like those below                 */
#define STORE_KEY_HASH_SIZE 65 /* SHA-256 in lower-case hex                  */
#define STORE_KEY_HINT_SIZE 16 /* the secret's first characters              */
#define STORE_KEY_NAME_SIZE 65 /* of name and tenant                         */

/* What a key allows; bits. */
enum store_scope {
    STORE_SCOPE_INFERENCE = 1, /* models, and what the key's tenant has stored */
    STORE_SCOPE_METRICS = 2,   /* /metrics                                     */
    STORE_SCOPE_ADMIN = 4,     /* DELETE, and all of the above                 */
    STORE_SCOPES_ALL = 7
};

/* A key, without its secret, which nobody keeps. All times are of the wall clock. */
typedef struct store_key {
    char id[STORE_KEY_ID_SIZE];       /* "key_…"                                      */
    char hash[STORE_KEY_HASH_SIZE];   /* of the secret                                */
    char hint[STORE_KEY_HINT_SIZE];   /* to recognise it by                           */
    char name[STORE_KEY_NAME_SIZE];   /* for people and log lines                     */
    char tenant[STORE_KEY_NAME_SIZE]; /* whose responses it sees and makes          */
    uint32_t scopes;                  /* of enum store_scope                          */
    int64_t created_ms;
    int64_t expires_ms; /* 0: never                                     */
    int64_t revoked_ms; /* 0: it is not                                 */
    int64_t used_ms;    /* 0: never                                     */
} store_key;

enum store_key_mark {
    STORE_KEY_REVOKED, /* for good; a second time changes nothing */
    STORE_KEY_USED     /* the latest time stays                   */
};

typedef void (*store_done)(void *arg, pawl_status status, const pawl_error *error);

typedef struct store store;

struct store {
    /* A response of the same id must not exist (PAWL_E_ARGUMENT through done), unless it
     * is queued: then it is replaced. A parent that does not exist is PAWL_E_NOT_FOUND
     * through done, like a conversation that is to have it as its head; one that has changed
     * since is PAWL_E_BUSY, one whose head is not the parent PAWL_E_ARGUMENT. Refused at
     * once: members that are missing, ids that have not 1 to 64 bytes (PAWL_E_ARGUMENT),
     * texts over 64 MiB, timelines over 16 Mi tokens (PAWL_E_LIMIT). Through done, the disk:
     * PAWL_E_LIMIT it is full, PAWL_E_DEVICE it failed, PAWL_E_BUSY it is being recovered;
     * the write may then be there or not. */
    pawl_status (*put)(store *s, const store_response *response, store_done done, void *arg,
                       pawl_error *error);

    /* PAWL_E_NOT_FOUND: never was, or was removed. The result is one allocation of
     * the caller's, to be free()d. how: bits of enum store_get. */
    pawl_status (*get)(store *s, const char *id, int how, store_response **response,
                       pawl_error *error);

    /* Removes a response: get() no longer finds it, it answers no key and, but in a
     * conversation whose head it is, it can be nobody's new parent. Its row goes as soon as
     * nothing descends from it and no conversation has it as its head.
     * PAWL_E_NOT_FOUND through done: there is no such response. */
    pawl_status (*remove)(store *s, const char *id, store_done done, void *arg, pawl_error *error);

    /* Which response answered a tenant's key at or after since_ms. PAWL_E_NOT_FOUND: none.
     * The response itself may be gone. */
    pawl_status (*answer_find)(store *s, const char *tenant, const char *key, int64_t since_ms,
                               store_answer *answer, pawl_error *error);

    /* Finishes what is queued, calls the outstanding done()s, ends the thread. */
    void (*close)(store *s);

    /* Adds a key. Refused at once: no id, no hash of 64 hex digits, an empty name or
     * texts that are not printable, scopes that do not exist (PAWL_E_ARGUMENT).
     * Through done: id or hash exist (PAWL_E_ARGUMENT), STORE_MAX_KEYS (PAWL_E_LIMIT),
     * the disk. */
    pawl_status (*key_add)(store *s, const store_key *key, store_done done, void *arg,
                           pawl_error *error);

    /* Sets one of a key's times. PAWL_E_NOT_FOUND through done: there is no such key. */
    pawl_status (*key_mark)(store *s, const char *id, enum store_key_mark mark, int64_t when_ms,
                            store_done done, void *arg, pawl_error *error);

    /* The key of this hash, revoked or expired too; or of this id, where hash is NULL.
     * From memory, in a time that does not depend on which it is. False: none. */
    bool (*key_find)(store *s, const char *hash, const char *id, store_key *key);

    /* How many keys there ever were. From memory. */
    size_t (*key_count)(store *s);

    /* All keys, oldest first, in one allocation that the caller free()s. */
    pawl_status (*key_list)(store *s, store_key **keys, size_t *n_keys, pawl_error *error);

    /* Makes a conversation, or changes the one that was read with this revision. Refused
     * at once: as put(), and a base beside a head (PAWL_E_ARGUMENT). Through done: there
     * is one of this id already (PAWL_E_ARGUMENT), it was changed since it was read
     * (PAWL_E_BUSY), it or its head is gone (PAWL_E_NOT_FOUND), the disk. */
    pawl_status (*conversation_put)(store *s, const store_conversation *conversation,
                                    store_done done, void *arg, pawl_error *error);

    /* As get(). */
    pawl_status (*conversation_get)(store *s, const char *id, store_conversation **conversation,
                                    pawl_error *error);

    /* Their tails are left out (NULL). *list and each of its *n are the caller's to free().
     * PAWL_E_NOT_FOUND: there is no conversation `after`, or it is another tenant's. */
    pawl_status (*conversation_list)(store *s, const store_page *page, store_conversation ***list,
                                     size_t *n, pawl_error *error);

    /* Removes a conversation and every response that was made in it and that nothing else
     * needs: those that others descend from, or that are another one's head, are removed
     * as by remove(). PAWL_E_NOT_FOUND through done: there is no such conversation. */
    pawl_status (*conversation_remove)(store *s, const char *id, store_done done, void *arg,
                                       pawl_error *error);
};

#endif /* STORE_STORE_H */
