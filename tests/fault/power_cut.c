/*
 * power_cut.c - a disk whose power goes. See power_cut.h.
 *
 * The real files always hold what SQLite has written, so that it reads its own writes; what
 * would survive is kept beside, in memory. Flushes never reach the real disk: tests are
 * quick. One lock guards everything.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "power_cut.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

enum { MAX_FILES = 16, SECTOR = 512 };

/* A write since the last flush; data NULL: the file was cut to `offset`. */
typedef struct change {
    struct change *next;
    int64_t offset;
    size_t size;
    uint8_t *data;
} change;

typedef struct tracked {
    char path[256];
    uint8_t *durable; /* what was flushed                        */
    size_t size, room;
    change *first, **last; /* since then, in order                    */
    bool deleted;
} tracked;

typedef struct cut_file {
    sqlite3_file base;  /* first: it is this                         */
    tracked *t;         /* NULL: a temporary one                     */
    sqlite3_file *real; /* behind this struct, in the same memory    */
} cut_file;

static struct {
    pthread_mutex_t lock;
    sqlite3_vfs *real;
    sqlite3_vfs vfs;
    sqlite3_io_methods methods;
    tracked files[MAX_FILES];
    int left;  /* writes and flushes; 0: no cut is armed */
    bool dead; /* the power is gone                      */
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* True: this call does not happen, or not any more. Locked. */
static bool is_dead(bool *last)
{
    *last = false;
    if (disk.dead)
        return true;
    if (disk.left > 0 && --disk.left == 0) {
        disk.dead = true;
        *last = true;
    }
    return false;
}

static void forget_changes(tracked *t)
{
    while (t->first) {
        change *c = t->first;
        t->first = c->next;
        free(c->data);
        free(c);
    }
    t->last = &t->first;
}

static void remember(tracked *t, int64_t offset, const void *data, size_t size)
{
    change *c = calloc(1, sizeof *c);
    c->offset = offset;
    c->size = size;
    if (data) {
        c->data = malloc(size + 1);
        memcpy(c->data, data, size);
    }
    *t->last = c;
    t->last = &c->next;
}

static void resize(tracked *t, size_t size)
{
    if (size >= t->room) {
        t->room = 2 * size + 4096;
        t->durable = realloc(t->durable, t->room);
    }
    if (size > t->size)
        memset(t->durable + t->size, 0, size - t->size);
    t->size = size;
}

static void apply(tracked *t, int64_t offset, const uint8_t *data, size_t size)
{
    if ((size_t)offset + size > t->size)
        resize(t, (size_t)offset + size);
    memcpy(t->durable + offset, data, size);
}

/* All of it, none of it, or some sectors. */
static void apply_some(tracked *t, const change *c, unsigned *seed)
{
    int fate = rand_r(seed) % 3;
    if (!c->data && fate)
        resize(t, (size_t)c->offset);
    for (size_t at = 0; c->data && at < c->size; at += SECTOR) {
        size_t n = c->size - at < SECTOR ? c->size - at : SECTOR;
        if (fate == 0 || (fate == 1 && rand_r(seed) % 2))
            apply(t, c->offset + (int64_t)at, c->data + at, n);
    }
}

/* ------------------------------------------------------------------- files --- */

static int cut_close(sqlite3_file *f)
{
    cut_file *file = (cut_file *)f;
    return file->real->pMethods ? file->real->pMethods->xClose(file->real) : SQLITE_OK;
}

static int cut_read(sqlite3_file *f, void *data, int size, sqlite3_int64 offset)
{
    cut_file *file = (cut_file *)f;
    return file->real->pMethods->xRead(file->real, data, size, offset);
}

static int cut_write(sqlite3_file *f, const void *data, int size, sqlite3_int64 offset)
{
    cut_file *file = (cut_file *)f;
    bool last;
    pthread_mutex_lock(&disk.lock);
    bool dead = is_dead(&last);
    if (!dead && file->t)
        remember(file->t, offset, data, (size_t)size);
    pthread_mutex_unlock(&disk.lock);
    if (dead || last) /* the last one is on its way, and nobody hears how it ended */
        return SQLITE_IOERR_WRITE;
    return file->real->pMethods->xWrite(file->real, data, size, offset);
}

static int cut_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    cut_file *file = (cut_file *)f;
    bool last;
    pthread_mutex_lock(&disk.lock);
    bool dead = is_dead(&last);
    if (!dead && file->t)
        remember(file->t, size, NULL, 0);
    pthread_mutex_unlock(&disk.lock);
    if (dead || last)
        return SQLITE_IOERR_TRUNCATE;
    return file->real->pMethods->xTruncate(file->real, size);
}

