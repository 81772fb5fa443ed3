/*
 * chat/plugin.c - the plugin's entry.
 *
 * No state at all: no host pointer is kept, no thread started, so init() and
 * shutdown() have nothing to do and the library may be unloaded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/chat.h"

#include <string.h>

static int32_t probe(pawl_error *error)
{
    (void)error;
    return 10; /* plain C: every machine will do */
}

static pawl_status init(const pawl_host *host, pawl_error *error)
{
    (void)host;
    (void)error;
    return PAWL_OK;
}

static void shutdown(void)
{
}

static const void *get_interface(const char *id)
{
    return strcmp(id, PAWL_CHAT) == 0 ? &chat_api : NULL;
}

const pawl_plugin *pawl_plugin_entry_v1(void)
{
    static const pawl_plugin plugin = {
        .struct_size = sizeof(pawl_plugin),
        .abi_minor = PAWL_ABI_MINOR,
        .flags = PAWL_PLUGIN_UNLOADABLE,
        .id = "dev.pawl.chat",
        .version = "0.1.0",
        .probe = probe,
        .init = init,
        .shutdown = shutdown,
        .get_interface = get_interface,
    };
    return &plugin;
}
