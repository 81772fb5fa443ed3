/*
 * tokenizer/plugin.c - the plugin's entry and its pawl.tokenizer/1 table.
 *
 * Keeps no state of its own: everything hangs on the pawl_tokenizer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pawl/plugin.h>
#include <pawl/plugin_util.h>

#include "tokenizer/tokenizer.h"

static void get_info(const pawl_tokenizer *tokenizer, pawl_tokenizer_info *info)
{
    pawl_tokenizer_info full = {
        .struct_size = sizeof full,
        .vocab_size = tokenizer->vocab.n,
        .bos = tokenizer->specials[SPECIAL_BOS],
        .eos = tokenizer->specials[SPECIAL_EOS],
        .eot = tokenizer->specials[SPECIAL_EOT],
        .add_bos = tokenizer->add_bos,
        .name = tokenizer->name,
        .digest = tokenizer->digest,
    };
    pawl_fill(info, &full, sizeof full);
}

static pawl_bytes get_piece(const pawl_tokenizer *tokenizer, int32_t token)
{
    if (token < 0 || (uint32_t)token >= tokenizer->vocab.n)
        return (pawl_bytes){"", 0};
    return vocab_piece(&tokenizer->vocab, (uint32_t)token);
}

static int32_t get_token(const pawl_tokenizer *tokenizer, pawl_bytes name)
{
    static const char *const names[SPECIAL_COUNT] = {
        [SPECIAL_BOS] = "bos", [SPECIAL_EOS] = "eos", [SPECIAL_EOT] = "eot",
        [SPECIAL_UNK] = "unk", [SPECIAL_PAD] = "pad",
    };
    for (int i = 0; i < SPECIAL_COUNT; i++)
        if (pawl_bytes_are(name, names[i]))
            return tokenizer->specials[i];
    return controls_named(&tokenizer->controls, name);
}

static uint32_t get_flags(const pawl_tokenizer *tokenizer, int32_t token)
{
    if (token < 0 || (uint32_t)token >= tokenizer->vocab.n)
        return 0;
    return tokenizer->flags[token];
}

static const pawl_tokenizer_api api = {
    .struct_size = sizeof api,
    .open = tokenizer_open,
    .close = tokenizer_close,
    .info = get_info,
    .encode = tokenizer_encode,
    .piece = get_piece,
    .token = get_token,
    .token_flags = get_flags,
};

static int32_t probe(pawl_error *error)
{
    (void)error; /* runs everywhere */
    return 10;
}

static pawl_status init(const pawl_host *host, pawl_error *error)
{
    (void)host; /* nothing to log or count */
    (void)error;
    return PAWL_OK;
}

static void shut_down(void)
{
}

static const void *get_interface(const char *id)
{
    return strcmp(id, PAWL_TOKENIZER) == 0 ? &api : NULL;
}

static const pawl_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_minor = PAWL_ABI_MINOR,
    .flags = PAWL_PLUGIN_UNLOADABLE,
    .id = "dev.pawl.tokenizer",
    .version = "0.1.0",
    .probe = probe,
    .init = init,
    .shutdown = shut_down,
    .get_interface = get_interface,
};

const pawl_plugin *pawl_plugin_entry_v1(void)
{
    return &plugin;
}
