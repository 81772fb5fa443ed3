/*
 * script/docs.c - a folder of documents that scripts may read. See docs.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/docs.h"

#include "base/utf8.h"
#include "script/crew.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK (256u << 10) /* bytes between two looks at the stop descriptor */

/* ------------------------------------------------------------- the folder */

/* openat2() as its manual page has it; glibc 2.36 has no function for it. */
static int open_beneath(int folder, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

pawl_status docs_open(const char *folder, docs *out, pawl_error *error)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "the folder of documents %s: %s", folder,
                         strerror(errno));
    int test = open_beneath(fd, ".", O_PATH, 0);
    bool by_names = test < 0 && (errno == ENOSYS || errno == EPERM);
    if (test >= 0)
        close(test);
    *out = (docs){.folder = fd, .by_names = by_names};
    return PAWL_OK;
}

void docs_close(docs *d)
{
    if (d->folder >= 0)
        close(d->folder);
    d->folder = -1;
}

/* ------------------------------------------------------------- opening */

/* Opens name by name, follows no link and goes through no "..". */
static int open_by_names(int folder, const char *path, int flags)
{
    int at = openat(folder, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0) {
        char name[NAME_MAX + 1];
        path += strspn(path, "/");
        size_t size = strcspn(path, "/");
        const char *rest = path + size + strspn(path + size, "/");
        if (size > NAME_MAX || (size == 2 && memcmp(path, "..", 2) == 0)) {
            close(at);
            errno = size > NAME_MAX ? ENAMETOOLONG : EXDEV;
            return -1;
        }
        memcpy(name, size ? path : ".", size ? size : 1);
        name[size ? size : 1] = '\0';
        int how = *rest ? O_PATH | O_DIRECTORY : flags;
        int next = openat(at, name, how | O_NOFOLLOW | O_CLOEXEC);
        int failed = errno;
        close(at);
        errno = failed;
        if (!*rest)
            return next;
        at = next;
        path = rest;
    }
    return -1;
}

static int open_path(const docs *d, const char *path, int flags, uint64_t resolve)
{
    if (path[0] == '/' || strlen(path) > DOCS_MAX_PATH) {
        errno = path[0] == '/' ? EXDEV : ENAMETOOLONG;
        return -1;
    }
    if (d->by_names)
        return open_by_names(d->folder, path, flags);
    return open_beneath(d->folder, *path ? path : ".", (uint64_t)flags, resolve);
}

static bool explain(const char *path, failure *why)
{
    switch (errno) {
    case EXDEV:
        return failure_set(why, "denied", false,
                           "%.200s: leaves the folder of documents, which no path can", path);
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        return failure_set(why, "not_found", false, "%.200s: there is no such file", path);
    case EACCES:
    case EPERM:
        return failure_set(why, "denied", false, "%.200s: may not be read", path);
    case ELOOP:
        return failure_set(why, "denied", false, "%.200s: goes through a symbolic link", path);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
        return failure_set(why, "busy", true, "%.200s: %s", path, strerror(errno));
    default:
        return failure_set(why, "io", false, "%.200s: %s", path, strerror(errno));
    }
}

/* O_NONBLOCK: so that a pipe without a writer does not hold us up before it is refused. */
int docs_open_file(const docs *d, const char *path, uint64_t *size, failure *why)
{
    struct stat at;
    int fd = open_path(d, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0) {
        explain(path, why);
        return -1;
    }
    if (fstat(fd, &at) == 0 && S_ISREG(at.st_mode)) {
        *size = (uint64_t)at.st_size;
        return fd;
    }
    failure_set(why, "not_a_file", false, "%.200s: is %s, not a file", path,
                S_ISDIR(at.st_mode) ? "a folder" : "something else");
    close(fd);
    return -1;
}

/* ------------------------------------------------------------- listing */

typedef struct walk {
    const docs *docs;
    docs_list *list;
    failure *why;
    int stop_fd;
    char path[DOCS_MAX_PATH + 1]; /* of the folder that is read, with a '/' unless empty */
} walk;

static char *clean_path(const char *folder, const char *name)
{
    utf8_tail tail = {.size = 0};
    buf text;
    buf_init(&text, 4 * DOCS_MAX_PATH);
    utf8_feed(&tail, folder, strlen(folder), &text);
    utf8_feed(&tail, name, strlen(name), &text);
    utf8_finish(&tail, &text);
    char *path = buf_take(&text);
    buf_clear(&text);
    return path;
}

static bool add_entry(walk *w, const char *name, const struct stat *at)
{
    docs_list *list = w->list;
    if (list->n == DOCS_MAX_FILES)
        return failure_set(w->why, "too_many", false,
                           "there are more than %d files; list a folder of it", DOCS_MAX_FILES);
    if (list->n == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        docs_entry *more = realloc(list->entries, room * sizeof *more);
        if (!more)
            return failure_set(w->why, "busy", true, "no memory for a list");
        list->entries = more;
        list->room = room;
    }
    char *path = clean_path(w->path, name);
    if (!path)
        return failure_set(w->why, "busy", true, "no memory for a list");
    list->entries[list->n++] =
        (docs_entry){.path = path, .size = (uint64_t)at->st_size, .mtime_s = at->st_mtim.tv_sec};
    return true;
}

