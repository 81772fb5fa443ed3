/*
 * kernels/kernels.c - choosing a table, and what needs no instruction set.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "kernels/kernels.h"

#include <string.h>

#include "kernels/reference/numbers.h"
#include "kernels/tables.h"

typedef struct type_facts {
    const char *name;
    size_t elements; /* in one block     */
    size_t bytes;    /* of one block     */
} type_facts;

static const type_facts types[KERNELS_TYPES] = {
    [KERNELS_F32] = {"F32", 1, 4},           [KERNELS_F16] = {"F16", 1, 2},
    [KERNELS_BF16] = {"BF16", 1, 2},         [KERNELS_Q8_0] = {"Q8_0", 32, 34},
    [KERNELS_Q4_0] = {"Q4_0", 32, 18},       [KERNELS_Q4_1] = {"Q4_1", 32, 20},
    [KERNELS_Q5_0] = {"Q5_0", 32, 22},       [KERNELS_Q5_1] = {"Q5_1", 32, 24},
    [KERNELS_Q2_K] = {"Q2_K", 256, 84},      [KERNELS_Q3_K] = {"Q3_K", 256, 110},
    [KERNELS_Q4_K] = {"Q4_K", 256, 144},     [KERNELS_Q5_K] = {"Q5_K", 256, 176},
    [KERNELS_Q6_K] = {"Q6_K", 256, 210},     [KERNELS_IQ4_NL] = {"IQ4_NL", 32, 18},
    [KERNELS_IQ4_XS] = {"IQ4_XS", 256, 136}, [KERNELS_MXFP4] = {"MXFP4", 32, 17},
};

const kernels_table *kernels_choose(const char *isa)
{
    bool automatic = strcmp(isa, "auto") == 0;
#if defined(__x86_64__)
    if ((automatic || strcmp(isa, "avx512") == 0) && cpu_has_avx512())
        return &kernels_avx512;
    if ((automatic || strcmp(isa, "avx2") == 0) && cpu_has_avx2())
        return &kernels_avx2;
#endif
    return automatic || strcmp(isa, "reference") == 0 ? &kernels_reference : NULL;
}

size_t kernels_row_bytes(uint32_t type, size_t n)
{
    if (type >= KERNELS_TYPES || n % types[type].elements != 0)
        return 0;
    return n / types[type].elements * types[type].bytes;
}

const char *kernels_type_name(uint32_t type)
{
    return type < KERNELS_TYPES ? types[type].name : "?";
}

size_t kernels_block_elements(uint32_t type)
{
    return type < KERNELS_TYPES ? types[type].elements : 1;
}

bool kernels_type_has_blocks(uint32_t type)
{
    return type >= KERNELS_Q8_0 && type <= KERNELS_Q5_1;
}

size_t kernels_q8_bytes(size_t n, uint32_t levels)
{
    size_t blocks = n / KERNELS_BLOCK;
    return (n * levels + blocks * 3 * sizeof(float) + 63) / 64 * 64;
}

void kernels_rope(uint32_t kind, float *x, const float *cos_sin, size_t pairs)
{
    size_t step = kind == KERNELS_ROPE_PAIRS ? 2 : 1;
    size_t other = kind == KERNELS_ROPE_PAIRS ? 1 : pairs;
    for (size_t i = 0; i < pairs; i++) {
        float *a = x + i * step;
        float *b = a + other;
        float c = cos_sin[2 * i];
        float s = cos_sin[2 * i + 1];
        float turned = *a * c - *b * s;
        *b = *a * s + *b * c;
        *a = turned;
    }
}

/* True if a stands behind b in the order of kernels_top_k(). */
static bool behind(const float *x, int32_t a, int32_t b)
{
    float va = x[a];
    float vb = x[b];
    if (va < vb || (va != va && vb == vb))
        return true;
    if (va > vb || (vb != vb && va == va))
        return false;
    return a > b;
}

/* ids is a heap whose root stands behind all others: sinks the root. */
static void sink(const float *x, int32_t *ids, size_t count, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            return;
        if (child + 1 < count && behind(x, ids[child + 1], ids[child]))
            child++;
        if (behind(x, ids[at], ids[child]))
            return;
        int32_t swap = ids[at];
        ids[at] = ids[child];
        ids[child] = swap;
        at = child;
    }
}

size_t kernels_top_k(const float *x, size_t n, size_t k, int32_t *ids)
{
    size_t count = k < n ? k : n;
    if (count == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)i;
    for (size_t i = count / 2; i-- > 0;)
        sink(x, ids, count, i);
    for (size_t i = count; i < n; i++) {
        if (x[i] <= x[ids[0]] || !behind(x, ids[0], (int32_t)i))
            continue;
        ids[0] = (int32_t)i;
        sink(x, ids, count, 0);
    }
    for (size_t left = count; left > 1;) { /* the heap's root is the worst: to the back */
        int32_t worst = ids[0];
        left--;
        ids[0] = ids[left];
        ids[left] = worst;
        sink(x, ids, left, 0);
    }
    return count;
}

uint16_t kernels_f16_from_f32(float x)
{
    return numbers_to_f16(x);
}

float kernels_f32_from_f16(uint16_t x)
{
    return numbers_from_f16(x);
}
