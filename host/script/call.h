/*
 * script/call.h - one turn that a script has started, seen from both sides.
 *
 * The script's thread starts, waits and cancels; the worker, the engine and the store
 * thread bring the answer. Both sides hold a reference; what they share is under the
 * lock of the hub, of which a run has one, and which lives as long as its last call.
 * No Lua here.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_CALL_H
#define SCRIPT_CALL_H

#include "run/runtime.h"

typedef struct call_hub call_hub;

call_hub *call_hub_open(void); /* NULL: no memory */
void call_hub_release(call_hub *hub);
/* Waits until some call has ended since the last time it was asked, or for so long. */
void call_hub_wait(call_hub *hub, int64_t timeout_ms);

typedef struct call call;

/* Gives the request, which becomes the call's, to the worker. NULL: no memory, or the
 * runtime takes no more. */
call *call_start(call_hub *hub, run_runtime *runtime, run_request *request);

/* What became of it. Fixed once `ended`; then the pointers are the call's. */
typedef struct call_outcome {
    bool refused; /* refusal says why, the rest is empty */
    run_refusal refusal;
    run_record *record; /* NULL: no memory for it             */
    const char *stop_reason;
    run_usage usage;
} call_outcome;

/* False: it runs. */
bool call_ended(call *c, const call_outcome **outcome);
/* Ends the turn soon; it still has an outcome. */
void call_cancel(call *c);
/* Gives the script's reference up; a turn that still runs is cancelled. NULL allowed. */
void call_close(call *c);

#endif /* SCRIPT_CALL_H */