static int cut_sync(sqlite3_file *f, int flags)
{
    cut_file *file = (cut_file *)f;
    bool last;
    (void)flags;
    pthread_mutex_lock(&disk.lock);
    bool dead = is_dead(&last);
    if (!dead && !last && file->t) {
        for (change *c = file->t->first; c; c = c->next) {
            if (c->data)
                apply(file->t, c->offset, c->data, c->size);
            else
                resize(file->t, (size_t)c->offset);
        }
        forget_changes(file->t);
    }
    pthread_mutex_unlock(&disk.lock);
    return dead || last ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

#define REAL(file) (((cut_file *)(file))->real)

static int cut_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return REAL(f)->pMethods->xFileSize(REAL(f), size);
}

static int cut_lock(sqlite3_file *f, int level)
{
    return REAL(f)->pMethods->xLock(REAL(f), level);
}

static int cut_unlock(sqlite3_file *f, int level)
{
    return REAL(f)->pMethods->xUnlock(REAL(f), level);
}

static int cut_check_lock(sqlite3_file *f, int *out)
{
    return REAL(f)->pMethods->xCheckReservedLock(REAL(f), out);
}

static int cut_control(sqlite3_file *f, int op, void *arg)
{
    return REAL(f)->pMethods->xFileControl(REAL(f), op, arg);
}

static int cut_sector(sqlite3_file *f)
{
    return REAL(f)->pMethods->xSectorSize(REAL(f));
}

static int cut_traits(sqlite3_file *f)
{
    return REAL(f)->pMethods->xDeviceCharacteristics(REAL(f));
}

static int cut_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **out)
{
    return REAL(f)->pMethods->xShmMap(REAL(f), page, size, extend, out);
}

static int cut_shm_lock(sqlite3_file *f, int offset, int n, int flags)
{
    return REAL(f)->pMethods->xShmLock(REAL(f), offset, n, flags);
}

static void cut_shm_barrier(sqlite3_file *f)
{
    REAL(f)->pMethods->xShmBarrier(REAL(f));
}

static int cut_shm_unmap(sqlite3_file *f, int delete)
{
    return REAL(f)->pMethods->xShmUnmap(REAL(f), delete);
}

/* ------------------------------------------------------------- file system --- */

/* What is in the file now, which is what there was before we came. */
static void adopt(tracked *t)
{
    struct stat st;
    int fd = open(t->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && st.st_size > 0) {
        resize(t, (size_t)st.st_size);
        if (read(fd, t->durable, t->size) != st.st_size)
            abort();
    }
    close(fd);
}

/* Locked. Made before SQLite opens it: closing a descriptor of ours would drop its locks. */
static tracked *track(const char *path)
{
    for (int i = 0; i < MAX_FILES; i++) {
        tracked *t = &disk.files[i];
        if (strcmp(t->path, path) == 0) {
            if (t->deleted)
                resize(t, 0);
            t->deleted = false;
            return t;
        }
        if (t->path[0] == '\0') {
            strncpy(t->path, path, sizeof t->path - 1);
            t->last = &t->first;
            adopt(t);
            return t;
        }
    }
    abort();
}

