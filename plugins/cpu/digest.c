/*
 * cpu/digest.c - see digest.h. Pure: any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/digest.h"

#include <string.h>

#define STRIPE 32
#define ODD_1 0x9e3779b97f4a7c15u
#define ODD_2 0xc2b2ae3d27d4eb4fu

static uint64_t turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t mix(uint64_t lane, const uint8_t *from)
{
    uint64_t word;
    memcpy(&word, from, sizeof word);
    return (turn(lane, 31) ^ word) * ODD_1;
}

/* The lanes are the caller's in memory and ours in registers: a chain of loads and
 * stores through memory would take four times as long as the arithmetic. */
static void mix_stripes(uint64_t lane[4], const uint8_t *from, size_t stripes)
{
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; stripes > 0; stripes--, from += STRIPE) {
        a = mix(a, from);
        b = mix(b, from + 8);
        c = mix(c, from + 16);
        d = mix(d, from + 24);
    }
    lane[0] = a;
    lane[1] = b;
    lane[2] = c;
    lane[3] = d;
}

void digest_init(digest *d, uint64_t seed)
{
    memset(d, 0, sizeof *d);
    for (size_t i = 0; i < 4; i++)
        d->lane[i] = (seed + i + 1) * ODD_2;
}

void digest_add(digest *d, const void *data, size_t size)
{
    const uint8_t *from = data;
    size_t pending = d->length % STRIPE;
    d->length += size;
    if (pending > 0) {
        size_t part = STRIPE - pending < size ? STRIPE - pending : size;
        memcpy(d->rest + pending, from, part);
        if (pending + part < STRIPE)
            return;
        mix_stripes(d->lane, d->rest, 1);
        from += part;
        size -= part;
    }
    mix_stripes(d->lane, from, size / STRIPE);
    if (size % STRIPE > 0)
        memcpy(d->rest, from + size / STRIPE * STRIPE, size % STRIPE);
}

uint64_t digest_value(const digest *d)
{
    uint64_t lane[4];
    uint8_t last[STRIPE] = {0};
    memcpy(lane, d->lane, sizeof lane);
    memcpy(last, d->rest, d->length % STRIPE);
    mix_stripes(lane, last, 1);
    uint64_t sum = d->length * ODD_2;
    for (size_t i = 0; i < 4; i++)
        sum = (turn(sum, 27) ^ lane[i]) * ODD_1;
    sum = (sum ^ sum >> 33) * ODD_2;
    return sum ^ sum >> 29;
}
