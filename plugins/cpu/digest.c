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

static void mix_stripe(uint64_t lane[4], const uint8_t *stripe)
{
    for (size_t i = 0; i < 4; i++) {
        uint64_t word;
        memcpy(&word, stripe + 8 * i, sizeof word);
        lane[i] = (turn(lane[i], 31) ^ word) * ODD_1;
    }
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
        mix_stripe(d->lane, d->rest);
        from += part;
        size -= part;
    }
    for (; size >= STRIPE; from += STRIPE, size -= STRIPE)
        mix_stripe(d->lane, from);
    if (size > 0)
        memcpy(d->rest, from, size);
}

uint64_t digest_value(const digest *d)
{
    uint64_t lane[4];
    uint8_t last[STRIPE] = {0};
    memcpy(lane, d->lane, sizeof lane);
    memcpy(last, d->rest, d->length % STRIPE);
    mix_stripe(lane, last);
    uint64_t sum = d->length * ODD_2;
    for (size_t i = 0; i < 4; i++)
        sum = (turn(sum, 27) ^ lane[i]) * ODD_1;
    sum = (sum ^ sum >> 33) * ODD_2;
    return sum ^ sum >> 29;
}
