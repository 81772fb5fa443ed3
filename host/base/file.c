/*
 * base/file.c - the few things done with files by name. See file.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pawl_status file_read(const char *path, buf *out, pawl_error *error)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    char block[65536];
    size_t n;
    while ((n = fread(block, 1, sizeof block, file)) > 0 && buf_add(out, block, n))
        continue;
    bool broken = ferror(file);
    fclose(file);
    if (broken)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: cannot be read", path);
    if (out->failed)
        return pawl_fail(error, PAWL_E_LIMIT, "%s: larger than %zu bytes", path, out->max);
    return PAWL_OK;
}

pawl_status file_make_folder(const char *path, pawl_error *error)
{
    char part[PATH_MAX];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof part)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a folder name of %zu bytes", size);
    memcpy(part, path, size + 1);
    for (size_t i = 1; i <= size; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: %s", part, strerror(errno));
        part[i] = kept;
    }
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s: is not a folder", path);
    return PAWL_OK;
}

int64_t file_size(const char *path, const char *suffix)
{
    struct stat st;
    char *name = NULL;
    if (asprintf(&name, "%s%s", path, suffix) < 0)
        return 0;
    int64_t size = stat(name, &st) == 0 ? st.st_size : 0;
    free(name);
    return size;
}

char *file_join(const char *folder, const char *name)
{
    buf out;
    size_t size = strlen(folder);
    buf_init(&out, 2 * PATH_MAX);
    buf_printf(&out, "%s%s%s", folder, size && folder[size - 1] == '/' ? "" : "/", name);
    return buf_take(&out);
}

char *file_data_folder(void)
{
    const char *base = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (base && base[0])
        return file_join(base, "pawl");
    return home && home[0] ? file_join(home, ".local/share/pawl") : NULL;
}

char *file_own_folder(void)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return NULL;
    path[size] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return strdup(path[0] ? path : "/");
}
