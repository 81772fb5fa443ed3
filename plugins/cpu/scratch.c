/*
 * cpu/scratch.c - the memory that a forward pass works in, in one piece.
 *
 * Laid out twice by the same function: first to count, then to point.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/forward.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LINE ((size_t)64)

/* The next `bytes` of the piece; NULL while counting. */
static void *take(uint8_t *memory, size_t *used, size_t bytes)
{
    void *part = memory ? memory + *used : NULL;
    *used += (bytes + LINE - 1) / LINE * LINE;
    return part;
}

static float *take_floats(uint8_t *memory, size_t *used, size_t rows, size_t width)
{
    return take(memory, used, rows * width * sizeof(float));
}

static void lay_out_worker(const model *m, uint8_t *memory, size_t *used, forward_worker *w)
{
    size_t partial = kernels_partial_size(m->head_size);
    w->scores = take_floats(memory, used, FORWARD_QUERIES, KERNELS_SPAN);
    w->partial = take_floats(memory, used, FORWARD_QUERIES, partial);
    w->running = take_floats(memory, used, FORWARD_QUERIES, partial);
    w->adjusted = take_floats(memory, used, 1, m->vocab);
    w->ids = take(memory, used, m->vocab * sizeof *w->ids);
    w->seen = take(memory, used, m->vocab * sizeof *w->seen);
}

static size_t lay_out(const model *m, uint32_t workers, forward *f)
{
    uint8_t *memory = f->memory;
    size_t used = 0;
    size_t queries = (size_t)m->max_heads * m->head_size;
    size_t keys = (size_t)m->max_kv_heads * m->head_size;
    size_t widest = m->hidden > m->max_width ? m->hidden : m->max_width;
    widest = queries > widest ? queries : widest;
    f->rows = take(memory, &used, FORWARD_ROWS * sizeof *f->rows);
    f->x = take_floats(memory, &used, FORWARD_ROWS, m->hidden);
    f->change = take_floats(memory, &used, FORWARD_ROWS, m->hidden);
    f->normed = take_floats(memory, &used, FORWARD_ROWS, m->hidden);
    f->q = take_floats(memory, &used, FORWARD_ROWS, queries);
    f->k = take_floats(memory, &used, FORWARD_ROWS, keys);
    f->v = take_floats(memory, &used, FORWARD_ROWS, keys);
    f->mixed = take_floats(memory, &used, FORWARD_ROWS, queries);
    f->partials = take_floats(memory, &used, FORWARD_PARTIALS, kernels_partial_size(m->head_size));
    f->gate = take_floats(memory, &used, FORWARD_ROWS, m->max_width);
    f->up = take_floats(memory, &used, FORWARD_ROWS, m->max_width);
    f->quantised = take(memory, &used, FORWARD_ROWS * kernels_q8_bytes(widest, 2));
    f->turns = take_floats(memory, &used, FORWARD_ROWS, (size_t)2 * m->rope_pairs);
    f->finals = take_floats(memory, &used, FORWARD_LOGIT_ROWS, m->hidden);
    f->logits = take_floats(memory, &used, FORWARD_LOGIT_ROWS, m->vocab);
    f->workers = take(memory, &used, workers * sizeof *f->workers);
    for (uint32_t i = 0; i < workers; i++) {
        forward_worker counted;
        lay_out_worker(m, memory, &used, memory ? &f->workers[i] : &counted);
    }
    return used;
}

size_t forward_bytes(const model *m, uint32_t workers)
{
    forward counted = {0};
    return lay_out(m, workers, &counted);
}

pawl_status forward_open(const model *m, uint32_t workers, forward *f, pawl_error *error)
{
    size_t bytes = forward_bytes(m, workers);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return pawl_fail(error, PAWL_E_MEMORY, "the system refused %zu bytes of scratch", bytes);
    madvise(map, bytes, MADV_HUGEPAGE);
    memset(f, 0, sizeof *f);
    f->memory = map;
    f->bytes = bytes;
    lay_out(m, workers, f);
    return PAWL_OK;
}

void forward_close(forward *f)
{
    if (f->memory)
        munmap(f->memory, f->bytes);
    memset(f, 0, sizeof *f);
}
