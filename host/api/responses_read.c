/*
 * api/responses_read.c - stored responses: GET, DELETE, their input items, cancel.
 *
 * Reading runs on run's worker. A DELETE is answered when the store has done it (later.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "api/later.h"
#include "api/responses_object.h"

#define PAGE_DEFAULT 20
#define PAGE_MAX 100

static api_call *unknown(const char *id)
{
    api_error error;
    api_refuse(&error, 404, NULL, NULL, "Response with id '%.100s' not found.", id);
    return call_refused(&error);
}

static api_call *damaged(void)
{
    api_error error;
    api_refuse(&error, 500, "server_error", NULL, "The stored response could not be read.");
    return call_refused(&error);
}

api_call *responses_retrieve(const api_context *context)
{
    char stream[8];
    api_error error;
    if (route_query(context->request->query, "stream", stream, sizeof stream) &&
        strcmp(stream, "true") == 0) {
        api_refuse(&error, 400, "unsupported_value", "stream",
                   "Only background responses can be streamed again, and there are none here; "
                   "leave 'stream' out.");
        return call_refused(&error);
    }
    run_record *record = run_find(context->runtime, &context->caller, context->id, false);
    if (!record)
        return unknown(context->id);
    api_call *call = call_reply(200);
    bool ok = call && responses_record_add(&call->body, record);
    run_record_release(record);
    if (ok || !call)
        return call;
    api_call_free(call);
    return damaged();
}

/* ------------------------------------------------------------------- DELETE -- */

api_call *responses_delete(const api_context *context)
{
    run_record *record = run_find(context->runtime, &context->caller, context->id, false);
    buf body;
    if (!record)
        return unknown(context->id);
    run_record_release(record);
    buf_init(&body, CALL_MAX_BODY);
    buf_add_text(&body, "{\"id\":");
    json_add_quoted(&body, json_text(context->id));
    buf_add_text(&body, ",\"object\":\"response\",\"deleted\":true}");
    char *text = buf_take(&body);
    later *order = later_open(context, "Response", context->id);
    if (!order) {
        free(text);
        return NULL;
    }
    later_say(order, text);
    api_call *call = later_call(order);
    if (call && run_remove(context->runtime, context->id, later_done, order))
        return call;
    return later_refused(order, call, PAWL_E_BUSY);
}

api_call *responses_cancel(const api_context *context)
{
    api_error error;
    run_record *record = run_find(context->runtime, &context->caller, context->id, false);
    if (!record)
        return unknown(context->id);
    run_record_release(record);
    api_refuse(&error, 400, "invalid_value", NULL, "Cannot cancel a synchronous response.");
    return call_refused(&error);
}

/* -------------------------------------------------------------- input items -- */

bool responses_page_query(const char *query, page_query *page, api_error *error)
{
    char text[16];
    page->limit = PAGE_DEFAULT;
    page->ascending = false;
    *page->after = '\0';
    if (route_query(query, "limit", text, sizeof text)) {
        char *end;
        long limit = strtol(text, &end, 10);
        if (end == text || *end || limit < 1 || limit > PAGE_MAX)
            return api_refuse(error, 400, "invalid_value", "limit",
                              "Invalid value for 'limit': an integer from 1 to %d is expected.",
                              PAGE_MAX);
        page->limit = (int)limit;
    }
    if (route_query(query, "order", text, sizeof text)) {
        page->ascending = strcmp(text, "asc") == 0;
        if (!page->ascending && strcmp(text, "desc") != 0)
            return api_refuse(error, 400, "invalid_value", "order",
                              "Invalid value for 'order': allowed are asc and desc.");
    }
    route_query(query, "after", page->after, sizeof page->after);
    return true;
}

static void add_id(buf *out, const char *name, const cJSON *item)
{
    const char *id = json_get_text(item, "id");
    buf_printf(out, ",\"%s\":", name);
    if (id)
        json_add_quoted(out, json_text(id));
    else
        buf_add_text(out, "null");
}

/* The first item of the page, in the order that is asked for, or NULL. *found: whether
 * "after" names an item. */
static const cJSON *page_start(const cJSON *items, const page_query *page, bool *found)
{
    const cJSON *first = items->child;
    if (!page->ascending && first)
        first = first->prev; /* of the first one in a list: the last one */
    *found = !*page->after;
    if (*found)
        return first;
    const cJSON *each;
    cJSON_ArrayForEach(each, items)
    {
        const char *id = json_get_text(each, "id");
        if (!id || strcmp(id, page->after) != 0)
            continue;
        *found = true;
        if (page->ascending)
            return each->next;
        return each == items->child ? NULL : each->prev;
    }
    return NULL;
}

bool responses_page_add(buf *out, const cJSON *items, const char *query, api_error *error)
{
    page_query page;
    bool found;
    if (!responses_page_query(query, &page, error))
        return false;
    const cJSON *first = page_start(items, &page, &found);
    const cJSON *last = NULL;
    const cJSON *each = first;
    if (!found)
        return api_refuse(error, 400, "invalid_value", "after",
                          "Invalid value for 'after': there is no item '%s'.", page.after);
    buf_add_text(out, "{\"object\":\"list\",\"data\":[");
    for (int n = 0; each && n < page.limit; n++) {
        buf_add_text(out, n ? "," : "");
        json_add(out, each);
        last = each;
        if (page.ascending)
            each = each->next;
        else
            each = each == items->child ? NULL : each->prev;
    }
    buf_add_text(out, "]");
    add_id(out, "first_id", first);
    add_id(out, "last_id", last);
    buf_printf(out, ",\"has_more\":%s}", each ? "true" : "false");
    return true;
}

api_call *responses_input_items(const api_context *context)
{
    api_error error;
    cJSON *items = NULL;
    run_record *record = run_find(context->runtime, &context->caller, context->id, false);
    if (!record)
        return unknown(context->id);
    bool ok = json_parse(record->input, strlen(record->input), &items, NULL) == PAWL_OK &&
              cJSON_IsArray(items);
    run_record_release(record);
    api_call *call = ok ? call_reply(200) : damaged();
    if (ok && call && !responses_page_add(&call->body, items, context->request->query, &error))
        call_set_error(call, &error);
    cJSON_Delete(items);
    return call;
}