static int cut_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *f, int flags, int *out)
{
    cut_file *file = (cut_file *)f;
    (void)vfs;
    memset(file, 0, sizeof *file);
    file->real = (sqlite3_file *)(file + 1);
    pthread_mutex_lock(&disk.lock);
    bool dead = disk.dead;
    if (path && !dead)
        file->t = track(path);
    pthread_mutex_unlock(&disk.lock);
    if (dead)
        return SQLITE_CANTOPEN;
    int rc = disk.real->xOpen(disk.real, path, file->real, flags, out);
    if (rc == SQLITE_OK)
        file->base.pMethods = &disk.methods;
    return rc;
}

static int cut_delete(sqlite3_vfs *vfs, const char *path, int sync)
{
    (void)vfs;
    pthread_mutex_lock(&disk.lock);
    bool dead = disk.dead;
    for (int i = 0; i < MAX_FILES && !dead; i++) {
        if (strcmp(disk.files[i].path, path) == 0) {
            disk.files[i].deleted = true;
            forget_changes(&disk.files[i]);
            if (sync) /* the folder is flushed too: it does not come back */
                resize(&disk.files[i], 0);
        }
    }
    pthread_mutex_unlock(&disk.lock);
    return dead ? SQLITE_IOERR_DELETE : disk.real->xDelete(disk.real, path, sync);
}

void power_cut_install(void)
{
    disk.real = sqlite3_vfs_find(NULL);
    disk.vfs = *disk.real;
    disk.vfs.zName = "power-cut";
    disk.vfs.szOsFile = (int)sizeof(cut_file) + disk.real->szOsFile;
    disk.vfs.xOpen = cut_open;
    disk.vfs.xDelete = cut_delete;
    disk.methods = (sqlite3_io_methods){.iVersion = 2,
                                        .xClose = cut_close,
                                        .xRead = cut_read,
                                        .xWrite = cut_write,
                                        .xTruncate = cut_truncate,
                                        .xSync = cut_sync,
                                        .xFileSize = cut_size,
                                        .xLock = cut_lock,
                                        .xUnlock = cut_unlock,
                                        .xCheckReservedLock = cut_check_lock,
                                        .xFileControl = cut_control,
                                        .xSectorSize = cut_sector,
                                        .xDeviceCharacteristics = cut_traits,
                                        .xShmMap = cut_shm_map,
                                        .xShmLock = cut_shm_lock,
                                        .xShmBarrier = cut_shm_barrier,
                                        .xShmUnmap = cut_shm_unmap};
    sqlite3_vfs_register(&disk.vfs, 1);
}

void power_cut_arm(int n)
{
    pthread_mutex_lock(&disk.lock);
    disk.left = n;
    disk.dead = false;
    pthread_mutex_unlock(&disk.lock);
}

bool power_cut_happened(void)
{
    pthread_mutex_lock(&disk.lock);
    bool dead = disk.dead;
    pthread_mutex_unlock(&disk.lock);
    return dead;
}

static void write_back(const tracked *t)
{
    int fd = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, t->durable, t->size) != (ssize_t)t->size)
        abort();
    close(fd);
}

int power_cut_restore(unsigned *seed)
{
    int unflushed = 0;
    pthread_mutex_lock(&disk.lock);
    for (int i = 0; i < MAX_FILES && disk.files[i].path[0]; i++) {
        tracked *t = &disk.files[i];
        for (const change *c = t->first; c; c = c->next, unflushed++)
            apply_some(t, c, seed);
        bool gone = t->deleted && rand_r(seed) % 2; /* or its deletion was lost */
        if (gone || t->size == 0)
            unlink(t->path);
        else
            write_back(t);
        char shm[300];
        strcat(strcpy(shm, t->path), "-shm");
        unlink(shm);
        forget_changes(t);
        free(t->durable);
        memset(t, 0, sizeof *t);
    }
    disk.left = 0;
    disk.dead = false;
    pthread_mutex_unlock(&disk.lock);
    return unflushed;
}
