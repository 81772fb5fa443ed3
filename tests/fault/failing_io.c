/*
 * failing_io.c - a disk that fails when it is told to. See failing_io.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "failing_io.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is to fail: set by the test, read by every thread that does I/O. */
static struct {
    pthread_mutex_t lock;
    enum failing_io_kind kind;
    int left;     /* calls until one fails; 0: none does */
    int error;    /* errno of the failing one            */
    bool stays;   /* so do all after it                  */
    bool tripped; /* it has failed once                  */
    int64_t full; /* writes end here; 0: nowhere         */
    int failures; /* since it was armed                  */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

void failing_io_arm(enum failing_io_kind kind, int n, int error, bool stays)
{
    pthread_mutex_lock(&disk.lock);
    disk.kind = kind;
    disk.left = n;
    disk.error = error;
    disk.stays = stays;
    disk.tripped = false;
    disk.full = 0;
    disk.failures = 0;
    pthread_mutex_unlock(&disk.lock);
}

void failing_io_fill(int64_t offset)
{
    failing_io_arm(FAILING_IO_WRITE, 0, 0, false);
    pthread_mutex_lock(&disk.lock);
    disk.full = offset;
    pthread_mutex_unlock(&disk.lock);
}

int failing_io_disarm(void)
{
    pthread_mutex_lock(&disk.lock);
    int failures = disk.failures;
    pthread_mutex_unlock(&disk.lock);
    failing_io_arm(FAILING_IO_WRITE, 0, 0, false);
    return failures;
}

/* The errno with which this call is to fail, or 0. end: where a write ends. */
static int fate(enum failing_io_kind kind, int64_t end)
{
    int error = 0;
    pthread_mutex_lock(&disk.lock);
    if (kind == FAILING_IO_WRITE && disk.full && end > disk.full)
        error = ENOSPC;
    if (kind == disk.kind && disk.left && --disk.left == 0)
        disk.tripped = true;
    if (kind == disk.kind && disk.tripped) {
        error = disk.error;
        disk.tripped = disk.stays;
    }
    disk.failures += error != 0;
    pthread_mutex_unlock(&disk.lock);
    return error;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset)
{
    int error = fate(FAILING_IO_WRITE, offset + (int64_t)size);
    long n = syscall(SYS_pwrite64, fd, data, error ? size / 2 : size, offset);
    if (!error)
        return n;
    errno = error;
    return -1;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return pwrite64(fd, data, size, offset);
}

int fsync(int fd)
{
    int error = fate(FAILING_IO_FLUSH, 0);
    if (!error)
        return (int)syscall(SYS_fsync, fd);
    errno = error;
    return -1;
}

int fdatasync(int fd)
{
    int error = fate(FAILING_IO_FLUSH, 0);
    if (!error)
        return (int)syscall(SYS_fdatasync, fd);
    errno = error;
    return -1;
}
