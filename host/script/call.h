/*
 * script/call.h - one turn that a script has started, seen from both sides.
 *
 * The script's thread starts, waits and cancels; the worker, the engine and the store
 * thread bring the answer. What both touch is under the hub's lock (pending.h). No Lua.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_CALL_H
#define SCRIPT_CALL_H

#include "run/runtime.h"
#include "script/pending.h"

/* What became of it. Fixed once it has ended; the pointers are the call's. */
typedef struct call_outcome {
    bool refused; /* refusal says why, the rest is empty */
    run_refusal refusal;
    run_record *record; /* NULL: no memory for it             */
    const char *stop_reason;
    run_usage usage;
    double score; /* as in run/event.h                  */
    uint64_t n_scored;
} call_outcome;

typedef struct call {
    pending base;
    run_runtime *runtime;
    run_request *request; /* until the job gives it to run_start() */
    run_turn *turn;       /* NULL: not started yet, or refused     */
    uint64_t number;      /* which of the run's turns it is, from 1 */
    bool streams;         /* deltas are kept for call_take_text()  */
    buf text;             /* under the lock: what came since       */
    buf reasoning;
    call_outcome outcome;
} call;

/* Gives the request, which becomes the call's, to the worker. NULL: no memory, or the
 * runtime takes no more. */
call *call_start(pending_hub *hub, run_runtime *runtime, run_request *request, uint64_t number,
                 bool streams);

/* Takes the text that came since the last time; NULL: none. To be free()d. */
char *call_take_text(call *c, bool reasoning);

#endif /* SCRIPT_CALL_H */
