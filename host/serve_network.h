/*
 * host/serve_network.h - the options of `pawl serve` that concern the network.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef HOST_SERVE_NETWORK_H
#define HOST_SERVE_NETWORK_H

#include "net/server.h"

#include <argp.h>

#define SERVE_MAX_NAMES 64 /* of --allow-host, and of --allow-origin */

typedef struct serve_network {
    net_config config; /* but for listen and runtime */
    const char *hosts[SERVE_MAX_NAMES];
    const char *origins[SERVE_MAX_NAMES];
} serve_network;

/* A child of the parser of `pawl serve`; its input is a serve_network. */
extern const struct argp serve_network_argp;

#endif /* HOST_SERVE_NETWORK_H */
