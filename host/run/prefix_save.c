/*
 * run/prefix_save.c - the state of a sequence into the kv, part by part. See prefix.h.
 *
 * Nothing is saved twice: a part that some timeline has brought there already is passed
 * over without a copy. The engine writes into one allocation, which the kv takes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/prefix.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PART_BYTES ((uint64_t)1 << 30)
#define QUIET_NS ((int64_t)250000000) /* after the kv had no room */

pawl_status prefix_track_begin(prefix *p, prefix_track *track, const char *tenant, const char *salt,
                               pawl_error *error)
{
    prefix_track empty = {.n_kept = 0};
    pawl_status status =
        prefix_chain_begin(&empty.chain, &p->fingerprint, p->chunk, tenant, salt, error);
    if (!status)
        *track = empty;
    return status;
}

void prefix_track_look(prefix *p, prefix_track *track, const int32_t *tokens, uint64_t n_tokens)
{
    if (prefix_chain_extend(&track->chain, tokens, n_tokens, NULL) != PAWL_OK)
        return;
    uint64_t n = n_tokens / p->chunk;
    track->n_kept = n ? kv_find(p->kv, track->chain.keys, n) : 0;
    track->end_at = 0;
}

void prefix_track_cut(prefix_track *track, uint64_t n_tokens)
{
    if (!track->chain.chunk)
        return;
    prefix_chain_cut(&track->chain, n_tokens);
    if (track->n_kept > track->chain.n_keys)
        track->n_kept = track->chain.n_keys;
    if (track->end_at > n_tokens)
        track->end_at = 0;
}

void prefix_track_clear(prefix_track *track)
{
    prefix_chain_clear(&track->chain);
    *track = (prefix_track){.n_kept = 0};
}

/* What the engine writes, in one piece. */
typedef struct payload {
    uint8_t *data;
    uint64_t size, room;
} payload;

static pawl_status payload_write(void *context, const void *data, uint64_t size)
{
    payload *to = context;
    if (size > MAX_PART_BYTES - to->size)
        return PAWL_E_LIMIT;
    if (size > to->room - to->size) {
        uint64_t room = to->size + size + to->room / 2;
        uint8_t *more = realloc(to->data, (size_t)room);
        if (!more)
            return PAWL_E_MEMORY;
        to->data = more;
        to->room = room;
    }
    if (size)
        memcpy(to->data + to->size, data, (size_t)size);
    to->size += size;
    return PAWL_OK;
}

/* Room for what is expected, so that nothing is copied twice. */
static void payload_init(payload *to, const prefix *p, uint32_t part)
{
    const pawl_engine_info *info = &p->model->info;
    uint64_t room = part == PAWL_STATE_CHUNK ? info->chunk_bytes : info->boundary_bytes;
    room = room && room <= MAX_PART_BYTES ? room : 4096;
    *to = (payload){.data = malloc((size_t)room)};
    to->room = to->data ? room : 0;
}

/* One part on its way. */
typedef struct part {
    kv_key key;
    uint32_t kind;     /* of enum pawl_state_part */
    uint64_t n_chunks; /* before it               */
    uint64_t begin, end;
} part;

static pawl_status save(prefix *p, const part *what, const prefix_track *track, const char *tenant,
                        const pawl_sequence *sequence, const int32_t *tokens, pawl_error *error)
{
    payload to;
    payload_init(&to, p, what->kind);
    pawl_sink sink = {&to, payload_write};
    pawl_status status = p->model->engine_api->state_save(sequence, what->kind, what->begin,
                                                          what->end, &sink, error);
    if (status) {
        free(to.data);
        return status;
    }
    uint64_t named = prefix_named_begin(p, what->begin, what->end);
    uint8_t *fitting = realloc(to.data, (size_t)to.size + !to.size);
    kv_chunk chunk = {.key = what->key,
                      .tenant = tenant,
                      .begin = named,
                      .tokens = tokens + named,
                      .n_tokens = what->end - named,
                      .part = what->kind,
                      .payload = fitting ? fitting : to.data,
                      .size = to.size};
    if (what->n_chunks)
        chunk.parent = *prefix_chain_before(&track->chain, what->n_chunks);
    status = kv_put(p->kv, &chunk);
    return status ? pawl_fail(error, status, "the cache does not take it") : PAWL_OK;
}

