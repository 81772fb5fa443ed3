/*
 * tests/plugins/replay/plugin.c - the entry of dev.pawl.test.replay.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

static int32_t probe(pawl_error *error)
{
    (void)error;
    return 1;
}

static pawl_status init(const pawl_host *host, pawl_error *error)
{
    (void)error;
    replay_report_to(host);
    return PAWL_OK;
}

static void shutdown(void)
{
    replay_report_to(NULL);
}

static const void *get_interface(const char *id)
{
    if (strcmp(id, PAWL_ENGINE) == 0)
        return &replay_engine;
    return strcmp(id, PAWL_TOKENIZER) == 0 ? &replay_tokenizer : NULL;
}

const pawl_plugin *pawl_plugin_entry_v1(void)
{
    static const pawl_plugin plugin = {.struct_size = sizeof plugin,
                                       .abi_minor = PAWL_ABI_MINOR,
                                       .id = "dev.pawl.test.replay",
                                       .version = "0.1.0",
                                       .probe = probe,
                                       .init = init,
                                       .shutdown = shutdown,
                                       .get_interface = get_interface};
    return &plugin;
}
