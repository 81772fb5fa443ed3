/*
 * host/open_data.h - the data folder, for commands that keep something.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_OPEN_DATA_H
#define HOST_OPEN_DATA_H

/* The given folder, or $XDG_DATA_HOME/pawl, or ~/.local/share/pawl; to be free()d. NULL: no
 * memory, or no home. */
char *open_data_folder(const char *given);

#endif /* HOST_OPEN_DATA_H */
