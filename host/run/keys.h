/*
 * run/keys.h - the stored keys, for whoever checks a request.
 *
 * Answers come from memory and are true at once after a key was added or revoked. [any]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_KEYS_H
#define RUN_KEYS_H

#include "run/caller.h"
#include "run/runtime.h"

enum run_key_answer { RUN_KEY_GOOD, RUN_KEY_UNKNOWN, RUN_KEY_EXPIRED, RUN_KEY_REVOKED };

/* Whether keys were ever stored: then one is asked for, even if all are revoked. */
bool run_keys_exist(const run_runtime *runtime);
/* The key whose secret has this SHA-256, in hex; where hash is NULL, the one of caller->key.
 * Where it is good, *caller is filled, and that it was used is noted now and then. */
enum run_key_answer run_key_find(run_runtime *runtime, const char *hash, run_caller *caller);

#endif /* RUN_KEYS_H */
