/*
 * net/keyring.h - which keys open this server, and whose they are.
 *
 * A key comes from a file, from the environment, or from the store (`pawl key add`).
 * Where there is none at all, everybody may; where there ever was one in the store, one
 * is asked for even after the last was revoked. What is kept and compared is SHA-256 of
 * a secret; every kept one is compared, each from end to end. Loop thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef NET_KEYRING_H
#define NET_KEYRING_H

#include "run/keys.h"

#define KEYRING_MAX 1024 /* keys of a file       */
#define KEYRING_MAX_SECRET 512

typedef struct keyring keyring;

enum keyring_answer {
    KEYRING_GOOD,
    KEYRING_MISSING,   /* no Authorization                */
    KEYRING_MALFORMED, /* it is not "Bearer KEY"          */
    KEYRING_UNKNOWN,
    KEYRING_EXPIRED,
    KEYRING_REVOKED
};

/* file: a key a line, maybe followed by a name, which is its tenant then; '#' begins a
 * comment; NULL: none. Refused where others than its owner may read it. secret: one
 * more, NULL or "": none. [main] */
pawl_status keyring_open(const char *file, const char *secret, run_runtime *runtime, keyring **out,
                         pawl_error *error);
void keyring_close(keyring *ring); /* NULL allowed */

bool keyring_required(const keyring *ring);
/* authorization: the header's value, "" where it is absent. *caller is filled where the
 * answer is good. */
enum keyring_answer keyring_find(keyring *ring, const char *authorization, run_caller *caller);
/* Whether who was good once, maybe hours ago, is it still. */
bool keyring_still_good(keyring *ring, const run_caller *caller);
/* For the client: what is wrong and what would be right. */
const char *keyring_message(enum keyring_answer answer);

#endif /* NET_KEYRING_H */
