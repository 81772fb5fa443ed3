/*
 * store/verify.h - is pawl.db sound? And making it so by taking out what is not.
 *
 * What is looked at, in this order:
 *
 *   the file          pages, indexes, types (SQLite's integrity_check)
 *   responses         every column as it must be, JSON that is JSON, items that are items,
 *                     tokens that can be tokens, a prompt no longer than its timeline
 *   the tree          parents that exist, no rings
 *   conversations     the same for their columns; head and base exist and are of the tenant
 *   keys              rows that a server can believe
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_VERIFY_H
#define STORE_VERIFY_H

#include <pawl/plugin.h>

#include <stdbool.h>

/* One thing that is not as it must be. where: an id, or what else names it. */
typedef void (*verify_found)(void *arg, const char *where, const char *what);

typedef struct verify_report {
    int64_t responses, conversations, keys; /* that were looked at                    */
    int64_t faults;                         /* that were found                        */
    int64_t unneeded; /* removed responses that nothing needs: no fault, for gc */
    int64_t removed;  /* by a repair: responses and conversations               */
    int64_t moved;    /* conversations that went back to a sound response       */
    char copy[512];   /* the file as it was before a repair; "": none was made  */
} verify_report;

/* Also beside the process that holds the folder. [main] */
pawl_status verify_run(const char *folder, verify_found found, void *arg, verify_report *out,
                       pawl_error *error);

/* The same, and then takes out what is damaged: such a response with all its descendants,
 * whose history it is, and such a conversation. A conversation whose head goes is set back to
 * the nearest sound ancestor. Needs the folder; the file is copied before. Damaged keys stay,
 * for they keep a server closed. PAWL_E_FORMAT: that did not help. [main] */
pawl_status verify_repair(const char *folder, verify_found found, void *arg, verify_report *out,
                          pawl_error *error);

#endif /* STORE_VERIFY_H */
