/*
 * tests/plugins/replay/sequence.c - timelines, the pages they hold, saved state.
 *
 * A sequence is a list of tokens. It holds ceil(length / page_tokens) pages, or
 * more where reserve() asked; a fork holds its own, so that capacity() shows every
 * sequence that somebody forgot to close.
 *
 * A saved state, all numbers little-endian as this machine writes them:
 *
 *   "RPLY" | part u32 | begin u64 | end u64 | tokens i32 × (end - begin) | FNV-1a u64
 *
 * Chunks begin at a multiple of state_chunk; the last may be short. A boundary is
 * the same with end == length.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "replay/replay.h"

typedef struct state_head {
    char magic[4];
    uint32_t part;
    uint64_t begin;
    uint64_t end;
} state_head;

static uint64_t pages_for(const pawl_engine *engine, uint64_t tokens)
{
    uint32_t page = engine->model->page_tokens;
    return tokens / page + (tokens % page != 0);
}

/* Takes or gives back pages until the sequence holds as many as asked. */
static bool hold_pages(pawl_sequence *sequence, uint64_t pages)
{
    pawl_engine *engine = sequence->engine;
    uint64_t held = atomic_load(&engine->held) - sequence->pages;
    if (pages > engine->pages - held)
        return false;
    atomic_store(&engine->held, held + pages);
    sequence->pages = pages;
    return true;
}

pawl_status replay_reserve(pawl_sequence *sequence, uint64_t n_tokens, pawl_error *error)
{
    pawl_engine *engine = sequence->engine;
    if (n_tokens > engine->context - sequence->length)
        return pawl_fail(error, PAWL_E_LIMIT, "%llu tokens more are over the context of %llu",
                         (unsigned long long)n_tokens, (unsigned long long)engine->context);
    uint64_t pages = pages_for(engine, sequence->length + n_tokens);
    if (pages > sequence->pages && !hold_pages(sequence, pages))
        return pawl_fail(error, PAWL_E_MEMORY, "no pages left");
    return PAWL_OK;
}

pawl_status replay_sequence_open(pawl_engine *engine, pawl_sequence **out, pawl_error *error)
{
    if (engine->n_sequences == engine->max_sequences)
        return pawl_fail(error, PAWL_E_BUSY, "all %u sequences are open", engine->max_sequences);
    pawl_sequence *sequence = calloc(1, sizeof *sequence);
    if (!sequence)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    sequence->engine = engine;
    engine->n_sequences++;
    *out = sequence;
    return PAWL_OK;
}

void replay_sequence_close(pawl_sequence *sequence)
{
    hold_pages(sequence, 0);
    sequence->engine->n_sequences--;
    free(sequence->tokens);
    free(sequence);
}

uint64_t replay_length(const pawl_sequence *sequence)
{
    return sequence->length;
}

pawl_status replay_append(pawl_sequence *sequence, const int32_t *tokens, uint64_t n,
                          pawl_error *error)
{
    const replay_model *model = sequence->engine->model;
    for (uint64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= model->n_pieces)
            return pawl_fail(error, PAWL_E_ARGUMENT, "token %d is not in the vocabulary",
                             tokens[i]);
    pawl_status status = replay_reserve(sequence, n, error);
    if (status)
        return status;
    if (sequence->length + n > sequence->room) {
        uint64_t room = 2 * (sequence->length + n);
        int32_t *grown = realloc(sequence->tokens, room * sizeof *grown);
        if (!grown)
            return pawl_fail(error, PAWL_E_MEMORY, "no memory");
        sequence->tokens = grown;
        sequence->room = room;
    }
    if (n)
        memcpy(sequence->tokens + sequence->length, tokens, n * sizeof *tokens);
    sequence->length += n;
    return PAWL_OK;
}

pawl_status replay_truncate(pawl_sequence *sequence, uint64_t n, pawl_error *error)
{
    if (n > sequence->length)
        return pawl_fail(error, PAWL_E_ARGUMENT, "the sequence has only %llu tokens",
                         (unsigned long long)sequence->length);
    sequence->length = n;
    hold_pages(sequence, pages_for(sequence->engine, n));
    return PAWL_OK;
}

