/*
 * loader/check.h - the conformance kit: does a plugin keep its promises?
 *
 * Rules come in groups, and each group runs in a child process of its own: a crash
 * or a hang is one failed rule, named, and the other groups still run. A child
 * announces each rule before it runs it, so that a death can be pinned on one.
 *
 *   check_run [parent] -> pawl plugin check-group GROUP LIBRARY MANIFEST MODEL KIND
 *                      -> check_serve [child] -> lines "verdict TAB rule TAB text"
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LOADER_CHECK_H
#define LOADER_CHECK_H

#include <pawl/plugin.h>

#include <stdbool.h>

enum check_verdict { CHECK_PASS, CHECK_FAIL, CHECK_SKIP };

typedef struct check_config {
    const char *library;       /* the shared object                                     */
    const char *model;         /* for engine and tokenizer; NULL: a tiny one is made    */
    const char *const *groups; /* names, or NULL for all                                */
    size_t n_groups;
    int64_t limit_ms; /* of each group                                         */
} check_config;

/* One rule's outcome; `group` and the texts are borrowed for the call. */
typedef void (*check_report)(void *arg, const char *group, const char *rule,
                             enum check_verdict verdict, const char *text);

/* Runs the groups. *failed counts the rules that failed. An error: nothing could be
 * run (no such file or group). [main] */
pawl_status check_run(const check_config *config, check_report report, void *arg, size_t *failed,
                      pawl_error *error);

/* What a child does. argv: GROUP LIBRARY MANIFEST MODEL KIND [EXCHANGE]; "" where there is
 * none. */
int check_serve(int argc, char **argv, int out);

/* Group names, in order; NULL past the last. */
const char *check_group_name(size_t i);

#endif /* LOADER_CHECK_H */
