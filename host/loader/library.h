/*
 * loader/library.h - a plugin's shared object in this process.
 *
 * glibc keys loaded objects by path: a second dlopen() of one path gives the code
 * that is loaded already, even after the file was replaced. Every generation needs
 * its own path, so a file that is mapped already is loaded again through a sealed
 * memory file. Nothing is ever unloaded unless the plugin says that it can be: code
 * that a thread or a destructor has yet to return to must stay where it is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_LIBRARY_H
#define LOADER_LIBRARY_H

#include <pawl/plugin.h>

typedef struct library {
    void *handle;
    const pawl_plugin *plugin;
} library;

/* Loads the file and asks its entry. The table has been checked to hold at least
 * what 1.0 had. [main] */
pawl_status library_open(const char *path, library *out, pawl_error *error);
/* After shutdown(), or if init() was never called. [main] */
void library_close(library *l);

#endif /* LOADER_LIBRARY_H */
