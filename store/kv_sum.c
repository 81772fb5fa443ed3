/*
 * store/kv_sum.c - the checksum of a chunk. See kv_sum.h.
 *
 *     word 0 1 2 3 4 5 6 7 …   lane[i % 4] = rotate(lane ^ word) * odd
 *          │ │ │ │
 *     lane 0 1 2 3             four chains, so that the processor works at all of them
 *
 * Words are little-endian, as everything in kv.db.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/kv_sum.h"

#include <endian.h>
#include <string.h>

#define ODD UINT64_C(0x9E3779B97F4A7C15) /* 2^64 over the golden ratio */

static uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static uint64_t step(uint64_t lane, const uint8_t *word)
{
    uint64_t x;
    memcpy(&x, word, sizeof x);
    return rotate(lane ^ le64toh(x), 29) * ODD;
}

/* Bijective; every bit of x moves every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * ODD;
    x = (x ^ x >> 29) * ODD;
    return x ^ x >> 32;
}

static void add_blocks(kv_sum *sum, const uint8_t *data, size_t n_blocks)
{
    uint64_t a = sum->lanes[0], b = sum->lanes[1], c = sum->lanes[2], d = sum->lanes[3];
    for (; n_blocks > 0; n_blocks--, data += KV_SUM_BLOCK) {
        a = step(a, data);
        b = step(b, data + 8);
        c = step(c, data + 16);
        d = step(d, data + 24);
    }
    sum->lanes[0] = a;
    sum->lanes[1] = b;
    sum->lanes[2] = c;
    sum->lanes[3] = d;
}

void kv_sum_begin(kv_sum *sum)
{
    *sum = (kv_sum){.lanes = {ODD, ODD * 3, ODD * 5, ODD * 7}};
}

void kv_sum_add(kv_sum *sum, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    size_t waiting = sum->size % KV_SUM_BLOCK;
    sum->size += size;
    if (waiting > 0) {
        size_t n = KV_SUM_BLOCK - waiting;
        n = n < size ? n : size;
        memcpy(sum->rest + waiting, bytes, n);
        if (waiting + n < KV_SUM_BLOCK)
            return;
        add_blocks(sum, sum->rest, 1);
        bytes += n;
        size -= n;
    }
    add_blocks(sum, bytes, size / KV_SUM_BLOCK);
    if (size % KV_SUM_BLOCK > 0)
        memcpy(sum->rest, bytes + size - size % KV_SUM_BLOCK, size % KV_SUM_BLOCK);
}

uint64_t kv_sum_end(const kv_sum *sum)
{
    kv_sum last = *sum;
    size_t waiting = last.size % KV_SUM_BLOCK;
    if (waiting > 0) {
        memset(last.rest + waiting, 0, KV_SUM_BLOCK - waiting); /* the size tells it from zeros */
        add_blocks(&last, last.rest, 1);
    }
    uint64_t result = mix(last.size);
    for (int i = 0; i < KV_SUM_LANES; i++)
        result = rotate(result ^ mix(last.lanes[i]), 17) * ODD;
    return mix(result);
}
