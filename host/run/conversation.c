/*
 * run/conversation.c - a conversation as it is read, held and written. See conversation.h;
 * what changes one is in conversation_edit.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/conversation.h"

#include "base/log.h"
#include "run/history.h"

#include <stdlib.h>
#include <string.h>

static char *copy_of(const char *text)
{
    return text ? strdup(text) : NULL;
}

static bool is_whole(const run_conversation *c, const store_conversation *from)
{
    return c->id && c->metadata && c->tail && (!from->title || c->title) &&
           (!from->head_id || c->head_id) && (!from->base_id || c->base_id);
}

/* NULL: no memory, or a damaged tail. */
static run_conversation *from_row(run_runtime *runtime, const store_conversation *row)
{
    run_conversation *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    atomic_init(&c->held, false);
    c->runtime = runtime;
    c->id = copy_of(row->id);
    c->title = copy_of(row->title);
    c->metadata = copy_of(row->metadata);
    c->head_id = copy_of(row->head_id);
    c->base_id = copy_of(row->base_id);
    c->created_ms = row->created_ms;
    c->updated_ms = row->updated_ms;
    c->revision = row->revision;
    snprintf(c->tenant, sizeof c->tenant, "%s", row->tenant ? row->tenant : "");
    if (json_parse(row->tail, strlen(row->tail), &c->tail, NULL) != PAWL_OK)
        c->tail = NULL;
    if (is_whole(c, row) && cJSON_IsArray(c->tail))
        return c;
    run_conversation_close(c);
    return NULL;
}

run_conversation *run_conversation_new(run_runtime *runtime, const run_caller *caller)
{
    char id[CLOCK_ID_SIZE];
    const base_clock *clock = run_clock(runtime);
    clock_new_id(clock, "conv_", id);
    int64_t now = clock->wall_ms(clock->context);
    store_conversation row = {.id = id,
                              .tenant = caller->tenant,
                              .metadata = "{}",
                              .tail = "[]",
                              .created_ms = now,
                              .updated_ms = now};
    return from_row(runtime, &row);
}

static enum run_conversation_answer read_row(run_runtime *runtime, const run_caller *caller,
                                             const char *id, run_conversation **out)
{
    pawl_error error = {.struct_size = sizeof error};
    store_conversation *row = NULL;
    store *s = run_store(runtime);
    pawl_status status = s->conversation_get(s, id, &row, &error);
    if (status == PAWL_E_NOT_FOUND)
        return RUN_CONVERSATION_UNKNOWN;
    if (status) {
        log_write(PAWL_LOG_ERROR, "run", "%s cannot be read: %s", id, error.message);
        return RUN_CONVERSATION_FAILED;
    }
    /* Another tenant's is unknown, in the same words. */
    enum run_conversation_answer answer = RUN_CONVERSATION_UNKNOWN;
    if (strcmp(row->tenant, caller->tenant) == 0) {
        *out = from_row(runtime, row);
        answer = *out ? RUN_CONVERSATION_FOUND : RUN_CONVERSATION_FAILED;
    }
    free(row);
    return answer;
}

enum run_conversation_answer run_conversation_open(run_runtime *runtime, const run_caller *caller,
                                                   const char *id, bool hold,
                                                   run_conversation **out)
{
    run_conversation *c = NULL;
    if (!run_store(runtime))
        return RUN_CONVERSATION_UNKNOWN;
    /* Whose it is comes first, so that nobody learns that another's is being held. */
    enum run_conversation_answer answer = read_row(runtime, caller, id, &c);
    if (answer != RUN_CONVERSATION_FOUND || !hold) {
        *out = c;
        return answer;
    }
    run_conversation_close(c);
    if (!run_holds_take(run_runtime_holds(runtime), id))
        return RUN_CONVERSATION_HELD;
    /* Again, for what was read before the hold may be old. */
    answer = read_row(runtime, caller, id, &c);
    if (answer != RUN_CONVERSATION_FOUND) {
        run_holds_give(run_runtime_holds(runtime), id);
        return answer;
    }
    atomic_store(&c->held, true);
    *out = c;
    return RUN_CONVERSATION_FOUND;
}

