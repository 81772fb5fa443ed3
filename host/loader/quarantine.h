/*
 * loader/quarantine.h - libraries whose probe died, by the digest of their file.
 *
 * A probe that crashes or hangs costs a child process and up to its time limit at every
 * start, and says the same each time. So it is written down, in quarantine.json of the
 * state folder ($XDG_STATE_HOME/pawl, or ~/.local/state/pawl), with the library's
 * SHA-256: the same file is not probed again, a changed one is. `pawl plugin release`
 * takes entries out.
 *
 *   {"quarantine":1,"libraries":[
 *     {"sha256":"…","id":"dev.x.y","library":"/path/y.so","reason":"…","time":1764500000}]}
 *
 * Where the folder cannot be written there is no quarantine; that is logged once. A
 * quarantine belongs to whoever opened it. [main]; the file is replaced by rename under
 * a lock of the folder, so several processes may share it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_QUARANTINE_H
#define LOADER_QUARANTINE_H

#include <pawl/plugin.h>

#include <stdbool.h>

#define QUARANTINE_MAX 64 /* entries; the oldest make room */

typedef struct quarantine quarantine;

/* Reads what is there; NULL where there is no folder to look in or no memory. */
quarantine *quarantine_open(void);
void quarantine_close(quarantine *q); /* NULL allowed */

bool quarantine_is_empty(const quarantine *q); /* NULL allowed */
/* Why the library with this digest is not to be probed, or NULL: it may be. */
const char *quarantine_reason(const quarantine *q, const char *sha256); /* q may be NULL */
/* Writes one down. A failure is logged, the first time. q may be NULL. */
void quarantine_add(quarantine *q, const char *sha256, const char *id, const char *library,
                    const char *reason);

/* Takes out all entries of this plugin id or digest; *count says how many there were. */
pawl_status quarantine_release(const char *id_or_sha256, size_t *count, pawl_error *error);

#endif /* LOADER_QUARANTINE_H */
