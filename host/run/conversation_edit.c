/*
 * run/conversation_edit.c - what changes a conversation that was read. See
 * conversation.h.
 *
 * Nothing here touches the store but to read the chain; a change is there once it was
 * written. Runs on the thread that has the conversation.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/conversation.h"

#include "run/history.h"

#include <stdlib.h>
#include <string.h>

static bool set_text(char **to, const char *text)
{
    char *copy = text ? strdup(text) : NULL;
    if (text && !copy)
        return false;
    free(*to);
    *to = copy;
    return true;
}

bool run_conversation_attach(run_conversation *c, run_request *request)
{
    request->conversation = c;
    request->parent = c->head ? run_record_retain(c->head) : NULL;
    request->base = c->base ? run_record_retain(c->base) : NULL;
    request->items = c->tail;
    c->tail = cJSON_CreateArray();
    return c->tail != NULL;
}

bool run_conversation_describe(run_conversation *c, const cJSON *metadata)
{
    char *text = json_print(metadata);
    if (!text || !set_text(&c->title, json_get_text(metadata, "title"))) {
        free(text);
        return false;
    }
    free(c->metadata);
    c->metadata = text;
    return true;
}

static cJSON *item_of(cJSON *items, const char *id)
{
    cJSON *each;
    cJSON_ArrayForEach(each, items)
    {
        const char *other = json_get_text(each, "id");
        if (other && strcmp(other, id) == 0)
            return each;
    }
    return NULL;
}

/* Everything becomes the tail; the head is remembered for its timeline. */
static void flatten(run_conversation *c, cJSON *items)
{
    char *base = c->head_id;
    cJSON_Delete(c->tail);
    c->tail = items;
    c->head_id = NULL;
    if (base) {
        free(c->base_id);
        c->base_id = base;
    }
}

bool run_conversation_drop(run_conversation *c, const char *item_id, bool *found)
{
    cJSON *item = item_of(c->tail, item_id);
    *found = true;
    if (item) {
        cJSON_Delete(cJSON_DetachItemViaPointer(c->tail, item));
        return true;
    }
    cJSON *items = run_conversation_items(c);
    if (!items)
        return false;
    item = item_of(items, item_id);
    *found = item && cJSON_GetArraySize(items) <= RUN_MAX_TAIL + 1;
    if (!*found) {
        cJSON_Delete(items);
        return item == NULL;
    }
    cJSON_Delete(cJSON_DetachItemViaPointer(items, item));
    flatten(c, items);
    return true;
}

/* Cuts a list before its last message of the user; false: there is none. */
static bool cut_last_turn(cJSON *items)
{
    cJSON *from = items->child ? items->child->prev : NULL; /* the last one */
    const char *role = json_get_text(from, "role");
    while (from && !(role && strcmp(role, "user") == 0)) {
        from = from == items->child ? NULL : from->prev;
        role = json_get_text(from, "role");
    }
    for (cJSON *next; from; from = next) {
        next = from->next;
        cJSON_Delete(cJSON_DetachItemViaPointer(items, from));
        if (!next)
            return true;
    }
    return false;
}

/* The head's own turn goes: its parent is the head again, and what the head took from the
 * tail before the user's message is the tail again. */
static bool undo_head(run_conversation *c, bool *found)
{
    cJSON *items = NULL;
    run_record *head = run_find(c->runtime, NULL, c->head_id, true);
    bool ok = head && json_parse(head->input, strlen(head->input), &items, NULL) == PAWL_OK;
    *found = ok && cut_last_turn(items);
    if (*found && (ok = set_text(&c->head_id, head->parent_id))) {
        cJSON_Delete(c->tail);
        c->tail = items;
        items = NULL;
    }
    cJSON_Delete(items);
    run_record_release(head);
    return ok;
}

bool run_conversation_undo(run_conversation *c, bool *found)
{
    *found = cut_last_turn(c->tail);
    if (*found || !c->head_id)
        return true;
    if (!undo_head(c, found))
        return false;
    if (*found)
        return true;
    /* A turn without a message of the user, as after a tool's output: item by item. */
    cJSON *items = run_conversation_items(c);
    *found = items && cut_last_turn(items);
    if (*found)
        flatten(c, items);
    else
        cJSON_Delete(items);
    return items != NULL;
}

/* Whether a response is the head or one of its ancestors. */
static bool chain_has(const run_conversation *c, const char *response_id)
{
    run_refusal refusal;
    run_record **chain = NULL;
    run_record *head = c->head_id ? run_find(c->runtime, NULL, c->head_id, true) : NULL;
    int n = head ? run_history_chain(c->runtime, head, &chain, &refusal) : 0;
    bool has = false;
    for (int i = 0; i < n; i++) {
        has = has || strcmp(chain[i]->id, response_id) == 0;
        run_record_release(chain[i]);
    }
    free(chain);
    run_record_release(head);
    return has;
}

bool run_conversation_fork(run_conversation *c, const run_conversation *from,
                           const char *response_id, bool *found)
{
    *found = !response_id || chain_has(from, response_id);
    if (!*found)
        return true;
    if (response_id)
        return set_text(&c->head_id, response_id);
    cJSON *tail = cJSON_Duplicate(from->tail, true);
    if (!tail || !set_text(&c->head_id, from->head_id) || !set_text(&c->base_id, from->base_id)) {
        cJSON_Delete(tail);
        return false;
    }
    cJSON_Delete(c->tail);
    c->tail = tail;
    return true;
}
