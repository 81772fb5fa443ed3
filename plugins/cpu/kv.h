/*
 * cpu/kv.h - keys and values of all sequences, in pages.
 *
 * A pool is one reserved stretch of address space, cut into pages of KV_PAGE
 * tokens; memory is committed when a page is first written. A page holds all
 * layers of its tokens:
 *
 *   page:  layer 0                  layer 1 ...
 *          head 0 | head 1 | ...
 *          keys [head_size][64], values [64][head_size]      (kernels.h)
 *
 * Q8 pages have F16 scales behind the keys, [blocks][64], and behind the values,
 * [64][blocks].
 *
 * Pages are counted references: a fork shares them, and kv_own() gives a
 * sequence a copy of its own before it writes into a shared one. All but
 * kv_free_pages() runs on the thread that owns the engine; two workers may write
 * different positions of one page.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_KV_H
#define CPU_KV_H

#include <pawl/plugin.h>

#include <stdatomic.h>
#include <stdbool.h>

#include "cpu/model.h"

#define KV_PAGE KERNELS_PAGE
#define KV_MAX_PAGES (1u << 26)

typedef struct kv_pool {
    uint8_t *base; /* total * page_bytes, reserved            */
    size_t page_bytes;
    size_t map_bytes;
    uint32_t type;     /* enum kernels_kv                         */
    size_t element;    /* bytes of a number: 1, 2 or 4            */
    size_t blocks;     /* scales of a token of one head; Q8 only  */
    size_t head_bytes; /* keys and values of one head of one page */
    uint32_t total;
    uint32_t n_layers;
    uint32_t head_size;
    size_t *layer_offset; /* n_layers + 1 byte offsets in a page     */
    uint32_t *references; /* of each page; 0: free                   */
    uint32_t *free_pages; /* a stack                                 */
    atomic_uint n_free;
} kv_pool;

/* Bytes of a page of this model. */
size_t kv_page_bytes(const model *m, uint32_t type);

pawl_status kv_open(const model *m, uint32_t type, uint32_t pages, kv_pool *pool,
                    pawl_error *error);
void kv_close(kv_pool *pool);

uint32_t kv_free_pages(const kv_pool *pool); /* any thread */

/* A page with one reference; false: none is free. */
bool kv_take(kv_pool *pool, uint32_t *page);
void kv_share(kv_pool *pool, uint32_t page);
void kv_release(kv_pool *pool, uint32_t page);

/* Replaces *page by a copy with one reference, unless it already has just one. */
bool kv_own(kv_pool *pool, uint32_t *page);

/* Keys and values of one head. */
static inline uint8_t *kv_keys(const kv_pool *pool, uint32_t page, uint32_t layer, uint32_t head)
{
    return pool->base + (size_t)page * pool->page_bytes + pool->layer_offset[layer] +
           (size_t)head * pool->head_bytes;
}

static inline uint8_t *kv_values(const kv_pool *pool, uint32_t page, uint32_t layer, uint32_t head)
{
    return kv_keys(pool, page, layer, head) + pool->head_bytes / 2;
}

/* Writes the key and value of the token at `at` within a page. */
void kv_put(const kv_pool *pool, uint32_t page, uint32_t layer, uint32_t head, uint32_t at,
            const float *key, const float *value, const kernels_table *kernels);

#endif /* CPU_KV_H */
