/*
 * store/kv_sum.h - the checksum of a chunk, 64 bits, at several bytes a cycle.
 *
 * Against accidents: bits that flip, blocks that are torn, lost or of another row. Not
 * against people: whoever can write kv.db can write a sum too, which is why token ids are
 * compared besides and the engine believes no payload. A change that stays within one
 * aligned word of 8 bytes is always found, since each step is a bijection in the word and
 * in the lane; any other is overlooked once in 2^64.
 *
 * The same bytes give the same sum, however they are split into calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STORE_KV_SUM_H
#define STORE_KV_SUM_H

#include <stddef.h>
#include <stdint.h>

#define KV_SUM_LANES 4
#define KV_SUM_BLOCK (KV_SUM_LANES * 8) /* bytes */

typedef struct kv_sum {
    uint64_t lanes[KV_SUM_LANES]; /* each sees every fourth word                 */
    uint64_t size;                /* bytes so far                                */
    uint8_t rest[KV_SUM_BLOCK];   /* the last size % KV_SUM_BLOCK of them, waiting */
} kv_sum;

void kv_sum_begin(kv_sum *sum);
void kv_sum_add(kv_sum *sum, const void *data, size_t size);
uint64_t kv_sum_end(const kv_sum *sum);

#endif /* STORE_KV_SUM_H */
