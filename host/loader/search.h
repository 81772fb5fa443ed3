/*
 * loader/search.h - where plugins are looked for.
 *
 * In this order, each folder's manifests by name:
 *   1. the folders of the configuration (--plugin-dir)
 *   2. PAWL_PLUGIN_PATH, absolute folders separated by ':'
 *   3. plugins/ beside our own binary (a build tree)
 *   4. ../lib/pawl/plugins from there (an installation)
 * Never the current folder. Only what nobody but root and us can write is used.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_SEARCH_H
#define LOADER_SEARCH_H

#include "loader/registry.h"

typedef struct search_hit {
    char *path;   /* of a manifest, or of a folder that is refused whole */
    char *reason; /* why it is refused, or NULL                          */
} search_hit;

typedef struct search_hits {
    search_hit *items;
    size_t count;
} search_hits;

/* The caller clears *out with search_clear(). Fails only without memory. [any] */
pawl_status search_find(const registry_config *config, search_hits *out, pawl_error *error);
void search_clear(search_hits *hits);

/* Refuses a file or folder that others than root and us own or can write: by
 * changing it they could run code as us. PAWL_E_NOT_FOUND: it is not there. [any] */
pawl_status search_trust(const char *path, bool folder, pawl_error *error);

#endif /* LOADER_SEARCH_H */
