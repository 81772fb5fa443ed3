/*
 * tokenizer/hash.h - the hash of all tables in this folder.
 *
 * Seeded with random numbers when a vocabulary is opened, so that nobody can
 * write a vocabulary whose entries all fall into one place. Ids never depend on
 * the seed. Pure functions: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef TOKENIZER_HASH_H
#define TOKENIZER_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hash_seed {
    uint64_t a;
    uint64_t b;
};

/* Multiplies to 128 bits and folds: every bit of x and y moves every bit out. */
static inline uint64_t hash_mix(uint64_t x, uint64_t y)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)x * y;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_pair(struct hash_seed seed, uint64_t x, uint64_t y)
{
    return hash_mix(x ^ seed.a, y ^ seed.b);
}

static inline uint64_t hash_load64(const uint8_t *data)
{
    uint64_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

static inline uint32_t hash_load32(const uint8_t *data)
{
    uint32_t value;
    memcpy(&value, data, sizeof value);
    return value;
}

/* Up to 16 bytes as two words that, with the size, stand for exactly them. */
static inline void hash_pack(const uint8_t *data, size_t size, uint64_t *low, uint64_t *high)
{
    if (size >= 8) {
        *low = hash_load64(data);
        *high = hash_load64(data + size - 8);
    } else if (size >= 4) {
        *low = hash_load32(data);
        *high = hash_load32(data + size - 4);
    } else {
        *low = size ? (uint64_t)data[0] | (uint64_t)data[size / 2] << 8 |
                          (uint64_t)data[size - 1] << 16
                    : 0;
        *high = 0;
    }
}

/* Any number of bytes. */
static inline uint64_t hash_bytes(struct hash_seed seed, const uint8_t *data, size_t size)
{
    uint64_t low, high, sum = size;
    for (; size > 16; data += 8, size -= 8)
        sum = hash_mix(sum ^ hash_load64(data) ^ seed.a, seed.b | 1);
    hash_pack(data, size, &low, &high);
    return hash_pair(seed, low ^ sum, high + sum);
}

#endif /* TOKENIZER_HASH_H */