pawl_status replay_fork(const pawl_sequence *from, uint64_t n, pawl_sequence **to,
                        pawl_error *error)
{
    pawl_sequence *fork;
    if (n > from->length)
        return pawl_fail(error, PAWL_E_ARGUMENT, "the sequence has only %llu tokens",
                         (unsigned long long)from->length);
    pawl_status status = replay_sequence_open(from->engine, &fork, error);
    if (status)
        return status;
    status = replay_append(fork, from->tokens, n, error);
    if (status)
        replay_sequence_close(fork);
    else
        *to = fork;
    return status;
}

static uint64_t add_hash(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return hash;
}

pawl_status replay_state_save(const pawl_sequence *sequence, uint32_t part, uint64_t begin,
                              uint64_t end, const pawl_sink *to, pawl_error *error)
{
    const replay_model *model = sequence->engine->model;
    state_head head = {{'R', 'P', 'L', 'Y'}, part, begin, end};
    if (model->fail_save)
        return pawl_fail(error, model->fail_save, "the script has fail_save");
    if (part != PAWL_STATE_CHUNK && part != PAWL_STATE_BOUNDARY)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "no state part %u", part);
    if (begin > end || end > sequence->length || begin % model->state_chunk ||
        (part == PAWL_STATE_BOUNDARY && end != sequence->length))
        return pawl_fail(error, PAWL_E_ARGUMENT, "[%llu, %llu) cannot be saved",
                         (unsigned long long)begin, (unsigned long long)end);
    size_t size = (size_t)(end - begin) * sizeof *sequence->tokens;
    const int32_t *tokens = size ? sequence->tokens + begin : NULL;
    uint64_t hash = add_hash(add_hash(model->digest, &head, sizeof head), tokens, size);
    pawl_status status = to->write(to->context, &head, sizeof head);
    if (!status && size)
        status = to->write(to->context, tokens, size);
    return status ? status : to->write(to->context, &hash, sizeof hash);
}

static bool read_all(const pawl_source *from, void *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        uint64_t got = 0;
        if (from->read(from->context, (char *)data + at, size - at, &got) || !got ||
            got > size - at)
            return false;
        at += got;
    }
    return true;
}

pawl_status replay_state_load(pawl_sequence *sequence, uint32_t part, const int32_t *tokens,
                              uint64_t begin, uint64_t end, const pawl_source *from,
                              pawl_error *error)
{
    const replay_model *model = sequence->engine->model;
    state_head head;
    if (model->fail_load)
        return pawl_fail(error, model->fail_load, "the script has fail_load");
    if (begin != sequence->length || end < begin || end > sequence->engine->context)
        return pawl_fail(error, PAWL_E_ARGUMENT, "state of [%llu, %llu) cannot follow %llu tokens",
                         (unsigned long long)begin, (unsigned long long)end,
                         (unsigned long long)sequence->length);
    if (!read_all(from, &head, sizeof head) || memcmp(head.magic, "RPLY", 4) != 0 ||
        head.part != part || head.begin != begin || head.end != end)
        return pawl_fail(error, PAWL_E_FORMAT, "not the state that was asked for");
    size_t size = (size_t)(end - begin) * sizeof *tokens;
    int32_t *saved = malloc(size + 1);
    uint64_t hash;
    pawl_status status = PAWL_OK;
    if (!saved)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory");
    if (!read_all(from, saved, size) || !read_all(from, &hash, sizeof hash) ||
        hash != add_hash(add_hash(model->digest, &head, sizeof head), saved, size))
        status = pawl_fail(error, PAWL_E_FORMAT, "the saved state is damaged");
    else if (size && memcmp(saved, tokens, size) != 0)
        status = pawl_fail(error, PAWL_E_FORMAT, "the saved state is of other tokens");
    else
        status = replay_append(sequence, saved, end - begin, error);
    free(saved);
    return status;
}
