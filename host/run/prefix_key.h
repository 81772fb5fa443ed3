/*
 * run/prefix_key.h - what saved state is found by: a chain of hashes over token ids.
 *
 *   root  = H(fingerprint, tenant, salt)
 *   key 0 = H(root,  the ids of chunk 0)
 *   key 1 = H(key 0, the ids of chunk 1) …
 *
 * So equal keys mean the same tokens from the very beginning, on the same weights, for
 * the same tenant. What ends a timeline, a part of a chunk or the engine's boundary, is a
 * link like the others; boundaries are told from chunks by what kind of state they are.
 *
 * The fingerprint names all that the bytes of a state and their meaning depend on. What
 * is left out of it comes back as wrong words, so it is made in one place, here.
 *
 * A chain belongs to whoever holds it. [any, one thread at a time]
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef RUN_PREFIX_KEY_H
#define RUN_PREFIX_KEY_H

#include "run/model.h"
#include "store/kv.h"

typedef struct prefix_chain {
    kv_key root;
    uint32_t chunk; /* tokens of one, as the engine has it */
    kv_key *keys;   /* n_keys: of the whole chunks, in order */
    uint64_t n_keys;
    uint64_t room; /* of keys */
} prefix_chain;

/* Engine, weights, layout, kernels, tokenizer. */
pawl_status prefix_fingerprint(const run_model *model, kv_key *fingerprint, pawl_error *error);

/* An empty chain: of a tenant's timelines that were asked for with this salt ("": none). */
pawl_status prefix_chain_begin(prefix_chain *chain, const kv_key *fingerprint, uint32_t chunk,
                               const char *tenant, const char *salt, pawl_error *error);
/* Adds the keys of the whole chunks among the first n_tokens that it does not have yet.
 * The tokens must begin with those that it was made of. */
pawl_status prefix_chain_extend(prefix_chain *chain, const int32_t *tokens, uint64_t n_tokens,
                                pawl_error *error);
/* Forgets the keys beyond the first n_tokens. */
void prefix_chain_cut(prefix_chain *chain, uint64_t n_tokens);
void prefix_chain_clear(prefix_chain *chain);

/* The key that chunk i follows: its parent's, or the root. */
const kv_key *prefix_chain_before(const prefix_chain *chain, uint64_t i);

/* The key of n_tokens that follow a key; part: of enum pawl_state_part. */
pawl_status prefix_link(uint32_t part, const kv_key *before, const int32_t *tokens,
                        uint64_t n_tokens, kv_key *key, pawl_error *error);

#endif /* RUN_PREFIX_KEY_H */
