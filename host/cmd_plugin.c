/*
 * host/cmd_plugin.c - `pawl plugin list|check|probe`.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "commands.h"

#include "loader/child.h"
#include "loader/probe.h"
#include "loader/registry.h"

#include <string.h>

int cmd_plugin(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "probe") == 0)
        return probe_serve(argc - 2, argv + 2, child_begin());
    return 2;
}
