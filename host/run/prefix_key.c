/*
 * run/prefix_key.c - the chain of hashes over token ids. See prefix_key.h.
 *
 * Ids are hashed as they lie in memory: a file of saved state does not travel to a
 * machine of another byte order, whose engine could not read it either.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/prefix_key.h"

#include "base/digest.h"

#include <stdlib.h>
#include <string.h>

/* Rises whenever keys are made another way. */
#define GENERATION "pawl prefix 1"

#define MAX_CHUNKS (1u << 24) /* of a chain; no context is so long */

static pawl_bytes text_of(const char *text)
{
    return text ? (pawl_bytes){text, strlen(text)} : (pawl_bytes){"", 0};
}

static pawl_bytes bytes_of(const void *data, size_t size)
{
    return (pawl_bytes){data, size};
}

pawl_status prefix_fingerprint(const run_model *model, kv_key *fingerprint, pawl_error *error)
{
    const registry_plugin *engine = model->engine_plugin;
    pawl_bytes pieces[] = {
        text_of(GENERATION),
        text_of(model->info.kv_format),
        bytes_of(&model->info.state_chunk, sizeof model->info.state_chunk),
        text_of(engine ? engine->id : NULL),
        text_of(engine ? engine->version : NULL),
        text_of(model->vocabulary.digest),
    };
    return digest_pieces(pieces, sizeof pieces / sizeof pieces[0], fingerprint->bytes, error);
}

pawl_status prefix_chain_begin(prefix_chain *chain, const kv_key *fingerprint, uint32_t chunk,
                               const char *tenant, const char *salt, pawl_error *error)
{
    prefix_chain empty = {.chunk = chunk};
    pawl_bytes pieces[] = {text_of("root"), bytes_of(fingerprint, sizeof *fingerprint),
                           text_of(tenant), text_of(salt)};
    pawl_status status =
        digest_pieces(pieces, sizeof pieces / sizeof pieces[0], empty.root.bytes, error);
    if (!status)
        *chain = empty;
    return status;
}

const kv_key *prefix_chain_before(const prefix_chain *chain, uint64_t i)
{
    return i ? &chain->keys[i - 1] : &chain->root;
}

pawl_status prefix_link(uint32_t part, const kv_key *before, const int32_t *tokens,
                        uint64_t n_tokens, kv_key *key, pawl_error *error)
{
    pawl_bytes pieces[] = {text_of(part == PAWL_STATE_CHUNK ? "chunk" : "boundary"),
                           bytes_of(before, sizeof *before),
                           bytes_of(tokens, (size_t)n_tokens * sizeof *tokens)};
    return digest_pieces(pieces, sizeof pieces / sizeof pieces[0], key->bytes, error);
}

static pawl_status grow(prefix_chain *chain, uint64_t n_keys, pawl_error *error)
{
    if (n_keys <= chain->room)
        return PAWL_OK;
    uint64_t room = n_keys + n_keys / 2 + 4;
    kv_key *more = n_keys <= MAX_CHUNKS ? realloc(chain->keys, (size_t)room * sizeof *more) : NULL;
    if (!more)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the keys of %llu chunks",
                         (unsigned long long)n_keys);
    chain->keys = more;
    chain->room = room;
    return PAWL_OK;
}

pawl_status prefix_chain_extend(prefix_chain *chain, const int32_t *tokens, uint64_t n_tokens,
                                pawl_error *error)
{
    uint64_t chunk = chain->chunk, n_keys = n_tokens / chunk;
    pawl_status status = grow(chain, n_keys, error);
    while (!status && chain->n_keys < n_keys) {
        uint64_t i = chain->n_keys;
        status = prefix_link(PAWL_STATE_CHUNK, prefix_chain_before(chain, i), tokens + i * chunk,
                             chunk, &chain->keys[i], error);
        chain->n_keys += !status;
    }
    return status;
}

void prefix_chain_cut(prefix_chain *chain, uint64_t n_tokens)
{
    uint64_t n_keys = n_tokens / chain->chunk;
    chain->n_keys = n_keys < chain->n_keys ? n_keys : chain->n_keys;
}

void prefix_chain_clear(prefix_chain *chain)
{
    free(chain->keys);
    *chain = (prefix_chain){0};
}
