/*
 * store/care.c - pawl.db in the hands of a tool. See care.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/care.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "store/folder.h"
#include "store/migrate.h"
#include "store/responses.h"

static pawl_status check_version(sqlite3 *db, const char *path, enum care_use use,
                                 pawl_error *error)
{
    int64_t version = 0;
    pawl_status status = migrate_check(db, &responses_kind, error);
    if (status || use == CARE_COPY)
        return status;
    status = db_get_int(db, "PRAGMA user_version", &version, error);
    if (!status && version != responses_kind.version)
        status = pawl_fail(error, PAWL_E_UNSUPPORTED,
                           "%s has version %lld, and this program works on version %d; a start of "
                           "`pawl serve` on it brings it there",
                           path, (long long)version, responses_kind.version);
    return status;
}

static pawl_status open_db(care *c, enum care_use use, pawl_error *error)
{
    if (use == CARE_CHANGE || use == CARE_MAKE) {
        pawl_status status = folder_own_file(c->path, error);
        return status ? status : db_open_writer(c->path, &responses_kind, &c->db, error);
    }
    pawl_status status = db_open_reader(c->path, &c->db, error);
    if (!status)
        status = check_version(c->db, c->path, use, error);
    /* The file is open for reading only; temporary tables are ours to write. */
    return status ? status : db_exec(c->db, "PRAGMA query_only = OFF", error);
}

pawl_status care_open(const char *folder, enum care_use use, care *out, pawl_error *error)
{
    struct stat st;
    care c = {.path = file_join(folder, "pawl.db"), .lock = -1};
    pawl_status status = PAWL_OK;
    if (!c.path)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", folder);
    if (use != CARE_MAKE && stat(c.path, &st) != 0)
        status = pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", c.path, strerror(errno));
    if (!status)
        status = folder_open(folder, &c.lock, error);
    if (status == PAWL_E_BUSY && (use == CARE_COPY || use == CARE_READ))
        status = PAWL_OK;
    if (!status)
        status = open_db(&c, use, error);
    if (status) {
        care_close(&c);
        return status;
    }
    *out = c;
    return PAWL_OK;
}

void care_close(care *c)
{
    if (c->db && !sqlite3_db_readonly(c->db, "main"))
        db_checkpoint(c->db, SQLITE_CHECKPOINT_TRUNCATE, NULL);
    db_close(c->db);
    folder_close(c->lock);
    free(c->path);
    *c = (care){.lock = -1};
}
