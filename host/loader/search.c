/*
 * loader/search.c - from folders to a list of manifests, with reasons.
 *
 * Nothing is opened here but folders. What cannot be used stays in the list with
 * its reason, because "my plugin is not found" is the question that people ask.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/search.h"

#include "base/file.h"
#include "loader/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_HITS 256

pawl_status search_trust(const char *path, bool folder, pawl_error *error)
{
    struct stat st;
    if (stat(path, &st))
        return pawl_fail(error, errno == ENOENT ? PAWL_E_NOT_FOUND : PAWL_E_UNSUPPORTED, "%s: %s",
                         path, strerror(errno));
    if (folder ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "%s is no %s", path,
                         folder ? "folder" : "plain file");
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "%s belongs to user %u; it must belong to root or to user %u", path,
                         (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return pawl_fail(error, PAWL_E_UNSUPPORTED,
                         "%s can be written by others (mode %03o); chmod go-w it", path,
                         (unsigned)st.st_mode & 0777);
    return PAWL_OK;
}

static pawl_status add_hit(search_hits *hits, char *path, const char *reason)
{
    char *why = reason ? strdup(reason) : NULL;
    if (!path || (reason && !why) || hits->count == MAX_HITS) {
        free(path);
        free(why);
        return hits->count == MAX_HITS ? PAWL_E_LIMIT : PAWL_E_MEMORY;
    }
    hits->items[hits->count++] = (search_hit){path, why};
    return PAWL_OK;
}

static int is_manifest(const struct dirent *entry)
{
    static const size_t suffix = sizeof MANIFEST_SUFFIX - 1;
    size_t size = strlen(entry->d_name);
    return entry->d_name[0] != '.' && size > suffix &&
           strcmp(entry->d_name + size - suffix, MANIFEST_SUFFIX) == 0;
}

/* A folder that others can write, or that is not there, is one refused hit; a
 * missing folder of the defaults is none. */
static pawl_status search_folder(search_hits *hits, const char *folder, bool may_miss)
{
    struct dirent **names = NULL;
    pawl_error why = {.struct_size = sizeof why};
    pawl_status trust = search_trust(folder, true, &why);
    if (trust == PAWL_E_NOT_FOUND && may_miss)
        return PAWL_OK;
    if (trust)
        return add_hit(hits, strdup(folder), why.message);
    char *real = realpath(folder, NULL);
    int n = real ? scandir(real, &names, is_manifest, alphasort) : -1;
    pawl_status status = n < 0 ? add_hit(hits, strdup(folder), strerror(errno)) : PAWL_OK;
    for (int i = 0; i < n; i++) {
        char *path = file_join(real, names[i]->d_name);
        bool trusted = path && !search_trust(path, false, &why);
        if (!status)
            status = add_hit(hits, path, trusted ? NULL : why.message);
        else
            free(path);
        free(names[i]);
    }
    free(names);
    free(real);
    return status;
}

static pawl_status search_environment(search_hits *hits)
{
    const char *list = getenv("PAWL_PLUGIN_PATH");
    pawl_status status = PAWL_OK;
    while (list && *list && !status) {
        size_t size = strcspn(list, ":");
        char *folder = strndup(list, size);
        if (!folder)
            return PAWL_E_MEMORY;
        if (folder[0] == '/')
            status = search_folder(hits, folder, false);
        else if (folder[0])
            status = add_hit(hits, strdup(folder), "PAWL_PLUGIN_PATH takes absolute folders only");
        free(folder);
        list += size + (list[size] == ':');
    }
    return status;
}

static pawl_status search_defaults(search_hits *hits)
{
    static const char *const below[] = {"plugins", "../lib/pawl/plugins"};
    char *own = file_own_folder();
    pawl_status status = PAWL_OK;
    for (int i = 0; own && i < 2 && !status; i++) {
        char *folder = file_join(own, below[i]);
        status = folder ? search_folder(hits, folder, true) : PAWL_E_MEMORY;
        free(folder);
    }
    free(own);
    return status;
}

pawl_status search_find(const registry_config *config, search_hits *out, pawl_error *error)
{
    search_hits hits = {calloc(MAX_HITS, sizeof *hits.items), 0};
    pawl_status status = hits.items ? PAWL_OK : PAWL_E_MEMORY;
    for (size_t i = 0; i < config->n_folders && !status; i++)
        status = search_folder(&hits, config->folders[i], false);
    if (!status && !config->only_folders)
        status = search_environment(&hits);
    if (!status && !config->only_folders)
        status = search_defaults(&hits);
    if (status == PAWL_E_MEMORY) {
        search_clear(&hits);
        return pawl_fail(error, status, "no memory to list plugins");
    }
    *out = hits; /* past MAX_HITS the rest is not looked at */
    return PAWL_OK;
}

void search_clear(search_hits *hits)
{
    for (size_t i = 0; i < hits->count; i++) {
        free(hits->items[i].path);
        free(hits->items[i].reason);
    }
    free(hits->items);
    *hits = (search_hits){0};
}
