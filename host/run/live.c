/*
 * run/live.c - the sequences that the engine holds. See live.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/live.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A shared beginning shorter than this is not worth a fork. */
#define MIN_FORK_TOKENS 16

pawl_status live_set_open(live_set *set, const run_model *model, prefix *saved, size_t max_entries,
                          pawl_error *error)
{
    *set = (live_set){.model = model, .prefix = saved, .max_entries = max_entries};
    set->entries = calloc(max_entries, sizeof(live *));
    if (!set->entries)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %zu sequences", max_entries);
    return PAWL_OK;
}

bool live_save_one(live_set *set, live *entry, bool with_end)
{
    return set->prefix && entry->track.chain.chunk && !entry->loading &&
           prefix_save_one(set->prefix, &entry->track, entry->tenant, entry->sequence,
                           entry->tokens, entry->n_tokens, with_end);
}

/* All that is not saved of it, or is no longer. */
static void save_whole(live_set *set, live *entry)
{
    if (set->prefix && entry->track.chain.chunk)
        prefix_track_look(set->prefix, &entry->track, entry->tokens, entry->n_tokens);
    while (live_save_one(set, entry, true))
        continue;
}

void live_set_close(live_set *set)
{
    while (set->n_entries) {
        live *entry = set->entries[set->n_entries - 1];
        save_whole(set, entry);
        live_drop(set, entry);
    }
    free(set->entries);
    set->entries = NULL;
}

void live_drop(live_set *set, live *entry)
{
    size_t i = 0;
    while (set->entries[i] != entry)
        i++;
    set->entries[i] = set->entries[--set->n_entries];
    set->model->engine_api->sequence_close(entry->sequence);
    prefix_track_clear(&entry->track);
    free(entry->tokens);
    free(entry);
}

/* The one place where state that could be used again is about to be given up. */
static void leaving(live_set *set, live *entry)
{
    if (entry->n_tokens)
        metric_add(set->model->measures[MEASURE_EVICTIONS], 1);
    save_whole(set, entry);
}

void live_evict(live_set *set, live *entry)
{
    leaving(set, entry);
    live_drop(set, entry);
}

bool live_evict_oldest(live_set *set, const live *but)
{
    live *oldest = NULL;
    for (size_t i = 0; i < set->n_entries; i++) {
        live *entry = set->entries[i];
        if (!entry->busy && entry != but && (!oldest || entry->used_at < oldest->used_at))
            oldest = entry;
    }
    if (oldest)
        live_evict(set, oldest);
    return oldest != NULL;
}

static uint64_t common(const live *entry, const int32_t *tokens, uint64_t n_tokens)
{
    uint64_t n = 0;
    while (n < n_tokens && n < entry->n_tokens && entry->tokens[n] == tokens[n])
        n++;
    return n;
}

/* Whether an entry with as long a shared beginning is better to go on from: an idle one,
 * and of two the one that ends there. */
static bool is_better(const live *entry, const live *best, uint64_t shared)
{
    if (entry->busy != best->busy)
        return best->busy;
    return entry->n_tokens == shared && best->n_tokens != shared;
}

static bool is_owner(const live *entry, const run_request *request)
{
    return strcmp(entry->tenant, request->caller.tenant) == 0 &&
           strcmp(entry->salt, request->cache_salt) == 0;
}

/* The entry with the longest shared beginning. */
static live *find_best(const live_set *set, const run_turn *turn, uint64_t *shared)
{
    live *best = NULL;
    *shared = 0;
    for (size_t i = 0; i < set->n_entries; i++) {
        live *entry = set->entries[i];
        if (entry->loading || !is_owner(entry, turn->request))
            continue;
        uint64_t n = common(entry, turn->tokens, turn->n_tokens ? turn->n_tokens - 1 : 0);
        bool reachable = entry->n_tokens - n <= set->model->info.rewind_tokens;
        if (reachable && (n > *shared || (n == *shared && best && is_better(entry, best, n)))) {
            best = entry;
            *shared = n;
        }
    }
    return best;
}

bool live_append(live *entry, const int32_t *tokens, uint64_t n_tokens)
{
    if (n_tokens > entry->room - entry->n_tokens) {
        uint64_t room = 2 * entry->room + n_tokens + 64;
        int32_t *more = realloc(entry->tokens, (size_t)room * sizeof *more);
        if (!more)
            return false;
        entry->tokens = more;
        entry->room = room;
    }
    if (n_tokens)
        memcpy(entry->tokens + entry->n_tokens, tokens, (size_t)n_tokens * sizeof *tokens);
    entry->n_tokens += n_tokens;
    return true;
}

static void mark_used(live_set *set, live *entry, bool busy)
{
    entry->busy = busy;
    entry->used_at = ++set->uses;
}

