/*
 * script/script.h - one pipeline: a Lua file run under budgets on the served models.
 *
 * script_run() owns the thread that calls it until the script has ended; every run
 * has a Lua state of its own, so runs share nothing. Turns that a script starts go
 * through run_start() like a client's and are cancelled when the script ends early.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include "run/runtime.h"

#include <stdatomic.h>

#define SCRIPT_API 1                   /* what a script reads as pawl.api              */
#define SCRIPT_MAX_SOURCE (1u << 20)   /* bytes of a script                            */
#define SCRIPT_MAX_BLOCK (8u << 20)    /* bytes of one string, table part or call stack */
#define SCRIPT_MIN_MEMORY (256u << 10) /* less than this runs nothing                  */
#define SCRIPT_MAX_PARAMS 64

/* How a script ended. All but the first have a message. */
enum script_end {
    SCRIPT_DONE,
    SCRIPT_SYNTAX,       /* it is no Lua text                        */
    SCRIPT_FAILED,       /* an error that it raised, or returned     */
    SCRIPT_MEMORY,       /* more than max_memory or SCRIPT_MAX_BLOCK */
    SCRIPT_INSTRUCTIONS, /* more than max_instructions               */
    SCRIPT_TIME,         /* longer than max_ms                       */
    SCRIPT_CANCELLED     /* *cancel was set                          */
};

/* What a script says while it runs, on the thread that runs it. */
typedef struct script_listener {
    void (*emit)(void *arg, const char *json, size_t size); /* one JSON value, no line break */
    void (*progress)(void *arg, double done, double total, const char *note);
    void (*log)(void *arg, int32_t level, const char *text); /* enum pawl_log_level */
    void *arg;
} script_listener;

typedef struct script_param {
    const char *name;
    const char *value;
} script_param;

typedef struct script_config {
    run_runtime *runtime; /* NULL: no model is there                             */
    const base_clock *clock;
    const char *name; /* what messages call the script                       */
    const char *source;
    size_t size;
    const script_param *params;
    size_t n_params;
    size_t max_memory;         /* bytes, what the host keeps for the script included  */
    uint64_t max_instructions; /* of the Lua machine, C functions by their work; 0: any */
    int64_t max_ms;            /* of wall clock, waiting included; 0: any             */
    const atomic_bool *cancel; /* once true the script ends within 50 ms; NULL: never */
    script_listener listener;  /* members may be NULL                                 */
} script_config;

typedef struct script_result {
    enum script_end end;
    char *message;   /* NULL when done                                 */
    char *traceback; /* of SCRIPT_FAILED and of what a budget stopped, else NULL */
    uint64_t instructions;
    size_t peak_memory;
    int64_t elapsed_ns;
} script_result;

/* Runs a script to its end, whatever that is. [any], one thread a run */
void script_run(const script_config *config, script_result *result);
void script_result_clear(script_result *result);

/* "done", "syntax", "script", "memory", "instructions", "time", "cancelled". */
const char *script_end_name(enum script_end end);

#endif /* SCRIPT_SCRIPT_H */
