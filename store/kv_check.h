/*
 * store/kv_check.h - kv.db while nobody serves from it: is it whole, what is in it, make it
 * smaller. For `pawl store check|stats|gc`.
 *
 * The caller holds the data folder (folder.h) and has no kv open on it. All are [main] and
 * take as long as the disk takes to read kv.db. A newer version is PAWL_E_UNSUPPORTED.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_KV_CHECK_H
#define STORE_KV_CHECK_H

#include "store/kv.h"

typedef struct kv_check_report {
    uint64_t chunks, bytes; /* that are whole, and their payloads                        */
    uint64_t damaged;       /* rows that make no sense, or whose checksum is wrong        */
    uint64_t unreachable;   /* chunks whose ancestor is not there, or is damaged          */
    uint64_t strays;        /* pieces that belong to no chunk                             */
    uint64_t unfinished;    /* pieces of a chunk that was being written; no fault         */
    uint64_t removed;       /* chunks that the repair took away                           */
    bool broken;            /* the file itself is damaged: a repair makes it anew         */
} kv_check_report;

/* One thing that is not as it must be, as in verify.h: "chunk 12", "its payload is damaged". */
typedef void (*kv_check_found)(void *arg, const char *where, const char *what);

/* Reads everything. repair: removes what is wrong, after which a check finds nothing. found() is
 * told each finding; NULL: nobody is. PAWL_OK: it could be checked; report says how
 * it is. No kv.db is PAWL_OK, with zeros. */
pawl_status kv_check(const char *folder, bool repair, kv_check_found found, void *arg,
                     kv_check_report *report, pawl_error *error);
/* True: nothing that a crash alone does not explain. */
bool kv_check_is_clean(const kv_check_report *report);

typedef struct kv_survey_report {
    uint64_t chunks, tokens, bytes; /* payloads                                          */
    uint64_t tenants;
    uint64_t hits;                /* uses, of all of them                              */
    uint64_t never_used;          /* chunks                                            */
    uint64_t file_bytes;          /* kv.db and its log                                 */
    uint64_t free_bytes;          /* of them, pages that nothing is in                 */
    int64_t oldest_ms, newest_ms; /* last uses, wall clock; 0: no chunks               */
} kv_survey_report;

/* From rows alone: quick. */
pawl_status kv_survey(const char *folder, kv_survey_report *report, pawl_error *error);

/* Evicts, as the server would, until kv.db takes no more than so many bytes; 0 deletes it. */
pawl_status kv_gc(const char *folder, uint64_t bytes, uint64_t *removed_chunks, pawl_error *error);

#endif /* STORE_KV_CHECK_H */
