/*
 * loader/checked_tokenizer.c - the checking table of tokenizers.
 *
 * open and close are [main] of the plugin, the rest is [any] and writes nothing of ours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "loader/checked_rules.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 0x5a5a5a5a /* behind the room of encode() */

struct pawl_tokenizer {
    checked *c;
    const pawl_tokenizer_api *api; /* the plugin's */
    pawl_tokenizer *real;          /* the plugin's */
    pawl_tokenizer_info info;
};

static bool in_vocabulary(const pawl_tokenizer *t, int32_t token)
{
    return token >= 0 && (uint32_t)token < t->info.vocab_size;
}

static void read_info(pawl_tokenizer *t)
{
    const pawl_tokenizer_info *i = &t->info;
    t->info.struct_size = sizeof t->info;
    t->api->info(t->real, &t->info);
    CHECKED_THAT(t->c, i->struct_size == sizeof t->info, "struct_size is the filler's",
                 "info() changed it to %u", i->struct_size);
    const int32_t ids[] = {i->bos, i->eos, i->eot};
    for (size_t k = 0; k < 3; k++)
        CHECKED_THAT(t->c, ids[k] == -1 || in_vocabulary(t, ids[k]),
                     "token ids are of the vocabulary", "bos, eos or eot is %d of %u", ids[k],
                     i->vocab_size);
    CHECKED_THAT(t->c, i->name && i->digest, "info() describes the vocabulary",
                 "name or digest is NULL");
}

static pawl_status open_tokenizer(checked *c, pawl_bytes path, pawl_tokenizer **out,
                                  pawl_error *error)
{
    checked_error shield;
    pawl_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check a tokenizer");
    t->c = c;
    t->api = c->tokenizer;
    t->real = CHECKED_NONE;
    checked_enter(c, &c->main, "[main]", "open");
    pawl_status status = t->api->open(path, &t->real, checked_error_begin(&shield, error));
    checked_status(c, "open", status, &shield);
    checked_object(c, "open", status, t->real);
    if (status) {
        free(t);
    } else {
        atomic_fetch_add(&c->open, 1);
        read_info(t);
        *out = t;
    }
    checked_leave(&c->main);
    return status;
}

static void close_tokenizer(pawl_tokenizer *t)
{
    checked *c = t->c;
    checked_enter(c, &c->main, "[main]", "close");
    t->api->close(t->real);
    atomic_fetch_sub(&c->open, 1);
    free(t);
    checked_leave(&c->main);
}

static void info(const pawl_tokenizer *t, pawl_tokenizer_info *out)
{
    t->api->info(t->real, out);
}

/* Into room of our own, with a guard behind it. */
static pawl_status encode(const pawl_tokenizer *t, const pawl_segment *segments,
                          uint64_t n_segments, int32_t *tokens, uint64_t room, uint64_t *needed,
                          pawl_error *error)
{
    checked_error shield;
    uint64_t count = CHECKED_UNSET;
    for (uint64_t i = 0; i < n_segments; i++)
        CHECKED_THAT(t->c,
                     segments[i].kind <= PAWL_SEGMENT_CONTROL &&
                         (segments[i].text.data || !segments[i].text.size),
                     "segments are texts of a kind", "segment %llu is not", (unsigned long long)i);
    CHECKED_THAT(t->c, needed && (tokens || !room), "encode() has the room that it is told",
                 "%llu tokens at NULL", (unsigned long long)room);
    int32_t *own = calloc(room + 1, sizeof *own);
    if (!own)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to check encode()");
    own[room] = GUARD;
    pawl_status status = t->api->encode(t->real, segments, n_segments, own, room, &count,
                                        checked_error_begin(&shield, error));
    checked_status(t->c, "encode", status, &shield);
    CHECKED_THAT(t->c, own[room] == GUARD, "encode() writes at most `room` tokens",
                 "it wrote behind %llu", (unsigned long long)room);
    CHECKED_THAT(t->c, (count == CHECKED_UNSET) == (status != PAWL_OK),
                 "out parameters are untouched on failure", "encode(): status %d, needed is %s",
                 status, count == CHECKED_UNSET ? "not set" : "set");
    uint64_t n = status ? 0 : count < room ? count : room;
    for (uint64_t i = 0; i < n; i++)
        CHECKED_THAT(t->c, in_vocabulary(t, own[i]), "token ids are of the vocabulary",
                     "encode() gave %d of %u", own[i], t->info.vocab_size);
    if (n)
        memcpy(tokens, own, n * sizeof *own);
    if (!status)
        *needed = count;
    free(own);
    return status;
}

static pawl_bytes piece(const pawl_tokenizer *t, int32_t token)
{
    pawl_bytes bytes = t->api->piece(t->real, token);
    CHECKED_THAT(t->c, bytes.data || !bytes.size, "a piece is bytes", "token %d has %llu of NULL",
                 token, (unsigned long long)bytes.size);
    CHECKED_THAT(t->c, !bytes.size || in_vocabulary(t, token), "token ids are of the vocabulary",
                 "token %d of %u has a piece", token, t->info.vocab_size);
    return bytes;
}

static int32_t token_by_name(const pawl_tokenizer *t, pawl_bytes name)
{
    int32_t token = t->api->token(t->real, name);
    CHECKED_THAT(t->c, token == -1 || in_vocabulary(t, token), "token ids are of the vocabulary",
                 "token() gave %d of %u", token, t->info.vocab_size);
    return token;
}

static uint32_t token_flags(const pawl_tokenizer *t, int32_t token)
{
    uint32_t flags = t->api->token_flags(t->real, token);
    CHECKED_THAT(t->c, !flags || in_vocabulary(t, token), "token ids are of the vocabulary",
                 "token %d of %u has flags %x", token, t->info.vocab_size, flags);
    return flags;
}

#define FUNCTIONS(n)                                                                               \
    static pawl_status open_##n(pawl_bytes path, pawl_tokenizer **out, pawl_error *error)          \
    {                                                                                              \
        return open_tokenizer(checked_at(n), path, out, error);                                    \
    }
CHECKED_SLOTS(FUNCTIONS)

#define TABLE(n) {.open = open_##n},
static const pawl_tokenizer_api by_plugin[CHECKED_MAX] = {CHECKED_SLOTS(TABLE)};

const void *checked_tokenizer_table(checked *c, const pawl_tokenizer_api *api)
{
    pawl_tokenizer_api *t = &c->tokenizer_table;
    c->tokenizer = api;
    memset(t, 0, sizeof *t);
    t->struct_size = sizeof *t;
    CHECKED_MEMBER(t, api, open, by_plugin[c->index].open);
    CHECKED_MEMBER(t, api, close, close_tokenizer);
    CHECKED_MEMBER(t, api, info, info);
    CHECKED_MEMBER(t, api, encode, encode);
    CHECKED_MEMBER(t, api, piece, piece);
    CHECKED_MEMBER(t, api, token, token_by_name);
    CHECKED_MEMBER(t, api, token_flags, token_flags);
    return t;
}