void run_conversation_let_go(run_conversation *c)
{
    if (atomic_exchange(&c->held, false))
        run_holds_give(run_runtime_holds(c->runtime), c->id);
}

void run_conversation_close(run_conversation *c)
{
    if (!c)
        return;
    if (c->id)
        run_conversation_let_go(c);
    run_record_release(c->head);
    run_record_release(c->base);
    cJSON_Delete(c->tail);
    free(c->id);
    free(c->title);
    free(c->metadata);
    free(c->head_id);
    free(c->base_id);
    free(c);
}

/* ---------------------------------------------------------------- reading --- */

bool run_conversation_load(run_conversation *c)
{
    run_caller owner = RUN_NOBODY;
    snprintf(owner.tenant, sizeof owner.tenant, "%s", c->tenant);
    if (c->head_id && !c->head)
        c->head = run_find(c->runtime, &owner, c->head_id, true);
    if (c->base_id && !c->base)
        c->base = run_find(c->runtime, &owner, c->base_id, true); /* may have gone: then not */
    return !c->head_id || c->head;
}

static bool add_items(cJSON *to, const char *json)
{
    cJSON *items = NULL;
    if (json_parse(json, strlen(json), &items, NULL) != PAWL_OK)
        return false;
    while (items->child)
        cJSON_AddItemToArray(to, cJSON_DetachItemViaPointer(items, items->child));
    cJSON_Delete(items);
    return true;
}

cJSON *run_conversation_items(const run_conversation *c)
{
    run_refusal refusal;
    run_record **chain = NULL;
    int n = 0;
    cJSON *items = cJSON_CreateArray();
    bool ok = items != NULL;
    if (ok && c->head_id) {
        run_record *head = run_find(c->runtime, NULL, c->head_id, true);
        n = head ? run_history_chain(c->runtime, head, &chain, &refusal) : -1;
        run_record_release(head);
        ok = n >= 0;
    }
    for (int i = 0; i < n; i++) {
        ok = ok && add_items(items, chain[i]->input) && add_items(items, chain[i]->output);
        run_record_release(chain[i]);
    }
    free(chain);
    const cJSON *item;
    cJSON_ArrayForEach(item, c->tail)
    {
        cJSON *copy = ok ? cJSON_Duplicate(item, true) : NULL;
        ok = copy && cJSON_AddItemToArray(items, copy);
    }
    if (ok)
        return items;
    log_write(PAWL_LOG_ERROR, "run", "the items of %s cannot be read", c->id);
    cJSON_Delete(items);
    return NULL;
}

pawl_status run_conversation_list(run_runtime *runtime, const run_caller *caller, store_page page,
                                  store_conversation ***list, size_t *n, pawl_error *error)
{
    store *s = run_store(runtime);
    if (!s)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "nothing is stored here");
    page.tenant = caller->tenant;
    return s->conversation_list(s, &page, list, n, error);
}

/* ---------------------------------------------------------------- writing --- */

pawl_status run_conversation_write(run_conversation *c, store_done done, void *arg,
                                   pawl_error *error)
{
    store *s = run_store(c->runtime);
    const base_clock *clock = run_clock(c->runtime);
    if (!s)
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "nothing is stored here");
    char *tail = json_print(c->tail);
    if (!tail)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory to store %s", c->id);
    c->updated_ms = clock->wall_ms(clock->context);
    store_conversation row = {.id = c->id,
                              .tenant = c->tenant,
                              .title = c->title,
                              .metadata = c->metadata,
                              .tail = tail,
                              .head_id = c->head_id,
                              .base_id = c->base_id,
                              .created_ms = c->created_ms,
                              .updated_ms = c->updated_ms,
                              .revision = c->revision};
    pawl_status status = s->conversation_put(s, &row, done, arg, error);
    free(tail);
    return status;
}

pawl_status run_conversation_remove(run_conversation *c, store_done done, void *arg,
                                    pawl_error *error)
{
    store *s = run_store(c->runtime);
    return s->conversation_remove(s, c->id, done, arg, error);
}
