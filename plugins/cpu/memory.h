/*
 * cpu/memory.h - how much memory a model needs, and how much there is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CPU_MEMORY_H
#define CPU_MEMORY_H

#include <pawl/plugin.h>

#include <stdbool.h>

#include "cpu/model.h"

/* Bytes that this process could still use: what the kernel calls available, and
 * what its control group leaves it. */
uint64_t memory_available(void);

typedef struct memory_plan {
    uint64_t scratch;    /* bytes                                          */
    uint64_t page_bytes; /* of KV_PAGE tokens                              */
    uint32_t pages;      /* for all sequences, or what the budget allows   */
} memory_plan;

/* budget 0: half of what is available. PAWL_E_MEMORY: not even one page fits. */
pawl_status memory_make_plan(const model *m, uint32_t kv, uint32_t workers, uint64_t context,
                             uint64_t sequences, uint64_t budget, memory_plan *plan,
                             pawl_error *error);

#endif /* CPU_MEMORY_H */
