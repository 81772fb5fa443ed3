/*
 * run/choose.c - asking the plugins of one kind in turn. See choose.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/choose.h"

#include <string.h>

choice choice_begin(registry *plugins, const char *interface_id)
{
    return (choice){.plugins = plugins,
                    .interface_id = interface_id,
                    .latest = {.struct_size = sizeof(pawl_error)},
                    .best = {.struct_size = sizeof(pawl_error)}};
}

const void *choice_next(choice *c)
{
    const void *table = NULL;
    c->latest.message[0] = '\0';
    if (registry_use(c->plugins, c->interface_id, c->nth, &table, &c->plugin, NULL) != PAWL_OK)
        return NULL;
    c->nth++;
    return table;
}

bool choice_fails(choice *c, pawl_status status)
{
    if (status == PAWL_OK)
        return false;
    c->latest.code = status;
    if (!c->best.code || (c->best.code == PAWL_E_UNSUPPORTED && status != PAWL_E_UNSUPPORTED))
        c->best = c->latest;
    return true;
}

pawl_status choice_error(const choice *c, const char *subject, const char *what, pawl_error *error)
{
    if (c->nth == 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND,
                         "no %s plugin is usable; `pawl plugin list` says why", what);
    if (!c->best.code)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: no %s plugin was asked", subject, what);
    if (strstr(c->best.message, subject))
        return pawl_fail(error, c->best.code, "%s", c->best.message);
    return pawl_fail(error, c->best.code, "%s: %s", subject, c->best.message);
}
