/*
 * api/responses_read.c - responses by their id: GET, DELETE, their input items, cancel.
 *
 * One that runs is told from its log, one that has ended from the store. Reading runs on
 * run's worker. A DELETE is answered when the store has done it (later.h).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "api/follow.h"
#include "api/later.h"
#include "api/responses_object.h"
#include "run/logs.h"

#define PAGE_DEFAULT 20
#define PAGE_MAX 100

static api_call *unknown(const char *id)
{
    api_error error;
    follow_refuse_unknown(&error, id);
    return call_refused(&error);
}

static api_call *damaged(void)
{
    api_error error;
    api_refuse(&error, 500, "server_error", NULL, "The stored response could not be read.");
    return call_refused(&error);
}

/* The events of the caller's own response, a reference; NULL: they are not kept. */
static run_log *find_log(const api_context *context)
{
    run_log *log =
        run_logs_find(run_logs_of(context->runtime), context->caller.tenant, context->id);
    if (!log || run_log_is_stored(log))
        return log;
    run_log_release(log); /* it is not there to be read */
    return NULL;
}

static bool is_stored(const api_context *context)
{
    run_record *record = run_find(context->runtime, &context->caller, context->id, false);
    run_record_release(record);
    return record != NULL;
}

/* NULL: refused. */
static api_call *stream_again(const api_context *context, api_error *error)
{
    char after[32];
    uint64_t first = 0;
    if (route_query(context->request->query, "starting_after", after, sizeof after) &&
        !follow_number(after, &first, error))
        return NULL;
    run_log *log = find_log(context);
    if (!log) {
        if (is_stored(context))
            api_refuse_expired(error, context->id);
        else
            follow_refuse_unknown(error, context->id);
        return NULL;
    }
    api_call *call = follow_check(log, first, error)
                         ? follow_stream(context->runtime, log, API_STREAM, NULL, first, error)
                         : NULL;
    run_log_release(log);
    return call;
}

/* The response as it is while it runs. NULL: it does not. */
static api_call *running(const api_context *context)
{
    run_log *log = find_log(context);
    run_request *request = log ? run_log_request(log) : NULL;
    api_call *call = NULL;
    if (request) {
        bool queued = request->background && run_log_is_queued(log);
        responses_view view = {.id = request->id,
                               .status = queued ? "queued" : "in_progress",
                               .created_ms = request->created_ms,
                               .echo = request->echo};
        run_log_touch(log);
        call = call_reply(200);
        if (call && !responses_object_add(&call->body, &view))
            call->status = 500;
    }
    run_request_free(request);
    run_log_release(log);
    return call;
}

static api_call *retrieve(const api_context *context)
{
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

/* Other words than these two are refused: who writes "True" waits for a stream. */
static bool wants_stream(const api_context *context, bool *wanted, api_error *error)
{
    char word[8];
    *wanted = false;
    if (!route_query(context->request->query, "stream", word, sizeof word) ||
        strcmp(word, "false") == 0)
        return true;
    *wanted = strcmp(word, "true") == 0;
    return *wanted || api_refuse(error, 400, "invalid_value", "stream",
                                 "Invalid value for 'stream': true or false is expected.");
}

api_call *responses_retrieve(const api_context *context)
{
    bool stream;
    api_error error;
    if (!wants_stream(context, &stream, &error))
        return call_refused(&error);
    if (stream) {
        api_call *events = stream_again(context, &error);
        return events ? events : call_refused(&error);
    }
    api_call *call = running(context);
    return call ? call : retrieve(context);
}

/* ------------------------------------------------------------------- DELETE -- */

/* Whether it may be removed. Its events go at once, in any case. */
static bool may_delete(const api_context *context, api_error *error)
{
    run_log *log = find_log(context);
    bool runs = log && run_log_is_running(log);
    if (log && !runs)
        run_logs_forget(run_logs_of(context->runtime), log);
    run_log_release(log);
    if (runs)
        return api_refuse(error, 409, "response_in_progress", NULL,
                          "Response '%.100s' has not ended. Cancel it first, or delete it when it "
                          "has.",
                          context->id);
    return is_stored(context) || follow_refuse_unknown(error, context->id);
}

api_call *responses_delete(const api_context *context)
{
    api_error error;
    buf body;
    if (!may_delete(context, &error))
        return call_refused(&error);
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

/* ------------------------------------------------------------------- cancel -- */

bool api_cancel(run_runtime *runtime, const run_caller *caller, const char *response_id)
{
    run_log *log = run_logs_find(run_logs_of(runtime), caller->tenant, response_id);
    bool runs = log && run_log_is_stored(log) && run_log_is_running(log);
    if (runs)
        run_log_cancel(log);
    run_log_release(log);
    return runs;
}

/* A record that was asked for in the background. */
static bool is_background(const run_record *record)
{
    cJSON *echo = NULL;
    bool background =
        json_parse(record->request, strlen(record->request), &echo, NULL) == PAWL_OK &&
        json_get_bool(echo, "background", false);
    cJSON_Delete(echo);
    return background;
}

static api_call *synchronous(void)
{
    api_error error;
    api_refuse(&error, 400, "invalid_value", NULL, "Cannot cancel a synchronous response.");
    return call_refused(&error);
}

/* NULL: refused. */
static api_call *cancel_running(const api_context *context, run_log *log)
{
    api_error error;
    if (!run_log_is_background(log))
        return synchronous();
    run_log_cancel(log);
    api_call *call = follow_end(context->runtime, log, &error);
    return call ? call : call_refused(&error);
}

api_call *responses_cancel(const api_context *context)
{
    run_log *log = find_log(context);
    if (log && run_log_is_running(log)) {
        api_call *call = cancel_running(context, log);
        run_log_release(log);
        return call;
    }
    run_log_release(log);
    run_record *record = run_find(context->runtime, &context->caller, context->id, false);
    if (!record)
        return unknown(context->id);
    bool background = is_background(record);
    run_record_release(record);
    return background ? retrieve(context) : synchronous();
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

/* An array, or NULL: the response is not there, or (*damaged_row) cannot be read. */
static cJSON *input_of(const api_context *context, bool *damaged_row)
{
    cJSON *items = NULL;
    run_log *log = find_log(context);
    run_request *request = log ? run_log_request(log) : NULL;
    run_record *record = NULL;
    if (request)
        items = cJSON_Duplicate(request->items, true);
    else
        record = run_find(context->runtime, &context->caller, context->id, false);
    *damaged_row =
        record && (json_parse(record->input, strlen(record->input), &items, NULL) != PAWL_OK ||
                   !cJSON_IsArray(items));
    run_record_release(record);
    run_request_free(request);
    run_log_release(log);
    return items;
}

api_call *responses_input_items(const api_context *context)
{
    api_error error;
    bool bad;
    cJSON *items = input_of(context, &bad);
    if (!items || bad) {
        cJSON_Delete(items);
        return bad ? damaged() : unknown(context->id);
    }
    api_call *call = call_reply(200);
    if (call && !responses_page_add(&call->body, items, context->request->query, &error))
        call_set_error(call, &error);
    cJSON_Delete(items);
    return call;
}
