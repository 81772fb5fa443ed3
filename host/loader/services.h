/*
 * loader/services.h - what the host gives to a plugin: its pawl_host.
 *
 * Each plugin gets a table of its own, so that what it reports carries its id. A
 * plugin's metric NAME is shown as pawl_plugin_NAME with the label plugin; a counter's
 * report is added, a gauge's set, a histogram's observed. A name that Prometheus could
 * not take, or one too many, gets the handle 0, which is ignored.
 *
 * The table lives in its owner's memory and must not move. Its functions are [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_SERVICES_H
#define LOADER_SERVICES_H

#include "base/metrics.h"

#include <stdatomic.h>

#define SERVICES_MAX_METRICS 64 /* of one plugin */

typedef struct services {
    pawl_host host; /* what the plugin holds; host.context is this  */
    metrics *all;   /* NULL: nothing is measured                    */
    const char *id; /* the plugin's; outlives this                  */
    int32_t types[SERVICES_MAX_METRICS];
    metric *_Atomic handles[SERVICES_MAX_METRICS]; /* handle h is handles[h - 1] */
    atomic_uint taken;                             /* how many were given out    */
} services;

void services_init(services *s, metrics *all, const char *plugin_id);

#endif /* LOADER_SERVICES_H */
