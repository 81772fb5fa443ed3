/*
 * base/file.h - the few things done with files by name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"

/* Appends a whole file to out; one larger than out->max is refused. [any] */
pawl_status file_read(const char *path, buf *out, pawl_error *error);
/* Makes a folder and its parents, mode 0700 for those that are new. [any] */
pawl_status file_make_folder(const char *path, pawl_error *error);
/* Bytes of the file path + suffix; 0 where there is none, or no memory for its name. [any] */
int64_t file_size(const char *path, const char *suffix);
/* Joins folder and name with one '/'; the caller free()s it. NULL without memory. */
char *file_join(const char *folder, const char *name);
/* Where the user's data lies unless something else is said: $XDG_DATA_HOME/pawl or
 * ~/.local/share/pawl, to be free()d. NULL: neither is known. [any] */
char *file_data_folder(void);
/* The folder of this program's own file, to be free()d, or NULL. */
char *file_own_folder(void);

#endif /* BASE_FILE_H */
