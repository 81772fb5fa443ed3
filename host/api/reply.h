/*
 * api/reply.h - the answer to a Chat Completions or Completions request, as it grows.
 *
 *   run             streamed                            folded
 *   IN_PROGRESS     a choice's first chunk              -
 *   ITEM_BEGIN      a call's id and name (Chat)         -
 *   DELTA           a chunk                             -
 *   ITEM_END        -                                   gathered
 *   CHOICE_END      a chunk with the finish_reason      finish_reason, usage
 *   END             the same, usage if wished, [DONE]   the body
 *
 * What differs between the two dialects is a reply_dialect: the shape of a choice. A turn
 * that fails ends everything: one {"error":…} and no [DONE], or an error for the body. A
 * reply belongs to one api_call and to the thread that has the call.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef API_REPLY_H
#define API_REPLY_H

#include "api/error.h"
#include "api/parse.h"
#include "base/buf.h"

#define REPLY_ID_SIZE 48
#define REPLY_MAX_BYTES ((size_t)512 << 20)

typedef struct reply_choice {
    bool begun;         /* its first chunk was sent                       */
    const char *finish; /* "stop", "length", "tool_calls"; NULL: it runs  */
    uint32_t n_calls;
    uint64_t n_characters; /* of its text so far                          */
    bool has_text;
    buf text;        /* gathered for a body                               */
    buf reasoning;   /* the same                                          */
    buf calls;       /* the same: JSON objects, commas between them       */
    cJSON *logprobs; /* the same: array as in run/event.h, or NULL        */
} reply_choice;

typedef struct reply reply;

typedef struct reply_dialect {
    const char *id_prefix; /* "chatcmpl-"                         */
    const char *object;    /* of a body                           */
    const char *chunk;     /* the object of a chunk               */
    /* Each appends members of one choice behind its {"index":…. */
    void (*begin)(reply *r, reply_choice *choice, buf *out);  /* before the first delta      */
    void (*finish)(reply *r, reply_choice *choice, buf *out); /* behind the last delta       */
    void (*whole)(reply *r, reply_choice *choice, buf *out);  /* for a body                  */
    /* False: there is nothing to send of this event. */
    bool (*delta)(reply *r, reply_choice *choice, const run_event *event, buf *out);
    /* An item that is done. May take of the event what it wants to keep. */
    void (*gather)(reply *r, reply_choice *choice, run_event *event);
} reply_dialect;

struct reply {
    const reply_dialect *dialect;
    char id[REPLY_ID_SIZE];
    int64_t created; /* seconds                                             */
    char *model;
    char *prompt; /* what stands before each text, or NULL                   */
    bool logprobs;
    bool include_usage;
    size_t n_choices;
    reply_choice choices[RUN_MAX_CHOICES];
    run_usage usage; /* of the choices that have ended; the prompt counts once */
    buf text;        /* the chunk that is being written                     */
    bool failed;     /* error says why; nothing more is sent                */
    api_error error;
};

extern const reply_dialect reply_chat;        /* reply_chat.c        */
extern const reply_dialect reply_completions; /* reply_completions.c */

/* Takes from the request what it needs of it. prompt: for an echo, or NULL. NULL without
 * memory. */
reply *reply_open(const reply_dialect *dialect, const run_request *request,
                  const parse_choices *choices, const char *prompt);
void reply_close(reply *r); /* NULL allowed */

/* One event of run; emit NULL: only gathers. The event stays the caller's. */
void reply_event(reply *r, run_event *event, api_emit emit, void *arg);
/* After END, unless it failed: the whole answer. False: it is too large. */
bool reply_body(reply *r, buf *out);

#endif /* API_REPLY_H */
