/*
 * script/script.h - one run of a pipeline: a Lua state under budgets on the served models.
 *
 * A script is opened, begun, and then stepped until it has ended, by one thread at a time.
 * A step never waits: where the script does, the hub of its config is told when there is
 * something to go on with (pending.h). Every run has a Lua state of its own, so runs share
 * nothing. Turns that a script starts go through run_start() like a client's and are
 * cancelled when it ends early.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include "run/runtime.h"
#include "script/journal.h"
#include "script/pipeline.h"

#include <stdatomic.h>

#define SCRIPT_API 1 /* what a script reads as h.api */

typedef struct script_grants script_grants; /* grants.h */

typedef struct script_config {
    run_runtime *runtime; /* NULL: no model is there                        */
    const base_clock *clock;
    pipeline *pipeline; /* borrowed                                       */
    script_limits limits;
    const atomic_bool *cancel; /* once true the script ends at its next step's first look at
                                * it; NULL: never                                */
    pending_hub *hub;          /* borrowed; NULL: it cannot wait                 */
    journal *journal;          /* borrowed; NULL: nobody hears what it says      */
    const char *id;            /* of the run; NULL: it has none                  */
    bool resumed;              /* it has run before: what it kept is asked for   */
    run_caller caller;
    const script_grants *grants; /* borrowed; NULL: none                           */
} script_config;

typedef struct script script;

enum script_step {
    SCRIPT_READY, /* its slice is over: step it again          */
    SCRIPT_WAITS, /* for the hub, or until script_due()        */
    SCRIPT_ENDED
};

/* Opens a state and loads the pipeline into it. The config's members outlive it. False:
 * *result says why not. */
bool script_open(const script_config *config, script **out, script_result *result);
/* Calls the pipeline's function, at the next step. input: JSON object, checked. */
void script_begin(script *s, const char *input);
/* Goes on for about so long (0: until it waits or ends). */
enum script_step script_step(script *s, int64_t slice_ns);
/* When there is something to do even if the hub is silent: monotonic, ns. */
int64_t script_due(const script *s);
/* How it ended; *result is the caller's to clear. Then closes it. */
void script_close(script *s, script_result *result);

/* All of the above on this thread, waiting included, until the script has ended. */
void script_run(const script_config *config, const char *input, script_result *result);

#endif /* SCRIPT_SCRIPT_H */
