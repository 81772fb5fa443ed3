/*
 * store/sqlite_store.h - the embedded store: pawl.db in a data folder.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_SQLITE_STORE_H
#define STORE_SQLITE_STORE_H

#include "base/metrics.h"
#include "store/store.h"

/* Opens or makes folder/pawl.db (folder 0700, files 0600) and holds an exclusive
 * lock on the folder until close(). Refused with the reason: another process
 * holds the folder (PAWL_E_BUSY, its pid is named), the database is of a newer
 * version (PAWL_E_UNSUPPORTED, both versions named), or it is no database of
 * ours (PAWL_E_FORMAT). [main] */
pawl_status sqlite_store_open(const char *folder, store **out, pawl_error *error);
/* The same, and it is measured. all outlives the store; NULL: it is not. */
pawl_status sqlite_store_open_measured(const char *folder, metrics *all, store **out,
                                       pawl_error *error);

#endif /* STORE_SQLITE_STORE_H */