/* An entry over a sequence that has state for tokens; owns the sequence from now on. */
static pawl_status adopt(live_set *set, pawl_sequence *sequence, const int32_t *tokens,
                         uint64_t n_tokens, live **out, pawl_error *error)
{
    live *entry = calloc(1, sizeof *entry);
    if (!entry || !live_append(entry, tokens, n_tokens)) {
        free(entry);
        set->model->engine_api->sequence_close(sequence);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a sequence");
    }
    entry->sequence = sequence;
    set->entries[set->n_entries++] = entry;
    mark_used(set, entry, true);
    *out = entry;
    return PAWL_OK;
}

static pawl_status open_new(live_set *set, live **out, pawl_error *error)
{
    pawl_sequence *sequence = NULL;
    pawl_status status;
    while ((status = set->model->engine_api->sequence_open(set->model->engine, &sequence, error)) !=
           PAWL_OK) {
        bool room_helps = status == PAWL_E_MEMORY || status == PAWL_E_BUSY;
        if (!room_helps || !live_evict_oldest(set, NULL))
            return status;
    }
    return adopt(set, sequence, NULL, 0, out, error);
}

/* Shares the beginning of an entry that goes on differently, or that is busy. */
static pawl_status fork_at(live_set *set, live *from, uint64_t n, live **out, pawl_error *error)
{
    pawl_sequence *sequence = NULL;
    pawl_status status = set->model->engine_api->fork(from->sequence, n, &sequence, error);
    return status ? status : adopt(set, sequence, from->tokens, n, out, error);
}

/* A busy entry with the first n tokens of another one: a fork or, where there is no
 * room for one, the idle entry itself cut back. */
static bool branch_off(live_set *set, live *from, uint64_t n, live **out)
{
    bool was_busy = from->busy;
    mark_used(set, from, true); /* so that making room does not close it */
    bool room = set->n_entries < set->max_entries || live_evict_oldest(set, NULL);
    bool done = room && fork_at(set, from, n, out, NULL) == PAWL_OK;
    from->busy = was_busy;
    if (done || was_busy)
        return done;
    if (set->model->engine_api->truncate(from->sequence, n, NULL) != PAWL_OK)
        return false;
    from->n_tokens = n;
    from->busy = true;
    prefix_track_cut(&from->track, n);
    *out = from;
    return true;
}

/* An idle entry that ends where the tokens go on. */
static bool is_whole(const live *entry, uint64_t shared)
{
    return !entry->busy && shared == entry->n_tokens && shared > 0;
}

live *live_find(const live_set *set, const run_turn *turn, uint64_t *shared)
{
    live *best = find_best(set, turn, shared);
    if (best && (is_whole(best, *shared) || *shared >= MIN_FORK_TOKENS))
        return best;
    *shared = 0;
    return NULL;
}

/* Whose an entry is, and that it is to be saved: a new one's, or the same as before. */
static void give_to(const live_set *set, live *entry, const run_request *request)
{
    const char *tenant = request->caller.tenant, *salt = request->cache_salt;
    snprintf(entry->tenant, sizeof entry->tenant, "%s", tenant);
    snprintf(entry->salt, sizeof entry->salt, "%s", salt);
    if (set->prefix && !request->probe && !entry->track.chain.chunk)
        prefix_track_begin(set->prefix, &entry->track, tenant, salt, NULL);
}

pawl_status live_open(live_set *set, const run_turn *turn, live **out, pawl_error *error)
{
    live *opened = NULL;
    if (set->n_entries == set->max_entries && !live_evict_oldest(set, NULL))
        return pawl_fail(error, PAWL_E_BUSY, "all %zu sequences are busy", set->max_entries);
    pawl_status status = open_new(set, &opened, error);
    if (status)
        return status;
    give_to(set, opened, turn->request);
    *out = opened;
    return PAWL_OK;
}

pawl_status live_take(live_set *set, const run_turn *turn, live **out, pawl_error *error)
{
    uint64_t shared;
    live *taken, *best = live_find(set, turn, &shared);
    if (best && is_whole(best, shared)) {
        mark_used(set, best, true);
        taken = best;
    } else if (!best || !branch_off(set, best, shared, &taken)) {
        return live_open(set, turn, out, error);
    }
    give_to(set, taken, turn->request);
    *out = taken;
    return PAWL_OK;
}

void live_keep(live_set *set, live *entry)
{
    pawl_error error = {.struct_size = sizeof error};
    if (entry->loading && set->prefix->boundary) { /* chunks without their boundary */
        live_drop(set, entry);
        return;
    }
    entry->loading = false;
    /* Gives back the pages that were reserved for tokens that did not come. */
    if (set->model->engine_api->truncate(entry->sequence, entry->n_tokens, &error) != PAWL_OK) {
        log_write(PAWL_LOG_WARN, "run", "a sequence is dropped: %s", error.message);
        live_drop(set, entry);
        return;
    }
    mark_used(set, entry, false);
    if (set->prefix && entry->track.chain.chunk)
        prefix_track_look(set->prefix, &entry->track, entry->tokens, entry->n_tokens);
}
