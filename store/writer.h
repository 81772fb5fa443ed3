/*
 * store/writer.h - the store thread: the one connection that writes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_WRITER_H
#define STORE_WRITER_H

#include "base/metrics.h"
#include "store/keys.h"

/* Refused with PAWL_E_BUSY beyond either. */
#define WRITER_MAX_QUEUED 256                /* writes that wait            */
#define WRITER_MAX_BYTES ((size_t)256 << 20) /* their memory, all together  */

typedef struct writer writer;

/* Opens the database at path, migrating it where that is needed, loads its keys, and
 * starts the thread, which keeps them up to date; they outlive it. all: where it is
 * measured, or NULL. [main] */
pawl_status writer_open(const char *path, keys *known, metrics *all, writer **out,
                        pawl_error *error);
/* Finishes what is queued and ends the thread. [main] */
void writer_stop(writer *w);
/* Closes the connection of a stopped one: after all readers, so that it is the last
 * and SQLite deletes the log. [main] */
void writer_close(writer *w);

/* As in store.h; the arguments were checked. [any] */
pawl_status writer_put(writer *w, const store_response *response, store_done done, void *arg,
                       pawl_error *error);
pawl_status writer_remove(writer *w, const char *id, store_done done, void *arg, pawl_error *error);
pawl_status writer_conversation_put(writer *w, const store_conversation *conversation,
                                    store_done done, void *arg, pawl_error *error);
pawl_status writer_conversation_remove(writer *w, const char *id, store_done done, void *arg,
                                       pawl_error *error);
pawl_status writer_key_add(writer *w, const store_key *key, store_done done, void *arg,
                           pawl_error *error);
pawl_status writer_key_mark(writer *w, const char *id, enum store_key_mark mark, int64_t when_ms,
                            store_done done, void *arg, pawl_error *error);

#endif /* STORE_WRITER_H */
