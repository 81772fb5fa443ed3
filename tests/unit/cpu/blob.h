/*
 * tests/unit/cpu/blob.h - saved chunks in memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TESTS_UNIT_CPU_BLOB_H
#define TESTS_UNIT_CPU_BLOB_H

#include "tiny.h"

/* A growing buffer as a sink; and read back in bits as a source. */
typedef struct blob {
    uint8_t *data;
    size_t size;
    size_t at;
    size_t bite; /* bytes given at a time, 0: all */
} blob;

static inline pawl_status blob_write(void *context, const void *data, uint64_t size)
{
    blob *b = context;
    b->data = realloc(b->data, b->size + size);
    assert_non_null(b->data);
    memcpy(b->data + b->size, data, size);
    b->size += size;
    return PAWL_OK;
}

static inline pawl_status blob_read(void *context, void *data, uint64_t size, uint64_t *got)
{
    blob *b = context;
    size_t left = b->size - b->at;
    *got = size < left ? size : left;
    if (b->bite && *got > b->bite)
        *got = b->bite;
    memcpy(data, b->data + b->at, *got);
    b->at += *got;
    return PAWL_OK;
}

static inline blob blob_save(const pawl_sequence *sequence, uint64_t begin, uint64_t end)
{
    blob b = {0};
    pawl_error error = {.struct_size = sizeof error};
    pawl_sink sink = {&b, blob_write};
    if (tiny_api()->state_save(sequence, PAWL_STATE_CHUNK, begin, end, &sink, &error) != PAWL_OK)
        fail_msg("state_save: %s", error.message);
    return b;
}

static inline pawl_status blob_load(pawl_sequence *sequence, blob *b, const int32_t *tokens,
                                    uint64_t begin, uint64_t end)
{
    pawl_source source = {b, blob_read};
    b->at = 0;
    return tiny_api()->state_load(sequence, PAWL_STATE_CHUNK, tokens + begin, begin, end, &source,
                                  NULL);
}

/* Adds all chunks of a sequence of `end` tokens, the last one perhaps a tail. */
static inline void blob_save_all(blob *b, const pawl_sequence *sequence, uint64_t end)
{
    pawl_sink sink = {b, blob_write};
    for (uint64_t at = 0; at < end; at += KERNELS_SPAN)
        assert_int_equal(PAWL_OK,
                         tiny_api()->state_save(sequence, PAWL_STATE_CHUNK, at,
                                                at + KERNELS_SPAN < end ? at + KERNELS_SPAN : end,
                                                &sink, NULL));
}

/* Loads what blob_save_all() saved into an empty sequence. */
static inline void blob_load_all(blob *b, pawl_sequence *sequence, const int32_t *tokens,
                                 uint64_t end)
{
    pawl_source source = {b, blob_read};
    for (uint64_t at = 0; at < end; at += KERNELS_SPAN)
        assert_int_equal(PAWL_OK,
                         tiny_api()->state_load(sequence, PAWL_STATE_CHUNK, tokens + at, at,
                                                at + KERNELS_SPAN < end ? at + KERNELS_SPAN : end,
                                                &source, NULL));
}

#endif /* TESTS_UNIT_CPU_BLOB_H */
