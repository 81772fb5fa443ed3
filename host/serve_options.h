/*
 * host/serve_options.h - the command line of `pawl serve`, made from the table of settings.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_SERVE_OPTIONS_H
#define HOST_SERVE_OPTIONS_H

#include "config/config.h"

typedef struct serve_options {
    config *config;
    bool print; /* --print-config */
    bool check; /* --check-config */
} serve_options;

/* Reads flags, the file they name (or PAWL_CONFIG does), and the environment, and checks
 * the whole; what is wrong is in the config's errors. A flag that does not exist ends the
 * process with status 2, --help with 0. False: no memory. [main] */
bool serve_options_read(int argc, char **argv, serve_options *options);

#endif /* HOST_SERVE_OPTIONS_H */
