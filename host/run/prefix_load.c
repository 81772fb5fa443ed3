/*
 * run/prefix_load.c - saved state into a sequence, part by part. See prefix.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/prefix.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

pawl_status prefix_load_begin(prefix *p, const prefix_chain *chain, const prefix_hit *hit,
                              prefix_load **out, pawl_error *error)
{
    prefix_load *load = calloc(1, sizeof *load);
    kv_key *keys = malloc((size_t)(hit->n_chunks + 2) * sizeof *keys);
    if (!load || !keys) {
        free(load);
        free(keys);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to load a prefix");
    }
    if (hit->n_chunks)
        memcpy(keys, chain->keys, (size_t)hit->n_chunks * sizeof *keys);
    *load = (prefix_load){.prefix = p, .keys = keys, .n_keys = hit->n_chunks, .hit = *hit};
    if (hit->has_end)
        keys[load->n_keys++] = hit->end;
    kv_pin(p->kv, keys, load->n_keys);
    *out = load;
    return PAWL_OK;
}

void prefix_load_end(prefix_load *load)
{
    if (!load)
        return;
    kv_unpin(load->prefix->kv, load->keys, load->n_keys);
    free(load->keys);
    free(load);
}

/* What is wrong with a part: the part itself, or only the moment. */
static bool is_damage(pawl_status status)
{
    return status != PAWL_OK && status != PAWL_E_MEMORY && status != PAWL_E_BUSY &&
           status != PAWL_E_DEVICE && status != PAWL_E_CANCELLED;
}

/* tokens: of [begin, end). */
static pawl_status load_part(prefix_load *load, pawl_sequence *sequence, const int32_t *tokens,
                             uint32_t part, uint64_t begin, uint64_t end)
{
    const prefix *p = load->prefix;
    kv_reader *reader = NULL;
    pawl_source source;
    pawl_error error = {.struct_size = sizeof error};
    uint64_t named = prefix_named_begin(p, begin, end);
    pawl_status status = kv_read(p->kv, &load->keys[load->next], tokens - (begin - named),
                                 end - named, &reader, &source);
    if (status)
        return status; /* gone meanwhile; the kv counts it */
    status = p->model->engine_api->state_load(sequence, part, tokens, begin, end, &source, &error);
    kv_read_end(reader, !is_damage(status));
    if (status)
        log_write(PAWL_LOG_WARN, "prefix", "%s: saved state of %llu tokens is not loaded: %s",
                  p->model->name, (unsigned long long)(end - begin), error.message);
    return status;
}

enum prefix_progress prefix_load_one(prefix_load *load, pawl_sequence *sequence,
                                     const int32_t *tokens)
{
    prefix *p = load->prefix;
    const base_clock *clock = p->clock;
    bool is_end = load->next == load->hit.n_chunks;
    uint32_t part = is_end && p->boundary ? PAWL_STATE_BOUNDARY : PAWL_STATE_CHUNK;
    uint64_t begin = load->next * p->chunk, end = is_end ? load->hit.n_tokens : begin + p->chunk;
    if (load->next == load->n_keys)
        return PREFIX_DONE;
    int64_t started = clock->monotonic_ns(clock->context);
    if (load_part(load, sequence, tokens + begin, part, begin, end)) {
        load->n_tokens = p->boundary ? 0 : load->n_tokens;
        return p->boundary && begin ? PREFIX_BROKEN : PREFIX_DONE;
    }
    prefix_pace_loaded(&p->pace, end - begin, clock->monotonic_ns(clock->context) - started);
    load->n_tokens = p->model->engine_api->length(sequence);
    load->next++;
    return load->next < load->n_keys ? PREFIX_MORE : PREFIX_DONE;
}
