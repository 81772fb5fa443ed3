/*
 * loader/check_rules.c - what rules need, made once: library, host, instances.
 *
 * A plugin that does not offer an interface, and an engine or tokenizer that does
 * not read the format of the kit's own tiny model (PAWL_E_UNSUPPORTED), skip the
 * rules that need them; one that refuses the user's model fails them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/check_rules.h"

#include <stdlib.h>
#include <string.h>

enum check_verdict check_say(check *c, enum check_verdict verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    return verdict;
}

uint32_t check_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* ---- the host that the kit shows ---- */

static const void *no_interface(const pawl_host *host, const char *id)
{
    (void)host;
    (void)id;
    return NULL;
}

static void drop_line(const pawl_host *host, int32_t level, const char *component, pawl_bytes line)
{
    (void)host;
    (void)level;
    (void)component;
    (void)line;
}

enum check_verdict check_load(check *c)
{
    pawl_error why = {.struct_size = sizeof why};
    if (c->loaded.plugin)
        return CHECK_PASS;
    if (library_open(c->library_path, &c->loaded, &why))
        return check_say(c, CHECK_FAIL, "%s", why.message);
    return CHECK_PASS;
}

enum check_verdict check_init(check *c)
{
    pawl_error why = {.struct_size = sizeof why};
    if (c->initialised)
        return CHECK_PASS;
    CHECK_NEED(c, check_load(c));
    if (c->loaded.plugin->probe(&why) <= 0)
        return check_say(c, CHECK_SKIP, "it cannot run on this machine: %s", why.message);
    c->host = (pawl_host){.struct_size = sizeof c->host,
                          .abi_minor = PAWL_ABI_MINOR,
                          .version = PAWL_VERSION,
                          .get_interface = no_interface,
                          .log = drop_line};
    if (c->loaded.plugin->init(&c->host, &why))
        return check_say(c, CHECK_FAIL, "init failed: %s", why.message);
    c->initialised = true;
    return CHECK_PASS;
}

static enum check_verdict find_table(check *c, const char *id, const void **table)
{
    if (*table)
        return CHECK_PASS;
    CHECK_NEED(c, check_init(c));
    *table = c->loaded.plugin->get_interface(id);
    return *table ? CHECK_PASS : check_say(c, CHECK_SKIP, "it does not offer %s", id);
}

enum check_verdict check_engine_table(check *c)
{
    const void *table = c->engine_api;
    enum check_verdict verdict = find_table(c, PAWL_ENGINE, &table);
    c->engine_api = table;
    return verdict;
}

enum check_verdict check_tokenizer_table(check *c)
{
    const void *table = c->tokenizer_api;
    enum check_verdict verdict = find_table(c, PAWL_TOKENIZER, &table);
    c->tokenizer_api = table;
    return verdict;
}

enum check_verdict check_chat_table(check *c)
{
    const void *table = c->chat_api;
    enum check_verdict verdict = find_table(c, PAWL_CHAT, &table);
    c->chat_api = table;
    return verdict;
}

static pawl_bytes text(const char *s)
{
    return (pawl_bytes){s, strlen(s)};
}

pawl_engine_config check_engine_config(const check *c)
{
    return (pawl_engine_config){.struct_size = sizeof(pawl_engine_config),
                                .max_sequences = 8,
                                .max_context = 1024,
                                .threads = 2,
                                .model_path = text(c->model)};
}

static enum check_verdict refused(check *c, const char *what, pawl_status status,
                                  const pawl_error *why)
{
    bool skips = !c->own_model && status == PAWL_E_UNSUPPORTED;
    return check_say(c, skips ? CHECK_SKIP : CHECK_FAIL, "%s does not open %s: %s", what,
                     c->own_model ? c->model : "the kit's tiny llama GGUF (give --model)",
                     why->message);
}

enum check_verdict check_engine(check *c)
{
    pawl_error why = {.struct_size = sizeof why};
    if (c->engine)
        return CHECK_PASS;
    CHECK_NEED(c, check_engine_table(c));
    pawl_engine_config config = check_engine_config(c);
    pawl_status status = c->engine_api->open(&config, NULL, NULL, &c->engine, &why);
    if (status) {
        c->engine = NULL;
        return refused(c, "the engine", status, &why);
    }
    c->info = (pawl_engine_info){.struct_size = sizeof c->info};
    c->engine_api->info(c->engine, &c->info);
    if (c->info.vocab_size < 8 || c->info.context_limit == 0)
        return check_say(c, CHECK_FAIL, "info() gives a vocabulary of %u and a context of %llu",
                         c->info.vocab_size, (unsigned long long)c->info.context_limit);
    return CHECK_PASS;
}

enum check_verdict check_tokenizer(check *c)
{
    pawl_error why = {.struct_size = sizeof why};
    if (c->tokenizer)
        return CHECK_PASS;
    CHECK_NEED(c, check_tokenizer_table(c));
    pawl_status status = c->tokenizer_api->open(text(c->model), &c->tokenizer, &why);
    if (status) {
        c->tokenizer = NULL;
        return refused(c, "the tokenizer", status, &why);
    }
    c->tokenizer_info = (pawl_tokenizer_info){.struct_size = sizeof c->tokenizer_info};
    c->tokenizer_api->info(c->tokenizer, &c->tokenizer_info);
    return CHECK_PASS;
}

void check_end(check *c)
{
    if (c->engine)
        c->engine_api->close(c->engine);
    if (c->tokenizer)
        c->tokenizer_api->close(c->tokenizer);
    if (c->initialised)
        c->loaded.plugin->shutdown();
    library_close(&c->loaded);
    c->engine = NULL;
    c->tokenizer = NULL;
    c->initialised = false;
}
