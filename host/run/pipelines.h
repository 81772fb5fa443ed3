/*
 * run/pipelines.h - what api asks of whoever runs pipelines.
 *
 * An interface, so that the dialects need not know scripts, nor scripts dialects: cmd_serve
 * gives one the other. A question is answered by events, like a request: of FOLLOW by a
 * RUN_DELTA for each event of the run (`name` its type, `text` its JSON), at last by one
 * RUN_END whose `stop_reason` says how it went and whose `text` is the answer, a JSON object
 * or list, or for people what was wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PIPELINES_H
#define RUN_PIPELINES_H

#include "run/caller.h"
#include "run/event.h"

enum run_question_kind {
    RUN_ASK_PIPELINES, /* which there are                                    */
    RUN_ASK_START,     /* name: a pipeline, body: its input                  */
    RUN_ASK_RUNS,      /* the caller's                                       */
    RUN_ASK_RUN,       /* name: a run, like all below                        */
    RUN_ASK_EVENTS,    /* those after a number                               */
    RUN_ASK_FOLLOW,    /* the same, and those that come, until the run stops */
    RUN_ASK_CANCEL,
    RUN_ASK_ANSWER /* body: the answer                                   */
};

typedef struct run_question {
    enum run_question_kind kind;
    run_caller caller;
    const char *name; /* copied, like body */
    const char *body; /* JSON, or NULL     */
    uint64_t after;
    size_t limit; /* of a list         */
} run_question;

/* Values of stop_reason; static. */
#define RUN_ANSWER_OK "ok"
#define RUN_ANSWER_INVALID "invalid"   /* what was sent is wrong                 */
#define RUN_ANSWER_CONFLICT "conflict" /* not as the run stands                  */
#define RUN_ANSWER_UNKNOWN "not_found" /* no such pipeline or run                */
#define RUN_ANSWER_BUSY "busy"         /* later                                  */
#define RUN_ANSWER_ERROR "error"       /* our fault, or the disk's               */

/* Somebody who follows a run; counted, so that either side may go first. */
typedef struct run_follower run_follower;

typedef struct run_pipelines {
    void *arg;
    /* END will come, from another thread. False: no memory; none will. follower: of FOLLOW
     * a reference, else untouched. [any] */
    bool (*ask)(void *arg, const run_question *question, run_listener listener,
                run_follower **follower);
    /* END comes soon. [any] */
    void (*unfollow)(run_follower *follower);
    void (*release)(run_follower *follower); /* [any], NULL allowed */
} run_pipelines;

#endif /* RUN_PIPELINES_H */
