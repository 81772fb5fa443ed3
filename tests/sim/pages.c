/*
 * sim/pages.c - pages of attention state. See pages.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "pages.h"

#include <stdlib.h>

bool pages_open(page_pool *p, uint32_t n)
{
    *p = (page_pool){.n_total = n, .n_free = n};
    p->free_pages = calloc(n, sizeof *p->free_pages);
    p->references = calloc(n, sizeof *p->references);
    if (!p->free_pages || !p->references) {
        pages_close(p);
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        p->free_pages[i] = (uint16_t)i;
    return true;
}

void pages_close(page_pool *p)
{
    free(p->free_pages);
    free(p->references);
    *p = (page_pool){0};
}

bool pages_take(page_pool *p, uint16_t *page)
{
    if (!p->n_free)
        return false;
    *page = p->free_pages[--p->n_free];
    p->references[*page] = 1;
    return true;
}

void pages_share(page_pool *p, uint16_t page)
{
    p->references[page]++;
}

void pages_release(page_pool *p, uint16_t page)
{
    if (--p->references[page] == 0)
        p->free_pages[p->n_free++] = page;
}
