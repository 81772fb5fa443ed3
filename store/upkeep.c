/*
 * store/upkeep.c - a copy of pawl.db, and a smaller pawl.db. See upkeep.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/upkeep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "store/care.h"
#include "store/responses.h"

/* ----------------------------------------------------------------- backup --- */

/* Whether the copy is a sound database of ours. */
static pawl_status check_copy(const char *path, pawl_error *error)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *check = NULL;
    pawl_status status = PAWL_OK;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        status = pawl_fail(error, PAWL_E_DEVICE, "%s: the copy cannot be opened", path);
    if (!status)
        status = db_prepare(db, "PRAGMA quick_check(1)", &check, error);
    const char *said = "nothing";
    if (!status && sqlite3_step(check) == SQLITE_ROW)
        said = (const char *)sqlite3_column_text(check, 0);
    if (!status && (!said || strcmp(said, "ok") != 0))
        status = pawl_fail(error, PAWL_E_FORMAT, "%s: the copy is damaged: %s", path,
                           said ? said : "no memory");
    sqlite3_finalize(check);
    sqlite3_close(db);
    return status;
}

/* Flushes the copy and gives it its name, which nobody may have taken meanwhile. */
static pawl_status name_copy(const char *copy, int fd, const char *to, pawl_error *error)
{
    if (fsync(fd) != 0)
        return pawl_fail(error, PAWL_E_DEVICE, "%s: fsync: %s", copy, strerror(errno));
    if (link(copy, to) != 0)
        return pawl_fail(error, errno == EEXIST ? PAWL_E_ARGUMENT : PAWL_E_DEVICE, "%s: %s", to,
                         strerror(errno));
    char *folder = strdup(to);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        slash[slash == folder] = '\0';
    int in = folder ? open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    free(folder);
    if (in >= 0) {
        fsync(in);
        close(in);
    }
    return PAWL_OK;
}

static pawl_status copy_to(sqlite3 *db, const char *copy, const char *to, pawl_error *error)
{
    int fd = open(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", copy, strerror(errno));
    char *sql = sqlite3_mprintf("VACUUM INTO %Q", copy);
    pawl_status status =
        sql ? db_exec(db, sql, error) : pawl_fail(error, PAWL_E_MEMORY, "no memory to copy %s", to);
    sqlite3_free(sql);
    if (!status)
        status = check_copy(copy, error);
    if (!status)
        status = name_copy(copy, fd, to, error);
    unlink(copy);
    close(fd);
    return status;
}

pawl_status upkeep_backup(const char *folder, const char *to, int64_t *bytes, pawl_error *error)
{
    care c;
    struct stat st;
    if (lstat(to, &st) == 0)
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s exists; give the name of a new file", to);
    pawl_status status = care_open(folder, CARE_COPY, &c, error);
    if (status)
        return status;
    char *copy = sqlite3_mprintf("%s.%ld.part", to, (long)getpid());
    status = copy ? copy_to(c.db, copy, to, error)
                  : pawl_fail(error, PAWL_E_MEMORY, "no memory to copy %s", to);
    sqlite3_free(copy);
    care_close(&c);
    if (!status)
        *bytes = file_size(to, "");
    return status;
}

/* --------------------------------------------------------------------- gc --- */

/* Deletes a layer of leaves at a time, until there is none. */
static pawl_status delete_unneeded(sqlite3 *db, int64_t *removed, pawl_error *error)
{
    pawl_status status = db_exec(db, "BEGIN IMMEDIATE", error);
    int changed = 1;
    while (!status && changed) {
        status = db_exec(db,
                         "DELETE FROM response WHERE removed AND NOT EXISTS (SELECT 1 FROM "
                         "response AS child WHERE child.parent = response.id) AND NOT EXISTS "
                         "(SELECT 1 FROM conversation WHERE head = response.id)",
                         error);
        changed = sqlite3_changes(db);
        *removed += status ? 0 : changed;
    }
    if (!status)
        return db_exec(db, "COMMIT", error);
    if (!sqlite3_get_autocommit(db))
        db_exec(db, "ROLLBACK", NULL);
    return status;
}

pawl_status upkeep_gc(const char *folder, upkeep_gc_report *out, pawl_error *error)
{
    care c;
    upkeep_gc_report made = {0};
    pawl_status status = care_open(folder, CARE_CHANGE, &c, error);
    if (status)
        return status;
    status = db_checkpoint(c.db, SQLITE_CHECKPOINT_TRUNCATE, error);
    made.before_bytes = file_size(c.path, "");
    if (!status)
        status = delete_unneeded(c.db, &made.removed, error);
    if (!status)
        status = db_exec(c.db, "VACUUM", error);
    if (!status)
        status = db_checkpoint(c.db, SQLITE_CHECKPOINT_TRUNCATE, error);
    made.after_bytes = file_size(c.path, "");
    care_close(&c);
    if (!status)
        *out = made;
    return status;
}
