/*
 * tests/plugins/replay/report.c - what replay reports to its host: its passes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

/* Written by init(), before any engine is there; all zero without a host that measures. */
static const pawl_host *host;
static uint64_t passes;
static uint64_t width;
static uint64_t waited;

void replay_report_to(const pawl_host *to)
{
    host = to && PAWL_HAS(to, metric) && PAWL_HAS(to, report) ? to : NULL;
    if (!host)
        return;
    passes = host->metric(host, PAWL_COUNTER, "replay_passes", "Passes of replay engines.");
    width = host->metric(host, PAWL_GAUGE, "replay_width", "Slots of the latest pass.");
    waited = host->metric(host, PAWL_HISTOGRAM, "replay_wait_seconds", "Scripted time of passes.");
}

void replay_report_pass(uint64_t n_slots, uint64_t ms)
{
    if (!host)
        return;
    host->report(host, passes, 1);
    host->report(host, width, (double)n_slots);
    host->report(host, waited, (double)ms / 1000);
}