/* Saves a part that is not there. False: it is not there now either. */
static bool keep(prefix *p, const part *what, prefix_track *track, const char *tenant,
                 const pawl_sequence *sequence, const int32_t *tokens)
{
    pawl_error error = {.struct_size = sizeof error};
    pawl_status status = save(p, what, track, tenant, sequence, tokens, &error);
    if (!status)
        return true;
    if (status == PAWL_E_BUSY || status == PAWL_E_MEMORY) {
        p->quiet_until = p->clock->monotonic_ns(p->clock->context) + QUIET_NS;
        return false;
    }
    if (status == PAWL_E_NOT_FOUND) { /* an ancestor was evicted: from the first gap, later */
        p->quiet_until = p->clock->monotonic_ns(p->clock->context) + QUIET_NS;
        track->n_kept = 0;
        return false;
    }
    track->given_up = true;
    log_write(PAWL_LOG_WARN, "prefix", "%s: state of [%llu, %llu) is not saved: %s", p->model->name,
              (unsigned long long)what->begin, (unsigned long long)what->end, error.message);
    return false;
}

/* The end of the timeline. False: it ends with a chunk, and that is all. */
static bool end_of(const prefix *p, const prefix_track *track, const int32_t *tokens,
                   uint64_t n_tokens, part *end)
{
    uint64_t n = n_tokens / p->chunk, begin = n * p->chunk;
    if (begin == n_tokens && !p->boundary)
        return false;
    *end = (part){.kind = p->boundary ? PAWL_STATE_BOUNDARY : PAWL_STATE_CHUNK,
                  .n_chunks = n,
                  .begin = begin,
                  .end = n_tokens};
    return prefix_link(end->kind, prefix_chain_before(&track->chain, n), tokens + begin,
                       n_tokens - begin, &end->key, NULL) == PAWL_OK;
}

static bool is_quiet(prefix *p)
{
    if (p->quiet_until && p->clock->monotonic_ns(p->clock->context) >= p->quiet_until)
        p->quiet_until = 0;
    return p->quiet_until != 0;
}

bool prefix_save_one(prefix *p, prefix_track *track, const char *tenant,
                     const pawl_sequence *sequence, const int32_t *tokens, uint64_t n_tokens,
                     bool with_end)
{
    uint64_t n = n_tokens / p->chunk;
    part end;
    bool due = track->n_kept < n || (with_end && track->end_at != n_tokens);
    if (!due || track->given_up || n_tokens < p->min_tokens || is_quiet(p) ||
        prefix_chain_extend(&track->chain, tokens, n_tokens, NULL) != PAWL_OK)
        return false;
    while (track->n_kept < n && kv_has(p->kv, &track->chain.keys[track->n_kept]))
        track->n_kept++;
    if (track->n_kept < n) {
        part next = {.key = track->chain.keys[track->n_kept],
                     .kind = PAWL_STATE_CHUNK,
                     .n_chunks = track->n_kept,
                     .begin = track->n_kept * p->chunk,
                     .end = (track->n_kept + 1) * p->chunk};
        bool kept = keep(p, &next, track, tenant, sequence, tokens);
        track->n_kept += kept;
        return kept;
    }
    if (!with_end)
        return false;
    bool there = !end_of(p, track, tokens, n_tokens, &end) || kv_has(p->kv, &end.key);
    if (!there && !keep(p, &end, track, tenant, sequence, tokens))
        return false;
    track->end_at = n_tokens;
    return !there;
}
