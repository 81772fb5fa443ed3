/*
 * run/pace.h - how long turns take, and so how long others should wait.
 *
 * A moving average, written by the engine thread and read by any.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PACE_H
#define RUN_PACE_H

#include <stdatomic.h>
#include <stdint.h>

#define RUN_PACE_LONGEST 120 /* seconds that anybody is told to wait */

typedef struct run_pace {
    atomic_uint_least64_t turn_ms; /* on the average; 0: none has ended yet */
} run_pace;

void run_pace_init(run_pace *pace);
/* A turn ran for so long. [engine] */
void run_pace_note(run_pace *pace, uint64_t ms);
/* Seconds, 1 to RUN_PACE_LONGEST, after which a quarter of those who wait will have been
 * served: whoever was refused finds a place then, and they do not all come back for the
 * first one. at_once: how many run side by side. [any] */
int run_pace_wait(run_pace *pace, uint32_t waiting, uint32_t at_once);

#endif /* RUN_PACE_H */
