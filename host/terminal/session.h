/*
 * terminal/session.h - what is said in the terminal, kept or not.
 *
 * A session with a store is a conversation (run/conversation.h) whose title is its name;
 * without one it is a chain of records in memory, which ends with the process. Whatever
 * reads or writes goes through run's worker, for which [main] waits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TERMINAL_SESSION_H
#define TERMINAL_SESSION_H

#include "run/conversation.h"

#define SESSION_MAX_NAME 200
#define SESSION_WHY 400

typedef struct session {
    run_runtime *runtime;
    bool kept;                       /* there is a store                          */
    char id[CLOCK_ID_SIZE + 32];     /* of its conversation; "" none           */
    char name[SESSION_MAX_NAME + 1]; /* "" none                            */
    size_t n_items;                  /* of it when it was opened                  */
    run_record *last;                /* without a store: its latest record        */
    char why[SESSION_WHY];           /* why the last function said false      */
} session;

/* Opens the session of this name, or of this id, or makes it; name NULL: one without a
 * name. [main] */
bool session_open(session *s, run_runtime *runtime, bool kept, const char *name);
void session_close(session *s); /* [main] */

/* Begins a new one; name may be NULL. */
bool session_new(session *s, const char *name);
/* Goes on in a new one of this name, which nobody may have. */
bool session_fork(session *s, const char *name);
/* Takes the latest turn back; *taken is its user's text, to be free()d, or NULL. */
bool session_undo(session *s, char **taken);
/* One line for each session, the one that was made last first. */
bool session_list(session *s, buf *out);

/* Gives a request its history and the message. [worker] */
bool session_attach(session *s, run_request *request, cJSON *message);
/* The record of a turn that can be gone on from. [main] */
void session_advance(session *s, run_record *record);

/* Runs job(arg) on the worker and waits for it. False: the worker takes nothing more. */
bool session_on_worker(session *s, void (*job)(void *arg), void *arg);

#endif /* TERMINAL_SESSION_H */
