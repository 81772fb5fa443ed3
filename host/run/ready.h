/*
 * run/ready.h - whether the models answer: one token through the whole way.
 *
 * A model is ready when a tiny request of our own (not stored, not measured, its
 * sequence given back) has come back from rendering, tokenising, queue, engine and
 * stream with a token. One whose engine has lost its device is not, until the server
 * is started again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_READY_H
#define RUN_READY_H

#include "run/runtime.h"

enum run_readiness {
    RUN_STARTING, /* its token has not come yet        */
    RUN_READY,
    RUN_FAILED, /* it failed; is tried again           */
    RUN_LOST    /* the device is gone: the end of it   */
};

struct run_health {
    atomic_int state;         /* enum run_readiness                         */
    atomic_bool trying;       /* a request of ours is on its way            */
    atomic_bool asked;        /* the worker is to send one                  */
    atomic_int_fast64_t next; /* monotonic ns, before which none is sent    */
};

/* Sends a request to each model that is not ready yet. [any] */
void run_warm_up(run_runtime *runtime);
/* Whether all models are ready; else *why says which is not. Asked again, what failed is
 * tried again, by the worker. [any] */
bool run_is_ready(run_runtime *runtime, char *why, size_t size);
/* The model's engine has said that its device is gone. [any] */
void run_lost(const run_model *model);

#endif /* RUN_READY_H */
