/*
 * loader/library.c - dlopen, dlsym and the entry's table. The only user of dlfcn.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY "pawl_plugin_entry_v1"

/* Copies a file into a memory file that nobody can change any more. -1: errno. */
static int sealed_copy(const char *path)
{
    struct stat st;
    int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return -1;
    int to = memfd_create("pawl-plugin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool good = to >= 0 && fstat(from, &st) == 0;
    for (off_t at = 0; good && at < st.st_size;)
        good = sendfile(to, from, &at, (size_t)(st.st_size - at)) > 0;
    good = good && fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0;
    int saved = errno;
    close(from);
    if (!good && to >= 0) {
        close(to);
        to = -1;
    }
    errno = saved;
    return to;
}

/* The copy's descriptor stays open for as long as the code is mapped: its number is
 * the path that glibc remembers, and must not be given to another file. */
static void *load_again(const char *path, pawl_error *error)
{
    char name[64];
    int fd = sealed_copy(path);
    if (fd < 0) {
        pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", path, strerror(errno));
        return NULL;
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        pawl_fail(error, PAWL_E_FORMAT, "%s", dlerror());
        close(fd);
    }
    return handle;
}

static void *load(const char *path, pawl_error *error)
{
    void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (loaded) {
        dlclose(loaded); /* the reference that NOLOAD took */
        return load_again(path, error);
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        pawl_fail(error, PAWL_E_FORMAT, "%s", dlerror());
    return handle;
}

/* ISO C has no cast from object to function pointer; POSIX promises the copy. */
static const pawl_plugin *ask_entry(void *handle)
{
    const pawl_plugin *(*entry)(void);
    void *symbol = dlsym(handle, ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    return symbol ? entry() : NULL;
}

static pawl_status check_table(void *handle, const pawl_plugin *plugin, pawl_error *error)
{
    if (!dlsym(handle, ENTRY))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "it does not export " ENTRY "; this host speaks ABI %d", PAWL_ABI_MAJOR);
    if (!plugin)
        return pawl_fail(error, PAWL_E_INTERNAL, ENTRY " gave no table");
    if (!PAWL_HAS(plugin, get_interface) || !plugin->probe || !plugin->init || !plugin->shutdown ||
        !plugin->id || !plugin->version)
        return pawl_fail(error, PAWL_E_INTERNAL, "its table lacks members that ABI 1.0 requires");
    return PAWL_OK;
}

pawl_status library_open(const char *path, library *out, pawl_error *error)
{
    if (path[0] != '/')
        return pawl_fail(error, PAWL_E_ARGUMENT, "a library is loaded by its absolute path");
    void *handle = load(path, error);
    if (!handle)
        return PAWL_E_FORMAT;
    const pawl_plugin *plugin = ask_entry(handle);
    pawl_status status = check_table(handle, plugin, error);
    if (!status)
        *out = (library){handle, plugin};
    return status; /* what was loaded stays: its constructors have run */
}

void library_close(library *l)
{
    if (l->handle && (l->plugin->flags & PAWL_PLUGIN_UNLOADABLE))
        dlclose(l->handle);
    *l = (library){0};
}
