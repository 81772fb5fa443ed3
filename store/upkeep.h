/*
 * store/upkeep.h - a copy of pawl.db, and a smaller pawl.db.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_UPKEEP_H
#define STORE_UPKEEP_H

#include <pawl/plugin.h>

/* A whole, consistent copy in a new file of mode 0600, checked and flushed before it gets
 * its name; also beside the process that holds the folder. *bytes: its size.
 * PAWL_E_ARGUMENT: there is such a file. [main] */
pawl_status upkeep_backup(const char *folder, const char *to, int64_t *bytes, pawl_error *error);

/* What a gc did. */
typedef struct upkeep_gc_report {
    int64_t removed;                   /* rows that were only kept for nobody    */
    int64_t before_bytes, after_bytes; /* of the file                      */
} upkeep_gc_report;

/* Deletes the removed responses that nothing needs any more, and gives the space of all
 * that was deleted back to the disk. Needs the folder, and as much room as the file. [main] */
pawl_status upkeep_gc(const char *folder, upkeep_gc_report *out, pawl_error *error);

#endif /* STORE_UPKEEP_H */
