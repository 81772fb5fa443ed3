/*
 * store/folder.c - the data folder: made private, and held by one process.
 *
 * The lock is an flock(), not the existence of a file: the kernel drops it with
 * the process, however that ends, so nothing stale is ever left behind. The number
 * in the file only serves the message. A folder that was there before keeps its
 * mode (it may be shared on purpose, or be "."); our files in it are 0600 always.
 * Runs on the main thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

/* What a process must remember of a folder that it makes is in the folder above. */
static void sync_entries(const char *folder)
{
    char *above = file_join(folder, "..");
    const char *const paths[] = {folder, above};
    for (size_t i = 0; i < 2; i++) {
        int fd = paths[i] ? open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        if (fd < 0)
            continue;
        if (fsync(fd) != 0)
            log_write(PAWL_LOG_WARN, "store", "%s: fsync: %s", paths[i], strerror(errno));
        close(fd);
    }
    free(above);
}

static void warn_if_open_to_others(const char *folder)
{
    struct stat st;
    if (stat(folder, &st) == 0 && (st.st_mode & 077) != 0)
        log_write(PAWL_LOG_WARN, "store",
                  "%s has mode %03o: others can see which files are in it; chmod 700 it", folder,
                  (unsigned)st.st_mode & 0777);
}

static pawl_status refuse_second(const char *folder, int lock, pawl_error *error)
{
    char text[24];
    ssize_t size = pread(lock, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    long pid = strtol(text, NULL, 10);
    if (pid <= 0)
        return pawl_fail(error, PAWL_E_BUSY,
                         "the data folder %s is in use by another process; stop it or choose "
                         "another folder",
                         folder);
    return pawl_fail(error, PAWL_E_BUSY,
                     "the data folder %s is in use by process %ld; stop it or choose another "
                     "folder",
                     folder, pid);
}

static pawl_status take_lock(const char *folder, int lock, pawl_error *error)
{
    if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return refuse_second(folder, lock, error);
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "%s cannot be locked: %s; use a local disk",
                         folder, strerror(errno));
    }
    char text[24];
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    if (ftruncate(lock, 0) != 0 || pwrite(lock, text, (size_t)size, 0) != size)
        log_write(PAWL_LOG_WARN, "store", "%s/lock: cannot be written: %s", folder,
                  strerror(errno));
    return PAWL_OK;
}

pawl_status folder_open(const char *folder, int *lock, pawl_error *error)
{
    pawl_status status = file_make_folder(folder, error);
    if (status)
        return status;
    char *path = file_join(folder, "lock");
    if (!path)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to open %s", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    free(path);
    if (fd < 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s/lock: %s", folder, strerror(errno));
    status = take_lock(folder, fd, error);
    if (status) {
        close(fd);
        return status;
    }
    warn_if_open_to_others(folder);
    sync_entries(folder);
    *lock = fd;
    return PAWL_OK;
}

void folder_close(int lock)
{
    if (lock >= 0)
        close(lock);
}

pawl_status folder_own_file(const char *path, pawl_error *error)
{
    struct stat st;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    pawl_status status = PAWL_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        status = pawl_fail(error, PAWL_E_FORMAT, "%s is not a regular file", path);
    else if ((st.st_mode & 077) != 0 && fchmod(fd, 0600) != 0)
        status = pawl_fail(error, PAWL_E_ARGUMENT, "%s: cannot be made private: %s", path,
                           strerror(errno));
    close(fd);
    return status;
}
