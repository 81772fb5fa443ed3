/*
 * cpu/memory.c - see memory.h. Runs while a model opens or is inspected.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/forward.h"
#include "cpu/kv.h"

/* The number behind a label in a small text file, or the whole file's first one
 * where label is "". */
static bool read_number(const char *path, const char *label, uint64_t *value)
{
    char line[128];
    bool found = false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, label, strlen(label)) != 0)
            continue;
        char *end;
        const char *digits = line + strlen(label);
        *value = strtoull(digits, &end, 10);
        found = end != digits;
    }
    fclose(file);
    return found;
}

uint64_t memory_available(void)
{
    uint64_t available = (uint64_t)1 << 30; /* where the system does not say */
    uint64_t limit, used;
    if (read_number("/proc/meminfo", "MemAvailable:", &available))
        available *= 1024;
    if (read_number("/sys/fs/cgroup/memory.max", "", &limit) &&
        read_number("/sys/fs/cgroup/memory.current", "", &used)) {
        uint64_t left = limit > used ? limit - used : 0;
        available = left < available ? left : available;
    }
    return available;
}

pawl_status memory_make_plan(const model *m, uint32_t kv, uint32_t workers, uint64_t context,
                             uint64_t sequences, uint64_t budget, memory_plan *plan,
                             pawl_error *error)
{
    uint64_t total = budget ? budget : memory_available() / 2;
    uint64_t scratch = forward_bytes(m, workers);
    uint64_t page_bytes = kv_page_bytes(m, kv);
    if (total < scratch || total - scratch < page_bytes)
        return pawl_fail(error, PAWL_E_MEMORY,
                         "%llu bytes of memory are too few: scratch takes %llu and each %u tokens "
                         "%llu more",
                         (unsigned long long)total, (unsigned long long)scratch, KV_PAGE,
                         (unsigned long long)page_bytes);
    uint64_t useful = (context + KV_PAGE - 1) / KV_PAGE * sequences;
    uint64_t pages = (total - scratch) / page_bytes;
    pages = pages < useful ? pages : useful;
    pages = pages < KV_MAX_PAGES ? pages : KV_MAX_PAGES;
    *plan = (memory_plan){scratch, page_bytes, (uint32_t)pages};
    return PAWL_OK;
}
