/*
 * run/record.c - a finished response as later turns see it. See record.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/record.h"

#include <stdlib.h>
#include <string.h>

run_record *run_record_new(void)
{
    run_record *record = calloc(1, sizeof *record);
    if (record)
        record->references = 1;
    return record;
}

run_record *run_record_retain(run_record *record)
{
    __atomic_add_fetch(&record->references, 1, __ATOMIC_RELAXED);
    return record;
}

void run_record_release(run_record *record)
{
    /* A loop, not a recursion: a chain of turns may be long. */
    while (record && __atomic_sub_fetch(&record->references, 1, __ATOMIC_ACQ_REL) == 0) {
        run_record *parent = record->parent;
        free(record->id);
        free(record->parent_id);
        free(record->model);
        free(record->tenant);
        free(record->request);
        free(record->input);
        free(record->output);
        free(record->result);
        free(record->tokens);
        free(record);
        record = parent;
    }
}

static const char *known_status(const char *status)
{
    static const char *const known[] = {"completed", "incomplete", "cancelled", "failed"};
    for (size_t i = 0; i < 3; i++)
        if (status && strcmp(status, known[i]) == 0)
            return known[i];
    return known[3];
}

run_record *run_record_from_store(const store_response *row)
{
    run_record *record = run_record_new();
    if (!record)
        return NULL;
    record->id = strdup(row->id);
    record->parent_id = row->parent_id ? strdup(row->parent_id) : NULL;
    record->model = strdup(row->model);
    record->tenant = strdup(row->tenant ? row->tenant : "");
    record->status = known_status(row->status);
    record->created_ms = row->created_ms;
    record->completed_ms = row->completed_ms;
    record->request = strdup(row->request);
    record->input = strdup(row->input);
    record->output = strdup(row->output);
    record->result = strdup(row->result);
    record->tokens = malloc((size_t)(row->n_tokens + 1) * sizeof *record->tokens);
    record->stored = true;
    if (!record->id || (row->parent_id && !record->parent_id) || !record->model ||
        !record->tenant || !record->request || !record->input || !record->output ||
        !record->result || !record->tokens) {
        run_record_release(record);
        return NULL;
    }
    if (row->n_tokens)
        memcpy(record->tokens, row->tokens, (size_t)row->n_tokens * sizeof *record->tokens);
    record->n_tokens = row->n_tokens;
    record->n_prompt = row->n_prompt;
    return record;
}

store_response run_record_view(const run_record *record)
{
    return (store_response){.id = record->id,
                            .parent_id = record->parent_id,
                            .model = record->model,
                            .tenant = record->tenant,
                            .status = record->status,
                            .created_ms = record->created_ms,
                            .completed_ms = record->completed_ms,
                            .request = record->request,
                            .input = record->input,
                            .output = record->output,
                            .result = record->result,
                            .tokens = record->tokens,
                            .n_tokens = record->n_tokens,
                            .n_prompt = record->n_prompt};
}

bool run_record_can_continue(const run_record *record)
{
    return strcmp(record->status, "completed") == 0 || strcmp(record->status, "incomplete") == 0;
}
