/*
 * terminal/reply.h - one turn in the terminal: asked, shown as it comes, stopped.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TERMINAL_REPLY_H
#define TERMINAL_REPLY_H

#include "terminal/session.h"

#include <stdio.h>

/* How replies are wished for and shown. */
typedef struct reply_style {
    const char *system;      /* instructions, or NULL                     */
    uint64_t max_tokens;     /* of a reply; 0: until the context is full  */
    double temperature;      /* negative: the default                     */
    FILE *out;               /* where it is shown                         */
    bool live;               /* that is a terminal: thoughts are shown, dim */
    int wake;                /* an eventfd: readable after a signal       */
    atomic_uint *interrupts; /* signals that ask for a stop; taken to 0 */
    atomic_bool *stop;       /* the whole process is to end               */
} reply_style;

enum reply_end {
    REPLY_DONE,    /* it said all it wanted                          */
    REPLY_CUT,     /* a limit ended it                               */
    REPLY_STOPPED, /* the user did, while it spoke: what it said stays */
    REPLY_DROPPED, /* the user did before that: the turn is gone     */
    REPLY_FAILED   /* session->why                                   */
};

/* [main] */
enum reply_end reply_run(session *s, const reply_style *style, const char *text);

/* Shows text; what could steer a terminal is left out. */
void reply_show(FILE *out, const char *text);

#endif /* TERMINAL_REPLY_H */
