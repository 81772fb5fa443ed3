/*
 * loader/checked.h - the checking layer of a debug build (CMake option PAWL_CHECK).
 *
 * Every table that the registry hands out is replaced by one of ours with the same
 * members. Its functions pass each call on to the plugin and hold both sides to what
 * <pawl/plugin.h> says of threads, order, arrays and results: the host, that its calls
 * do not overlap and its arrays are whole; the plugin, that it keeps what it promised.
 * A broken rule is one line in the log, with the plugin and the rule, and abort().
 *
 * Nothing else changes but what both sides must bear anyway: a sink gets its bytes in
 * small pieces, a source gives short reads, and slots are those of a later host, longer
 * than ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_CHECKED_H
#define LOADER_CHECKED_H

#include <pawl/plugin.h>

/* One plugin that runs, and what is open of it. */
typedef struct checked checked;

/* NULL where so many plugins are checked already that this one cannot be. [main] */
checked *checked_open(const pawl_plugin *plugin);
/* Before shutdown(): asserts that every instance is closed. NULL allowed. [main] */
void checked_close(checked *c);

/* The checking table in front of this one of the plugin's; a table of an interface that
 * this layer does not know comes back as it is. [main] */
const void *checked_table(checked *c, const char *interface_id, const void *table);

#endif /* LOADER_CHECKED_H */
