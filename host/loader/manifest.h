/*
 * loader/manifest.h - what a NAME.plugin.json says about a plugin.
 *
 * The manifest is read before any code of the plugin runs. Its fields are those of
 * schemas/plugin-manifest.schema.json; a test holds both against the same examples.
 * A manifest belongs to whoever declared it. Not locked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_MANIFEST_H
#define LOADER_MANIFEST_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define MANIFEST_SUFFIX ".plugin.json"
#define MANIFEST_MAX_INTERFACES 16

typedef struct manifest {
    char *id;
    char *name;
    char *version;
    char *library;    /* relative to the manifest's folder               */
    char *sha256;     /* 64 hex digits, or NULL                          */
    char *interfaces; /* ids joined by ' '                               */
    char *cpu;        /* processor features it requires, joined by ' '   */
    uint32_t abi_major;
    uint32_t abi_minor;
} manifest;

/* Parses a manifest. The caller clears *out with manifest_clear(). [any] */
pawl_status manifest_parse(const char *text, size_t size, manifest *out, pawl_error *error);
/* The same, of a file. [any] */
pawl_status manifest_read(const char *path, manifest *out, pawl_error *error);
void manifest_clear(manifest *m);

/* Calls visit with each interface id until it gives false. True: all were visited. */
bool manifest_each_interface(const char *interfaces, bool (*visit)(void *arg, const char *id),
                             void *arg);
/* True if the joined list holds the word. */
bool manifest_lists(const char *joined, const char *word);

#endif /* LOADER_MANIFEST_H */
