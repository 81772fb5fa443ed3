/*
 * script/limits.h - what a run may use, and how one ends.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_LIMITS_H
#define SCRIPT_LIMITS_H

#include <stddef.h>
#include <stdint.h>

#define SCRIPT_MAX_SOURCE (1u << 20)   /* bytes of a script                            */
#define SCRIPT_MAX_BLOCK (8u << 20)    /* bytes of one string, table part or call stack */
#define SCRIPT_MIN_MEMORY (256u << 10) /* less than this runs nothing                  */

/* 0 means any, but for memory. */
typedef struct script_limits {
    size_t memory;         /* bytes, what the host keeps for the script included       */
    uint64_t instructions; /* of the Lua machine, C functions by their work            */
    int64_t wall_ms;       /* waiting included                                         */
    uint64_t tokens;       /* of all turns, in and out                                 */
    uint64_t calls;        /* turns                                                    */
    uint64_t tool_calls;
} script_limits;

/* How a script ended. All but the first have a message. */
enum script_end {
    SCRIPT_DONE,
    SCRIPT_SYNTAX,       /* it is no Lua text                        */
    SCRIPT_FAILED,       /* an error that it raised, or returned     */
    SCRIPT_MEMORY,       /* more than its memory or SCRIPT_MAX_BLOCK */
    SCRIPT_INSTRUCTIONS, /* these four: more than its limit          */
    SCRIPT_TIME,
    SCRIPT_TOKENS,
    SCRIPT_CALLS,
    SCRIPT_TOOL_CALLS,
    SCRIPT_CANCELLED, /* *cancel was set                          */
    SCRIPT_PARKED     /* it waits for an answer                   */
};

/* "done", "syntax", "script", "memory", "instructions", "time", "tokens", "calls",
 * "tool_calls", "cancelled", "parked". */
const char *script_end_name(enum script_end end);

#endif /* SCRIPT_LIMITS_H */
