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

size_t kv_page_bytes(const model *m, uint32_t type)
{
    size_t heads = 0;
    for (uint32_t i = 0; i < m->n_layers; i++)
        heads += m->layers[i].kv_heads;
    return heads * 2 * kernels_kv_bytes(type, m->head_size);
}

pawl_status kv_open(const model *m, uint32_t type, uint32_t pages, kv_pool *pool, pawl_error *error)
{
    memset(pool, 0, sizeof *pool);
    pool->page_bytes = kv_page_bytes(m, type);
    pool->head_bytes = 2 * kernels_kv_bytes(type, m->head_size);
    pool->type = type;
    pool->element = kernels_kv_element(type);
    pool->blocks = kernels_kv_blocks(type, m->head_size);
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

/* n elements of `size` bytes, KV_PAGE elements apart. */
static void put_column(uint8_t *to, const void *from, size_t n, size_t size)
{
    if (size == 1)
        for (size_t i = 0; i < n; i++)
            to[i * KV_PAGE] = ((const uint8_t *)from)[i];
    else if (size == 2)
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)(void *)to)[i * KV_PAGE] = ((const uint16_t *)from)[i];
    else
        for (size_t i = 0; i < n; i++)
            ((float *)(void *)to)[i * KV_PAGE] = ((const float *)from)[i];
}

void kv_put(const kv_pool *pool, uint32_t page, uint32_t layer, uint32_t head, uint32_t at,
            const float *key, const float *value, const kernels_table *kernels)
{
    _Alignas(64) uint8_t row[MODEL_MAX_HEAD_SIZE * sizeof(float)];
    uint16_t scales[MODEL_MAX_HEAD_SIZE / KERNELS_BLOCK];
    size_t n = pool->head_size;
    uint8_t *keys = kv_keys(pool, page, layer, head);
    uint8_t *values = kv_values(pool, page, layer, head);
    kernels->pack_kv(pool->type, key, n, row, scales);
    put_column(keys + at * pool->element, row, n, pool->element);
    put_column(keys + KV_PAGE * n * pool->element + at * sizeof *scales, scales, pool->blocks,
               sizeof *scales);
    kernels->pack_kv(pool->type, value, n, values + at * n * pool->element,
                     (uint16_t *)(void *)(values + KV_PAGE * n * pool->element) +
                         at * pool->blocks);
}
