/*
 * cpu/plugin.c - the entry and the tables that the host sees.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/engine.h"

#include <string.h>

/* The one pointer this plugin keeps: the host's, from init() to shutdown(). */
static const pawl_host *host;

const pawl_host *plugin_host(void)
{
    return host;
}

/* Portable C runs everywhere; better engines say more. */
static int32_t probe(pawl_error *error)
{
    (void)error;
    return 10;
}

static pawl_status init(const pawl_host *given, pawl_error *error)
{
    (void)error;
    host = given;
    return PAWL_OK;
}

static void shutdown_plugin(void)
{
    host = NULL;
}

static const pawl_engine_api engine_api = {
    .struct_size = sizeof(pawl_engine_api),
    .inspect = engine_inspect,
    .open = engine_open,
    .close = engine_close,
    .info = engine_info,
    .capacity = engine_capacity,
    .reserve = sequence_reserve,
    .sequence_open = sequence_open,
    .sequence_close = sequence_close,
    .submit = engine_submit,
    .wait = engine_wait,
    .cancel = engine_cancel,
    .length = sequence_length,
    .truncate = sequence_truncate,
    .fork = sequence_fork,
    .state_save = state_save,
    .state_load = state_load,
};

static const void *get_interface(const char *id)
{
    return strcmp(id, PAWL_ENGINE) == 0 ? &engine_api : NULL;
}

static const pawl_plugin plugin = {
    .struct_size = sizeof(pawl_plugin),
    .abi_minor = PAWL_ABI_MINOR,
    .flags = PAWL_PLUGIN_UNLOADABLE,
    .id = "dev.pawl.cpu",
    .version = "0.1.0",
    .probe = probe,
    .init = init,
    .shutdown = shutdown_plugin,
    .get_interface = get_interface,
};

const pawl_plugin *pawl_plugin_entry_v1(void)
{
    return &plugin;
}
