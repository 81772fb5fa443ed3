/*
 * run/pace.c - a moving average of turns. See pace.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/pace.h"

#define WEIGHT 8        /* a turn counts for one part in so many                 */
#define MAX_MS 3600000u /* longer ones count as this: sums stay small            */

void run_pace_init(run_pace *pace)
{
    atomic_init(&pace->turn_ms, 0);
}

void run_pace_note(run_pace *pace, uint64_t ms)
{
    uint64_t before = atomic_load(&pace->turn_ms);
    ms = ms > MAX_MS ? MAX_MS : ms + 1; /* never 0 */
    atomic_store(&pace->turn_ms, before ? (before * (WEIGHT - 1) + ms + WEIGHT - 1) / WEIGHT : ms);
}

int run_pace_wait(run_pace *pace, uint32_t waiting, uint32_t at_once)
{
    uint64_t turn_ms = atomic_load(&pace->turn_ms);
    uint64_t served = waiting / 4 + 1; /* until it is worth coming back */
    uint64_t ms = served * turn_ms / (at_once ? at_once : 1);
    uint64_t seconds = ms / 1000 + 1;
    return seconds < RUN_PACE_LONGEST ? (int)seconds : RUN_PACE_LONGEST;
}
