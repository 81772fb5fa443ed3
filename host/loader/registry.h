/*
 * loader/registry.h - the plugins of this process and the state of each.
 *
 * The registry is the only code that moves a plugin between states:
 *
 *   listed    its manifest was found and is valid
 *   refused   it will not be used; `reason` says why (manifest, owner, mode,
 *             ABI, digest, duplicate id, probe said no or died)
 *   usable    a child process has loaded it and its probe said yes
 *   running   loaded and initialised in this process
 *   stopped   shut down; its code stays mapped unless it declared itself
 *             unloadable
 *
 * Every library that is loaded gets a generation number, counted from 1, which
 * appears in log lines. Opening, starting and closing are [main]; reading a
 * running plugin's tables is [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_REGISTRY_H
#define LOADER_REGISTRY_H

#include "base/metrics.h"

#include <pawl/plugin.h>

#include <stdbool.h>

typedef struct registry registry;

enum registry_state {
    REGISTRY_LISTED,
    REGISTRY_REFUSED,
    REGISTRY_USABLE,
    REGISTRY_RUNNING,
    REGISTRY_STOPPED
};

typedef struct registry_config {
    const char *const *folders; /* searched first, in order                        */
    size_t n_folders;
    metrics *metrics;  /* for what plugins report; outlives the registry; or NULL */
    bool only_folders; /* do not search PAWL_PLUGIN_PATH and the defaults  */
} registry_config;

typedef struct registry_plugin {
    const char *manifest_path; /* the *.plugin.json                                */
    const char *library_path;  /* may be NULL where the manifest is unreadable      */
    const char *id;            /* "" where unknown                                  */
    const char *name;
    const char *version;
    const char *interfaces; /* as in the manifest, joined by ' '                 */
    enum registry_state state;
    const char *reason;  /* why refused, or ""                                */
    int32_t score;       /* what its probe said                               */
    uint32_t generation; /* 0: never loaded here                              */
} registry_plugin;

/* Reads all manifests and probes each candidate in a child process of our own
 * binary. One bad plugin never fails the call. */
pawl_status registry_open(const registry_config *config, registry **out, pawl_error *error);
/* Shuts down what runs. All instances must be closed. NULL allowed. */
void registry_close(registry *r);

size_t registry_count(const registry *r);
const registry_plugin *registry_at(const registry *r, size_t i);

/* The nth usable plugin (0: the best score; ties in search order) that offers an
 * interface, started on first use. *table is the interface's table.
 * PAWL_E_NOT_FOUND: there is no nth one. A plugin whose init() fails becomes
 * refused and is passed over. */
pawl_status registry_use(registry *r, const char *interface_id, size_t nth, const void **table,
                         const registry_plugin **plugin, pawl_error *error);

#endif /* LOADER_REGISTRY_H */