static bool walk_folder(walk *w, int depth);

static bool walk_into(walk *w, const char *name, int depth)
{
    size_t size = strlen(w->path);
    if (depth == DOCS_MAX_DEPTH)
        return failure_set(w->why, "too_many", false, "%.200s%.60s: more than %d folders deep",
                           w->path, name, DOCS_MAX_DEPTH);
    snprintf(w->path + size, sizeof w->path - size, "%s/", name);
    bool good = walk_folder(w, depth + 1);
    w->path[size] = '\0';
    return good;
}

static bool walk_entry(walk *w, int folder, const char *name, int depth)
{
    struct stat at;
    if (name[0] == '.')
        return true;
    if (strlen(w->path) + strlen(name) + 1 > DOCS_MAX_PATH)
        return failure_set(w->why, "too_many", false, "%.200s…: a path of over %d bytes", w->path,
                           DOCS_MAX_PATH);
    if (fstatat(folder, name, &at, AT_SYMLINK_NOFOLLOW))
        return true; /* it has gone since */
    if (S_ISDIR(at.st_mode))
        return walk_into(w, name, depth);
    return !S_ISREG(at.st_mode) || add_entry(w, name, &at);
}

static bool walk_folder(walk *w, int depth)
{
    int fd = open_path(w->docs, w->path, O_RDONLY | O_DIRECTORY, depth ? RESOLVE_NO_SYMLINKS : 0);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        bool gone = depth > 0 && errno == ENOENT; /* since its name was read */
        explain(*w->path ? w->path : ".", w->why);
        if (fd >= 0)
            close(fd);
        return gone;
    }
    bool good = true;
    for (struct dirent *e; good && (e = readdir(folder));) {
        good = walk_entry(w, fd, e->d_name, depth);
        if (good && crew_is_stopped(w->stop_fd))
            good = failure_set(w->why, "cancelled", false, "it was cancelled");
    }
    closedir(folder);
    return good;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const docs_entry *)a)->path, ((const docs_entry *)b)->path);
}

bool docs_list_files(const docs *d, const char *folder, int stop_fd, docs_list *list, failure *why)
{
    walk w = {.docs = d, .list = list, .why = why, .stop_fd = stop_fd};
    size_t size = strlen(folder);
    *list = (docs_list){.n = 0};
    while (size > 0 && folder[size - 1] == '/' && size > 1)
        size--;
    if (strcmp(folder, ".") == 0)
        size = 0;
    if (size >= DOCS_MAX_PATH) {
        errno = ENAMETOOLONG;
        return explain(folder, why);
    }
    snprintf(w.path, sizeof w.path, "%.*s%s", (int)size, folder, size ? "/" : "");
    bool good = walk_folder(&w, 0);
    if (good && list->n > 0)
        qsort(list->entries, list->n, sizeof list->entries[0], compare);
    else if (!good)
        docs_list_clear(list);
    return good;
}

void docs_list_clear(docs_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->entries[i].path);
    free(list->entries);
    *list = (docs_list){.n = 0};
}

/* ------------------------------------------------------------- reading */

bool docs_hash(const docs *d, const char *path, int stop_fd, char hex[DIGEST_HEX_SIZE],
               failure *why)
{
    pawl_error error = {.struct_size = sizeof error};
    uint64_t size;
    int fd = docs_open_file(d, path, &size, why);
    if (fd < 0)
        return false;
    pawl_status status = digest_descriptor(fd, stop_fd, hex, &error);
    close(fd);
    return status ? failure_set(why, "io", false, "%.200s: %s", path, error.message) : true;
}

static bool too_large(const char *path, size_t most, failure *why)
{
    return failure_set(why, "too_large", false, "%.200s: more than %.1f MiB", path,
                       (double)most / (1 << 20));
}

bool docs_read(const docs *d, const char *path, int stop_fd, buf *out, failure *why)
{
    uint64_t size;
    int fd = docs_open_file(d, path, &size, why);
    char *block = malloc(BLOCK);
    bool good = fd >= 0 && block;
    if (fd >= 0 && !block)
        failure_set(why, "busy", true, "no memory to read %.200s", path);
    if (good && size > out->max)
        good = too_large(path, out->max, why);
    for (ssize_t n; good && (n = read(fd, block, BLOCK)) != 0;) {
        if (n < 0 && errno != EINTR)
            good = explain(path, why);
        else if (n > 0 && !buf_add(out, block, (size_t)n))
            good = too_large(path, out->max, why);
        else if (crew_is_stopped(stop_fd))
            good = failure_set(why, "cancelled", false, "it was cancelled");
    }
    free(block);
    if (fd >= 0)
        close(fd);
    return good;
}
