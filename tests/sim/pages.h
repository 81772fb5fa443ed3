/*
 * sim/pages.h - pages of attention state: counted references, shared by forks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SIM_PAGES_H
#define SIM_PAGES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct page_pool {
    uint32_t n_total, n_free;
    uint16_t *free_pages; /* a stack, n_free high   */
    uint16_t *references; /* of each page; 0: free  */
} page_pool;

bool pages_open(page_pool *p, uint32_t n);
void pages_close(page_pool *p);
bool pages_take(page_pool *p, uint16_t *page); /* false: none is free */
void pages_share(page_pool *p, uint16_t page);
void pages_release(page_pool *p, uint16_t page);

#endif /* SIM_PAGES_H */
