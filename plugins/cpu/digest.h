/*
 * cpu/digest.h - a fast 64-bit checksum.
 *
 * Four lanes take eight bytes each in turn; every step is a bijection of the
 * lane for a given word and of the word for a given lane, and so is the final
 * fold. Two inputs of one length that differ in one word (so in one byte) never
 * have the same sum; otherwise the chance is 2^-64. No defence against an enemy.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_DIGEST_H
#define CPU_DIGEST_H

#include <stddef.h>
#include <stdint.h>

typedef struct digest {
    uint64_t lane[4];
    uint64_t length;  /* bytes so far             */
    uint8_t rest[32]; /* length % 32 pending ones */
} digest;

void digest_init(digest *d, uint64_t seed);
void digest_add(digest *d, const void *data, size_t size);
/* Of all that was added; d may go on. */
uint64_t digest_value(const digest *d);

#endif /* CPU_DIGEST_H */
