/*
 * cpu/kv.c - see kv.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/kv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

static size_t head_bytes_of(const model *m, bool f16)
{
    return (size_t)2 * KV_PAGE * m->head_size * (f16 ? 2 : 4);
}

size_t kv_page_bytes(const model *m, bool f16)
{
    size_t heads = 0;
    for (uint32_t i = 0; i < m->n_layers; i++)
        heads += m->layers[i].kv_heads;
    return heads * head_bytes_of(m, f16);
}

pawl_status kv_open(const model *m, bool f16, uint32_t pages, kv_pool *pool, pawl_error *error)
{
    memset(pool, 0, sizeof *pool);
    pool->page_bytes = kv_page_bytes(m, f16);
    pool->head_bytes = head_bytes_of(m, f16);
    pool->element = f16 ? 2 : 4;
    pool->total = pages;
    pool->n_layers = m->n_layers;
    pool->head_size = m->head_size;
    pool->layer_offset = calloc(m->n_layers + (size_t)1, sizeof *pool->layer_offset);
    pool->references = calloc(pages, sizeof *pool->references);
    pool->free_pages = calloc(pages, sizeof *pool->free_pages);
    if (!pool->layer_offset || !pool->references || !pool->free_pages) {
        kv_close(pool);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a table of %u pages", pages);
    }
    for (uint32_t i = 0; i < m->n_layers; i++)
        pool->layer_offset[i + 1] =
            pool->layer_offset[i] + m->layers[i].kv_heads * pool->head_bytes;
    for (uint32_t i = 0; i < pages; i++)
        pool->free_pages[i] = pages - 1 - i; /* page 0 goes first */
    atomic_init(&pool->n_free, pages);
    size_t bytes = (size_t)pages * pool->page_bytes;
    void *map = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        kv_close(pool);
        return pawl_fail(error, PAWL_E_MEMORY, "the system refused %zu bytes for %u pages", bytes,
                         pages);
    }
    /* Huge pages: a walk over many small ones costs more than the reading. */
    madvise(map, bytes + HUGE_PAGE, MADV_HUGEPAGE);
    pool->base = map;
    pool->map_bytes = bytes + HUGE_PAGE;
    return PAWL_OK;
}

void kv_close(kv_pool *pool)
{
    if (pool->map_bytes)
        munmap(pool->base, pool->map_bytes);
    free(pool->layer_offset);
    free(pool->references);
    free(pool->free_pages);
    memset(pool, 0, sizeof *pool);
}

uint32_t kv_free_pages(const kv_pool *pool)
{
    return atomic_load(&pool->n_free);
}

bool kv_take(kv_pool *pool, uint32_t *page)
{
    uint32_t n = atomic_load(&pool->n_free);
    if (n == 0)
        return false;
    *page = pool->free_pages[n - 1];
    pool->references[*page] = 1;
    atomic_store(&pool->n_free, n - 1);
    return true;
}

void kv_share(kv_pool *pool, uint32_t page)
{
    pool->references[page]++;
}

void kv_release(kv_pool *pool, uint32_t page)
{
    if (--pool->references[page] > 0)
        return;
    uint32_t n = atomic_load(&pool->n_free);
    pool->free_pages[n] = page;
    atomic_store(&pool->n_free, n + 1);
}

bool kv_own(kv_pool *pool, uint32_t *page)
{
    uint32_t copy;
    if (pool->references[*page] == 1)
        return true;
    if (!kv_take(pool, &copy))
        return false;
    memcpy(pool->base + (size_t)copy * pool->page_bytes,
           pool->base + (size_t)*page * pool->page_bytes, pool->page_bytes);
    kv_release(pool, *page);
    *page = copy;
    return true;
}

void kv_put(const kv_pool *pool, uint32_t page, uint32_t layer, uint32_t head, uint32_t at,
            const float *key, const float *value, const kernels_table *kernels)
{
    size_t n = pool->head_size;
    uint8_t *keys = kv_keys(pool, page, layer, head);
    uint8_t *values = kv_values(pool, page, layer, head);
    if (pool->element == 4) {
        float *column = (float *)(void *)keys + at;
        for (size_t i = 0; i < n; i++)
            column[i * KV_PAGE] = key[i];
        memcpy((float *)(void *)values + at * n, value, n * sizeof *value);
        return;
    }
    uint16_t half[MODEL_MAX_HEAD_SIZE];
    uint16_t *column = (uint16_t *)(void *)keys + at;
    kernels->to_f16(key, n, half);
    for (size_t i = 0; i < n; i++)
        column[i * KV_PAGE] = half[i];
    kernels->to_f16(value, n, (uint16_t *)(void *)values + at * n);
}
