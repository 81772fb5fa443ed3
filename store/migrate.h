/*
 * store/migrate.h - is this file ours, and of which version?
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_MIGRATE_H
#define STORE_MIGRATE_H

#include "store/db.h"

/* Only reads. PAWL_E_FORMAT: the file is no database, damaged, or another
 * program's. PAWL_E_UNSUPPORTED: it is newer than this build. [owner] */
pawl_status migrate_check(sqlite3 *db, const db_kind *kind, pawl_error *error);

/* Brings a checked file to kind->version; a file of an older version is first
 * copied to PATH.vN. [owner] */
pawl_status migrate_run(sqlite3 *db, const db_kind *kind, pawl_error *error);

#endif /* STORE_MIGRATE_H */
