/*
 * run/prefix.c - finding saved state. See prefix.h; prefix_load.c and prefix_save.c have
 * the rest.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/prefix.h"

#include "base/log.h"

#include <stdlib.h>

pawl_status prefix_open(const run_model *model, kv *store, uint64_t min_tokens,
                        const base_clock *clock, prefix **out, pawl_error *error)
{
    const pawl_engine_info *info = &model->info;
    const char *format = info->kv_format;
    if (!info->state_chunk || !format || !format[0] || !model->engine_api->state_save ||
        !model->engine_api->state_load) {
        log_write(PAWL_LOG_INFO, "prefix", "%s: its engine saves no state", model->name);
        *out = NULL;
        return PAWL_OK;
    }
    prefix *p = calloc(1, sizeof *p);
    if (!p)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a prefix cache");
    p->model = model;
    p->clock = clock;
    p->kv = store;
    p->chunk = info->state_chunk;
    p->boundary = info->boundary_bytes > 0;
    p->min_tokens = min_tokens ? min_tokens : PREFIX_MIN_TOKENS;
    pawl_status status = prefix_fingerprint(model, &p->fingerprint, error);
    if (status)
        free(p);
    else
        *out = p;
    return status;
}

void prefix_close(prefix *p)
{
    free(p);
}

/* The longest end of a timeline after its first n_chunks: a part of the next chunk, or a
 * boundary, which may stand right behind them. */
static bool find_end(const prefix *p, const prefix_chain *chain, const int32_t *tokens,
                     uint64_t n_tokens, uint64_t n_chunks, prefix_hit *hit)
{
    uint32_t part = p->boundary ? PAWL_STATE_BOUNDARY : PAWL_STATE_CHUNK;
    uint64_t begin = n_chunks * p->chunk, least = p->boundary && n_chunks ? 0 : 1;
    uint64_t n = n_tokens - begin;
    if (n >= p->chunk)
        n = p->chunk - 1;
    for (n++; n-- > least;) {
        kv_key key;
        if (prefix_link(part, prefix_chain_before(chain, n_chunks), tokens + begin, n, &key, NULL))
            return false;
        if (!kv_has(p->kv, &key))
            continue;
        *hit =
            (prefix_hit){.n_tokens = begin + n, .n_chunks = n_chunks, .has_end = true, .end = key};
        return true;
    }
    return false;
}

/* Where the engine has boundaries this goes back to the last chunk that one stands behind;
 * the cuts in long prompts bound how far that is. */
prefix_hit prefix_find(prefix *p, prefix_chain *chain, const int32_t *tokens, uint64_t n_tokens)
{
    prefix_hit hit = {0}, none = {0};
    uint64_t most = n_tokens ? n_tokens - 1 : 0;
    if (most < p->min_tokens || prefix_chain_extend(chain, tokens, most, NULL) != PAWL_OK)
        return none;
    uint64_t n = most / p->chunk;
    n = n ? kv_find(p->kv, chain->keys, n) : 0;
    while (!find_end(p, chain, tokens, most, n, &hit) && p->boundary && n > 0)
        n--;
    if (!hit.has_end && !p->boundary)
        hit = (prefix_hit){.n_tokens = n * p->chunk, .n_chunks = n};
    return hit.n_tokens >= p->min_tokens ? hit : none;
}
