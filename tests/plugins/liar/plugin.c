/*
 * tests/plugins/liar/plugin.c - the entry, and lies of the entry.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "liar/liar.h"

bool lie(const char *name)
{
    const char *told = getenv("PAWL_TEST_LIE");
    return strcmp(told ? told : "id", name) == 0;
}

static int32_t probe(pawl_error *error)
{
    if (lie("mute_probe"))
        return 0;
    if (lie("null_error"))
        error->code = 0;
    return 1;
}

static pawl_status init(const pawl_host *host, pawl_error *error)
{
    (void)error;
    if (lie("print"))
        puts("hello from a plugin");
    if (lie("metric"))
        host->metric(host, PAWL_COUNTER, "a", "b");
    if (lie("exact_size") && host->struct_size != sizeof *host)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "another host");
    return PAWL_OK;
}

static void shutdown(void)
{
}

static const void *get_interface(const char *id)
{
    static int calls;
    if (lie("unstable") && calls++ % 2)
        return strcmp(id, PAWL_ENGINE) == 0 ? &liar_engine_with_a_hole : NULL;
    if (lie("any_revision") && strncmp(id, "pawl.engine/", 12) == 0)
        return &liar_engine;
    if (strcmp(id, PAWL_ENGINE) == 0)
        return lie("hole") ? &liar_engine_with_a_hole : &liar_engine;
    if (strcmp(id, PAWL_CHAT) == 0)
        return lie("less") ? NULL : &liar_chat;
    return strcmp(id, PAWL_TOKENIZER) == 0 ? &liar_tokenizer : NULL;
}

const pawl_plugin *pawl_plugin_entry_v1(void)
{
    static const pawl_plugin honest = {.struct_size = sizeof honest,
                                       .abi_minor = PAWL_ABI_MINOR,
                                       .id = "dev.pawl.test.liar",
                                       .version = "0.1.0",
                                       .probe = probe,
                                       .init = init,
                                       .shutdown = shutdown,
                                       .get_interface = get_interface};
    static const pawl_plugin other = {.struct_size = sizeof other,
                                      .abi_minor = PAWL_ABI_MINOR,
                                      .id = "dev.pawl.test.somebody",
                                      .version = "0.1.0",
                                      .probe = probe,
                                      .init = init,
                                      .shutdown = shutdown,
                                      .get_interface = get_interface};
    return lie("id") ? &other : &honest;
}
