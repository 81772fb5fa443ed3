/*
 * store/care.h - pawl.db in the hands of a tool: to look at, to copy, to change.
 *
 * A tool that only reads also works beside the process that holds the folder, on a
 * connection that neither writes nor checkpoints, like those of readers.c. One that
 * changes something holds the folder itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_CARE_H
#define STORE_CARE_H

#include "store/db.h"

enum care_use {
    CARE_COPY,   /* read a file of any version       */
    CARE_READ,   /* read one of this version         */
    CARE_CHANGE, /* hold, migrate and write          */
    CARE_MAKE    /* the same, and make it if need be */
};

typedef struct care {
    char *path; /* of pawl.db                                     */
    int lock;   /* the folder's; -1: another process holds it     */
    sqlite3 *db;
} care;

/* PAWL_E_NOT_FOUND: there is no pawl.db. PAWL_E_BUSY: another process holds the folder (its
 * pid is named) and something is to be changed. PAWL_E_UNSUPPORTED: another version. [main] */
pawl_status care_open(const char *folder, enum care_use use, care *out, pawl_error *error);
/* Empties the log where it wrote. [main] */
void care_close(care *c);

#endif /* STORE_CARE_H */
