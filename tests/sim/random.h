/*
 * sim/random.h - numbers from a seed (splitmix64): the same on every machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t rng_next(rng *r)
{
    return rng_mix(r->state += 0x9e3779b97f4a7c15u);
}

/* 0 to n - 1; n from 1. */
static inline uint32_t rng_below(rng *r, uint64_t n)
{
    return (uint32_t)((rng_next(r) >> 32) * n >> 32);
}

static inline uint32_t rng_between(rng *r, uint32_t first, uint32_t last)
{
    return first + rng_below(r, last - first + 1);
}

/* True so many times in a thousand. */
static inline bool rng_chance(rng *r, uint32_t thousandths)
{
    return thousandths && rng_below(r, 1000) < thousandths;
}

#endif /* SIM_RANDOM_H */
