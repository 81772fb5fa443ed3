/*
 * store/control.h - speaking to the process that holds a data folder.
 *
 * One process holds a folder and writes its database. So that keys can be added and
 * revoked while a server runs, whoever holds the folder answers on a Unix socket in it,
 * DIR/control: one JSON line asks, one answers, per connection. The socket has mode
 * 0600 and asks the kernel who has connected: this user, or root.
 *
 *     pawl key ── control_connect() ──► DIR/control ──► control thread ──► the store
 *
 * Only keys can be asked about. No secret passes: what is stored is its hash.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_CONTROL_H
#define STORE_CONTROL_H

#include "store/store.h"

#include <sys/un.h>

#include "base/json.h"

typedef struct control control;

/* Answers for a store until control_close(), which comes before the store's. The
 * folder's lock is held. [main] */
pawl_status control_open(const char *folder, store *of, control **out, pawl_error *error);
void control_close(control *c); /* NULL allowed. [main] */

/* A store whose key functions are those of the process that holds the folder; all its
 * others say PAWL_E_UNSUPPORTED. done() is called before the function returns.
 * PAWL_E_NOT_FOUND: nobody answers there. [main] */
pawl_status control_connect(const char *folder, store **out, pawl_error *error);

/* control_wire.c: what both sides write and read. */
cJSON *control_key_out(const store_key *key); /* NULL without memory */
/* False: it is no key. */
bool control_key_in(const cJSON *from, store_key *key);
/* One line of at most max bytes into a text without its newline, to be free()d; NULL: it
 * did not come. */
char *control_read_line(int fd, size_t max);
/* Takes the tree. */
bool control_write_line(int fd, cJSON *line);
/* An address that fits, however long the folder's name is; its folder must be closed
 * when it has been used. -1: there is no such folder. */
int control_address(const char *folder, struct sockaddr_un *address);

#endif /* STORE_CONTROL_H */
