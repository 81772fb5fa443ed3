/*
 * run/choose.h - asking the plugins of one kind in turn, and what to say when none fits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_CHOOSE_H
#define RUN_CHOOSE_H

#include "loader/registry.h"

#include <stdbool.h>

/* Lives on the caller's stack; owns nothing. [main] */
typedef struct choice {
    registry *plugins;
    const char *interface_id;      /* PAWL_ENGINE, …                         */
    size_t nth;                    /* the next to be asked                   */
    const registry_plugin *plugin; /* the one that is being asked            */
    pawl_error latest;             /* for the call that is being made        */
    pawl_error best;               /* the most telling refusal so far        */
} choice;

choice choice_begin(registry *plugins, const char *interface_id);
/* The interface table of the next plugin; NULL: all were asked. */
const void *choice_next(choice *c);
/* True for a failure, which is then remembered: c->latest holds its reason. */
bool choice_fails(choice *c, pawl_status status);
/* The error to give when nobody took it; what: a word for the kind. */
pawl_status choice_error(const choice *c, const char *subject, const char *what, pawl_error *error);

#endif /* RUN_CHOOSE_H */
