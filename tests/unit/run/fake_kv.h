/*
 * unit/run/fake_kv.h - store/kv.h in plain memory, which counts, and fails on demand.
 *
 * Its functions have the real ones' names, so that the linker takes them instead.
 * One thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef UNIT_RUN_FAKE_KV_H
#define UNIT_RUN_FAKE_KV_H

#include "store/kv.h"

#include <stdlib.h>
#include <string.h>

#define FAKE_KV_MAX 4096

typedef struct fake_row {
    kv_chunk chunk; /* with its own copies */
    int32_t *tokens;
    int pins;
    bool damaged; /* a byte of what is read is another one */
} fake_row;

struct kv {
    fake_row rows[FAKE_KV_MAX]; /* n_rows of them */
    size_t n_rows;
    int puts, reads, bad_ends;
    pawl_status refuse_put;     /* what kv_put() says, or PAWL_OK   */
    int fail_read;              /* the number of the read that is a miss, or 0 */
    uint32_t missing_part;      /* reads of such parts are misses; 0: none     */
    void (*on_read)(void *arg); /* or NULL */
    void *arg;
};

struct kv_reader {
    kv *all;
    kv_key key;
    uint64_t at;
};

static inline fake_row *fake_kv_row(kv *k, const kv_key *key)
{
    for (size_t i = 0; i < k->n_rows; i++)
        if (memcmp(&k->rows[i].chunk.key, key, sizeof *key) == 0)
            return &k->rows[i];
    return NULL;
}

static inline void fake_kv_clear(kv *k)
{
    while (k->n_rows) {
        fake_row *row = &k->rows[--k->n_rows];
        free(row->tokens);
        free(row->chunk.payload);
    }
}

/* One more or less, and all that need it: whatever nobody holds may go at any time. */
static inline void fake_kv_lose(kv *k, size_t i)
{
    kv_key key = k->rows[i].chunk.key;
    free(k->rows[i].tokens);
    free(k->rows[i].chunk.payload);
    k->rows[i] = k->rows[--k->n_rows];
    for (size_t j = 0; j < k->n_rows; j++) {
        if (memcmp(&k->rows[j].chunk.parent, &key, sizeof key) == 0) {
            fake_kv_lose(k, j);
            j = (size_t)-1;
        }
    }
}

void kv_close(kv *k) /* of the runtime's, which has none here */
{
    (void)k;
}

bool kv_has(kv *k, const kv_key *key)
{
    return fake_kv_row(k, key) != NULL;
}

uint64_t kv_find(kv *k, const kv_key *chain, uint64_t n_keys)
{
    uint64_t n = 0;
    while (n < n_keys && fake_kv_row(k, &chain[n]))
        n++;
    return n;
}

static void fake_pin(kv *k, const kv_key *chain, uint64_t n_keys, int more)
{
    for (uint64_t i = 0; i < n_keys; i++) {
        fake_row *row = fake_kv_row(k, &chain[i]);
        if (row)
            row->pins += more;
    }
}

void kv_pin(kv *k, const kv_key *chain, uint64_t n_keys)
{
    fake_pin(k, chain, n_keys, 1);
}

void kv_unpin(kv *k, const kv_key *chain, uint64_t n_keys)
{
    fake_pin(k, chain, n_keys, -1);
}

pawl_status kv_put(kv *k, kv_chunk *chunk)
{
    static const kv_key zero;
    pawl_status status = k->refuse_put;
    if (!status && memcmp(&chunk->parent, &zero, sizeof zero) != 0 && !kv_has(k, &chunk->parent))
        status = PAWL_E_ARGUMENT; /* an orphan is of no use to anybody */
    if (!status && (!chunk->n_tokens || !chunk->size || k->n_rows == FAKE_KV_MAX))
        status = PAWL_E_ARGUMENT;
    if (status || kv_has(k, &chunk->key)) {
        free(chunk->payload);
        return status;
    }
    fake_row *row = &k->rows[k->n_rows++];
    *row = (fake_row){.chunk = *chunk};
    row->tokens = malloc(chunk->n_tokens * sizeof *row->tokens);
    memcpy(row->tokens, chunk->tokens, chunk->n_tokens * sizeof *row->tokens);
    k->puts++;
    return PAWL_OK;
}

static pawl_status fake_kv_source(void *context, void *data, uint64_t size, uint64_t *got)
{
    kv_reader *reader = context;
    fake_row *row = fake_kv_row(reader->all, &reader->key);
    uint64_t left = row->chunk.size - reader->at;
    *got = size < left ? size : left;
    if (*got > 100)
        *got = 100;
    memcpy(data, (char *)row->chunk.payload + reader->at, *got);
    if (row->damaged && *got)
        *(char *)data ^= 1;
    reader->at += *got;
    return PAWL_OK;
}

pawl_status kv_read(kv *k, const kv_key *key, const int32_t *tokens, uint64_t n_tokens,
                    kv_reader **out, pawl_source *source)
{
    fake_row *row = fake_kv_row(k, key);
    if (k->on_read)
        k->on_read(k->arg);
    if (++k->reads == k->fail_read || !row || row->chunk.part == k->missing_part ||
        row->chunk.n_tokens != n_tokens ||
        memcmp(row->tokens, tokens, n_tokens * sizeof *tokens) != 0)
        return PAWL_E_NOT_FOUND;
    *out = malloc(sizeof **out);
    **out = (kv_reader){k, *key, 0};
    *source = (pawl_source){*out, fake_kv_source};
    return PAWL_OK;
}

void kv_read_end(kv_reader *reader, bool good)
{
    kv *k = reader->all;
    fake_row *row = fake_kv_row(k, &reader->key);
    k->bad_ends += !good;
    if (!good && row)
        fake_kv_lose(k, (size_t)(row - k->rows));
    free(reader);
}

#endif /* UNIT_RUN_FAKE_KV_H */
