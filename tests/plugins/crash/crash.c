/*
 * tests/plugins/crash/crash.c - a plugin that takes its process along.
 *
 * PAWL_TEST_CRASH says how probe() ends: "hang", "exit", "abort"; else, and where it
 * is not set, by SIGSEGV.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pawl/plugin.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int32_t probe(pawl_error *error)
{
    const char *how = getenv("PAWL_TEST_CRASH");
    (void)error;
    if (how && strcmp(how, "hang") == 0)
        for (;;)
            pause();
    if (how && strcmp(how, "exit") == 0)
        _exit(3);
    if (how && strcmp(how, "abort") == 0)
        abort();
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would explain it and exit */
    raise(SIGSEGV);
    return 1;
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
    (void)id;
    return NULL;
}

const pawl_plugin *pawl_plugin_entry_v1(void)
{
    static const pawl_plugin plugin = {.struct_size = sizeof plugin,
                                       .abi_minor = PAWL_ABI_MINOR,
                                       .id = "dev.pawl.test.crash",
                                       .version = "0.1.0",
                                       .probe = probe,
                                       .init = init,
                                       .shutdown = shutdown,
                                       .get_interface = get_interface};
    return &plugin;
}
