/*
 * store/stats.h - what is in pawl.db: rows, bytes, tenants, times.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_STATS_H
#define STORE_STATS_H

#include <pawl/plugin.h>

#include "store/store.h"

typedef struct stats_tenant {
    char tenant[STORE_KEY_NAME_SIZE]; /* "": nobody's key was asked for */
    int64_t responses;                /* that are not removed           */
    int64_t conversations;
    int64_t bytes; /* of texts and tokens, removed ones too */
} stats_tenant;

#define STATS_MAX_TENANTS 4096

typedef struct stats {
    int64_t file_bytes, log_bytes; /* of pawl.db and its write-ahead log         */
    int64_t unused_bytes;          /* of the file: what a gc would give back     */
    int64_t version;
    int64_t responses, removed; /* removed: kept for others only             */
    int64_t conversations;
    int64_t keys, keys_revoked;   /* keys: all of them                         */
    int64_t tokens;               /* of all timelines                          */
    int64_t oldest_ms, newest_ms; /* of responses; 0: there is none            */
    stats_tenant *tenants;        /* n_tenants, the largest first              */
    size_t n_tenants;             /* up to STATS_MAX_TENANTS                   */
} stats;

/* Also beside the process that holds the folder. [main] */
pawl_status stats_read(const char *folder, stats *out, pawl_error *error);
void stats_clear(stats *s);

#endif /* STORE_STATS_H */
