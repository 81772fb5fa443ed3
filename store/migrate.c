/*
 * store/migrate.c - is this file ours, and of which version?
 *
 * The file's header holds two numbers: application_id says whose it is,
 * user_version how many scripts have been run on it. Each script is one
 * transaction together with its number, so a file is always of a whole version.
 * There is no way back: the copy that is made before is the way back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/migrate.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* Reads both numbers; a file with neither and without tables is new: version 0. */
static pawl_status read_header(sqlite3 *db, int64_t *owner, int64_t *version, int64_t *tables,
                               pawl_error *error)
{
    pawl_status status = db_get_int(db, "PRAGMA application_id", owner, error);
    if (!status)
        status = db_get_int(db, "PRAGMA user_version", version, error);
    if (!status)
        status = db_get_int(db, "SELECT count(*) FROM sqlite_schema", tables, error);
    return status;
}

pawl_status migrate_check(sqlite3 *db, const db_kind *kind, pawl_error *error)
{
    int64_t owner, version, tables;
    const char *path = sqlite3_db_filename(db, "main");
    pawl_status status = read_header(db, &owner, &version, &tables, error);
    if (status)
        return status;
    if (owner == 0 && version == 0 && tables == 0)
        return PAWL_OK;
    if (owner != kind->application_id)
        return pawl_fail(error, PAWL_E_FORMAT,
                         "%s is a database of another program, not a %s; move it away or choose "
                         "another folder",
                         path, kind->name);
    if (version > kind->version)
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "%s has version %lld; this program knows versions up to %d: use a newer "
                         "one, or another folder",
                         path, (long long)version, kind->version);
    if (version < 1)
        return pawl_fail(error, PAWL_E_FORMAT, "%s has version %lld, which there never was", path,
                         (long long)version);
    return PAWL_OK;
}

/* An empty private file of that name, whatever was there before. */
static int make_private(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return -1;
    return open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
}

/* VACUUM INTO writes a whole, consistent copy, but does not flush it. */
static pawl_status copy_first(sqlite3 *db, int64_t version, pawl_error *error)
{
    const char *path = sqlite3_db_filename(db, "main");
    char *copy = sqlite3_mprintf("%s.v%lld", path, (long long)version);
    char *sql = copy ? sqlite3_mprintf("VACUUM INTO %Q", copy) : NULL;
    pawl_status status = PAWL_OK;
    int fd = -1;
    if (!sql) {
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory to copy %s", path);
        goto done;
    }
    fd = make_private(copy);
    if (fd < 0) {
        status = pawl_fail(error, PAWL_E_DEVICE, "%s: %s", copy, strerror(errno));
        goto done;
    }
    status = db_exec(db, sql, error);
    if (!status && fsync(fd) != 0)
        status = pawl_fail(error, PAWL_E_DEVICE, "%s: fsync: %s", copy, strerror(errno));
    if (!status)
        log_write(PAWL_LOG_INFO, "store", "copied %s to %s before migrating it", path, copy);
done:
    if (fd >= 0)
        close(fd);
    sqlite3_free(sql);
    sqlite3_free(copy);
    return status;
}

static pawl_status step_up(sqlite3 *db, const db_kind *kind, int64_t version, pawl_error *error)
{
    char *numbers =
        sqlite3_mprintf("PRAGMA application_id = %d; PRAGMA user_version = %lld; COMMIT",
                        kind->application_id, (long long)version + 1);
    if (!numbers)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to migrate %s", kind->name);
    pawl_status status = db_exec(db, "BEGIN IMMEDIATE", error);
    if (!status)
        status = db_exec(db, kind->scripts[version], error);
    if (!status)
        status = db_exec(db, numbers, error);
    sqlite3_free(numbers);
    if (status && !sqlite3_get_autocommit(db))
        db_exec(db, "ROLLBACK", NULL);
    return status;
}

pawl_status migrate_run(sqlite3 *db, const db_kind *kind, pawl_error *error)
{
    int64_t version;
    pawl_status status = db_get_int(db, "PRAGMA user_version", &version, error);
    if (!status && version > 0 && version < kind->version)
        status = copy_first(db, version, error);
    for (; !status && version < kind->version; version++)
        status = step_up(db, kind, version, error);
    return status;
}
