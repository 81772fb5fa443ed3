/*
 * api/conversations_items.c - the items of a conversation: list, add, read, take out.
 *
 * Items are shown as they are stored, in the form that input_items and output have. Runs
 * on run's worker.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/conversations.h"

#include <string.h>

#include "api/fields.h"
#include "api/responses_object.h"

#define MAX_LIST ((size_t)64 << 20)

static bool refuse_unreadable(const api_context *context, api_error *error)
{
    return conversation_refuse(RUN_CONVERSATION_FAILED, context->id, NULL, error);
}

static bool refuse_item(const api_context *context, api_error *error)
{
    return api_refuse(error, 404, NULL, NULL,
                      "Item with id '%.100s' not found in the conversation '%.100s'.",
                      context->item, context->id);
}

/* All items, with every key. NULL: refused. */
static cJSON *read_items(const api_context *context, api_error *error)
{
    run_conversation *c = conversations_open(context, false, error);
    cJSON *items = c ? run_conversation_items(c) : NULL;
    cJSON *each;
    bool ok = items != NULL;
    cJSON_ArrayForEach(each, items)
    {
        ok = ok && responses_item_complete(each);
    }
    if (c && !ok) {
        refuse_unreadable(context, error);
        cJSON_Delete(items);
        items = NULL;
    }
    run_conversation_close(c);
    return items;
}

api_call *conversations_items(const api_context *context)
{
    api_error error;
    cJSON *items = read_items(context, &error);
    if (!items)
        return call_refused(&error);
    api_call *call = call_reply(200);
    if (call && !responses_page_add(&call->body, items, context->request->query, &error))
        call_set_error(call, &error);
    cJSON_Delete(items);
    return call;
}

api_call *conversations_item(const api_context *context)
{
    api_error error;
    api_call *call = NULL;
    const cJSON *each, *found = NULL;
    cJSON *items = read_items(context, &error);
    cJSON_ArrayForEach(each, items)
    {
        const char *id = json_get_text(each, "id");
        if (id && strcmp(id, context->item) == 0)
            found = each;
    }
    if (items && !found)
        refuse_item(context, &error);
    if (found && (call = call_reply(200)))
        json_add(&call->body, found);
    cJSON_Delete(items);
    return found ? call : call_refused(&error);
}

/* The list of those that were added: all from the n-th on. */
static char *added_list(const run_conversation *c, int n)
{
    buf out;
    api_error error;
    cJSON *added = cJSON_CreateArray();
    const cJSON *each;
    buf_init(&out, MAX_LIST);
    cJSON_ArrayForEach(each, c->tail)
    {
        if (n-- <= 0)
            cJSON_AddItemReferenceToArray(added, (cJSON *)(uintptr_t)each);
    }
    responses_page_add(&out, added, "limit=100&order=asc", &error);
    cJSON_Delete(added);
    return buf_take(&out);
}

api_call *conversations_add(const api_context *context)
{
    api_error error;
    cJSON *body = handlers_body(context->request->body, context->request->body_size, &error);
    run_conversation *c = body ? conversations_open(context, true, &error) : NULL;
    bool ok = c != NULL;
    if (ok && !json_get(body, "items"))
        ok = field_missing("", "items", &error);
    if (ok && !run_conversation_load(c))
        ok = refuse_unreadable(context, &error);
    int n_before = ok ? cJSON_GetArraySize(c->tail) : 0;
    ok = ok && conversations_parse(context, body, c, items_parse_added, NULL, &error);
    cJSON_Delete(body);
    if (ok)
        return conversations_write(context, c, added_list(c, n_before), false);
    run_conversation_close(c);
    return call_refused(&error);
}

api_call *conversations_drop(const api_context *context)
{
    api_error error;
    bool found = false;
    run_conversation *c = conversations_open(context, true, &error);
    if (!c)
        return call_refused(&error);
    bool ok = run_conversation_drop(c, context->item, &found);
    if (ok && found)
        return conversations_write(context, c, conversations_object(c), false);
    if (ok)
        refuse_item(context, &error);
    else
        refuse_unreadable(context, &error);
    run_conversation_close(c);
    return call_refused(&error);
}
