/*
 * store/folder.h - the data folder: made private, and held by one process.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_FOLDER_H
#define STORE_FOLDER_H

#include <pawl/plugin.h>

/* Makes the folder (0700) where it is absent and takes its lock: an flock() on the
 * file `lock` in it, which holds this process's number. *lock is to be given to
 * folder_close(). PAWL_E_BUSY names the process that has it. [main] */
pawl_status folder_open(const char *folder, int *lock, pawl_error *error);
void folder_close(int lock);

/* Sees to it that the file exists, is a regular one, and has mode 0600. [main] */
pawl_status folder_own_file(const char *path, pawl_error *error);

#endif /* STORE_FOLDER_H */
