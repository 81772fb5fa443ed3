/*
 * api/conversations.c - conversations as a whole: make, list, read, change, delete.
 *
 * Whoever changes one holds it until the store has answered (later.h); meanwhile others
 * are told so by 409. Parsing runs on run's worker.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/conversations.h"

#include <inttypes.h>
#include <stdlib.h>

#include "api/fields.h"

#define MAX_OBJECT ((size_t)2 << 20)

static void add_object(buf *out, const char *id, int64_t created_ms, const char *metadata)
{
    buf_add_text(out, "{\"id\":");
    json_add_quoted(out, json_text(id));
    buf_printf(out, ",\"object\":\"conversation\",\"created_at\":%" PRId64 ",\"metadata\":%s}",
               created_ms / 1000, metadata);
}

char *conversations_object(const run_conversation *c)
{
    buf out;
    buf_init(&out, MAX_OBJECT);
    add_object(&out, c->id, c->created_ms, c->metadata);
    return buf_take(&out);
}

run_conversation *conversations_open(const api_context *context, bool hold, api_error *error)
{
    run_conversation *c = NULL;
    enum run_conversation_answer answer =
        run_conversation_open(context->runtime, &context->caller, context->id, hold, &c);
    if (answer == RUN_CONVERSATION_FOUND)
        return c;
    conversation_refuse(answer, context->id, NULL, error);
    return NULL;
}

api_call *conversations_write(const api_context *context, run_conversation *c, char *body,
                              bool removes)
{
    pawl_status status = PAWL_E_MEMORY;
    later *order = later_open(context, "Conversation", c->id);
    if (!order) {
        run_conversation_close(c);
        free(body);
        return NULL;
    }
    later_keep(order, c);
    later_say(order, body);
    api_call *call = later_call(order);
    if (call)
        status = removes ? run_conversation_remove(c, later_done, order, NULL)
                         : run_conversation_write(c, later_done, order, NULL);
    return status ? later_refused(order, call, status) : call;
}

/* ----------------------------------------------------------------- parsing -- */

bool conversations_parse(const api_context *context, const cJSON *body, run_conversation *c,
                         bool (*parse)(parse_state *state), cJSON **echo, api_error *error)
{
    parse_env env = responses_env(context, NULL);
    run_request *request = parse_new_request(&env);
    parse_state state = {.body = body, .env = &env, .request = request, .error = error};
    if (request)
        request->echo = cJSON_CreateObject();
    bool ok = (request && request->echo) || api_refuse_memory(error);
    if (ok) {
        ok = run_conversation_attach(c, request) ? parse(&state) : api_refuse_memory(error);
        cJSON_Delete(c->tail);
        c->tail = request->items; /* as they were, and what was added */
        request->items = NULL;
    }
    if (ok && echo)
        *echo = cJSON_DetachItemFromObjectCaseSensitive(request->echo, "metadata");
    if (request)
        request->conversation = NULL;
    run_request_free(request);
    return ok;
}

static bool parse_new(parse_state *state)
{
    return metadata_parse(state) && items_parse_added(state);
}

/* "fork": {"conversation", "response"?}, before the items are parsed. */
static bool parse_fork(const api_context *context, const cJSON *body, run_conversation *c,
                       api_error *error)
{
    const cJSON *fork = NULL;
    const char *id = NULL, *response = NULL;
    run_conversation *from = NULL;
    bool found = false;
    if (!field_object(body, "", "fork", &fork, error))
        return false;
    if (!fork)
        return true;
    if (!field_text(fork, "fork", "conversation", PARSE_MAX_ID, &id, error) ||
        !field_text(fork, "fork", "response", PARSE_MAX_ID, &response, error))
        return false;
    if (!id)
        return field_missing("fork", "conversation", error);
    enum run_conversation_answer answer =
        run_conversation_open(context->runtime, &context->caller, id, false, &from);
    if (answer != RUN_CONVERSATION_FOUND)
        return conversation_refuse(answer, id, "fork.conversation", error);
    bool ok = run_conversation_fork(c, from, response, &found) || api_refuse_memory(error);
    if (ok && !found)
        ok = api_refuse(error, 404, NULL, "fork.response",
                        "Response with id '%.100s' not found in the conversation '%.100s'.",
                        response, id);
    run_conversation_close(from);
    return ok && (run_conversation_load(c) ||
                  conversation_refuse(RUN_CONVERSATION_FAILED, id, "fork.conversation", error));
}

/* ------------------------------------------------------------- the endpoints -- */

static bool fill(const api_context *context, const cJSON *body, run_conversation *c,
                 api_error *error)
{
    cJSON *metadata = NULL;
    if (!parse_fork(context, body, c, error) ||
        !conversations_parse(context, body, c, parse_new, &metadata, error))
        return false;
    bool ok = run_conversation_describe(c, metadata) || api_refuse_memory(error);
    cJSON_Delete(metadata);
    return ok;
}

api_call *conversations_create(const api_context *context)
{
    api_error error;
    const api_http_request *request = context->request;
    bool empty = !request->body || request->body_size == 0;
    cJSON *body =
        handlers_body(empty ? "{}" : request->body, empty ? 2 : request->body_size, &error);
    run_conversation *c = NULL;
    if (!body)
        return call_refused(&error);
    c = run_conversation_new(context->runtime, &context->caller);
    bool ok = c ? fill(context, body, c, &error) : api_refuse_memory(&error);
    cJSON_Delete(body);
    if (ok)
        return conversations_write(context, c, conversations_object(c), false);
    run_conversation_close(c);
    return call_refused(&error);
}

api_call *conversations_retrieve(const api_context *context)
{
    api_error error;
    run_conversation *c = conversations_open(context, false, &error);
    if (!c)
        return call_refused(&error);
    char *text = conversations_object(c);
    api_call *call = text ? call_text(200, text) : NULL;
    free(text);
    run_conversation_close(c);
    return call;
}

api_call *conversations_update(const api_context *context)
{
    api_error error;
    cJSON *metadata = NULL;
    cJSON *body = handlers_body(context->request->body, context->request->body_size, &error);
    run_conversation *c = body ? conversations_open(context, true, &error) : NULL;
    bool ok = c != NULL;
    if (ok && !cJSON_GetObjectItemCaseSensitive(body, "metadata"))
        ok = field_missing("", "metadata", &error);
    ok = ok && conversations_parse(context, body, c, metadata_parse, &metadata, &error);
    cJSON_Delete(body);
    if (ok)
        ok = run_conversation_describe(c, metadata) || api_refuse_memory(&error);
    cJSON_Delete(metadata);
    if (ok)
        return conversations_write(context, c, conversations_object(c), false);
    run_conversation_close(c);
    return call_refused(&error);
}

api_call *conversations_delete(const api_context *context)
{
    api_error error;
    buf out;
    run_conversation *c = conversations_open(context, true, &error);
    if (!c)
        return call_refused(&error);
    buf_init(&out, MAX_OBJECT);
    buf_add_text(&out, "{\"id\":");
    json_add_quoted(&out, json_text(c->id));
    buf_add_text(&out, ",\"object\":\"conversation.deleted\",\"deleted\":true}");
    return conversations_write(context, c, buf_take(&out), true);
}

/* ----------------------------------------------------------------- the list -- */

static void add_id(buf *out, const char *name, const store_conversation *c)
{
    buf_printf(out, ",\"%s\":", name);
    if (c)
        json_add_quoted(out, json_text(c->id));
    else
        buf_add_text(out, "null");
}

/* n rows were asked for one more than the page has, to know whether more follow. */
static void add_list(buf *out, store_conversation **list, size_t n, size_t limit)
{
    size_t shown = n < limit ? n : limit;
    buf_add_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < shown; i++) {
        buf_add_text(out, i ? "," : "");
        add_object(out, list[i]->id, list[i]->created_ms, list[i]->metadata);
    }
    buf_add_text(out, "]");
    add_id(out, "first_id", shown ? list[0] : NULL);
    add_id(out, "last_id", shown ? list[shown - 1] : NULL);
    buf_printf(out, ",\"has_more\":%s}", n > shown ? "true" : "false");
}

api_call *conversations_list(const api_context *context)
{
    api_error error;
    page_query page;
    store_conversation **list = NULL;
    size_t n = 0;
    if (!responses_page_query(context->request->query, &page, &error))
        return call_refused(&error);
    store_page asked = {.after = *page.after ? page.after : NULL,
                        .ascending = page.ascending,
                        .limit = (size_t)page.limit + 1};
    pawl_status status =
        run_conversation_list(context->runtime, &context->caller, asked, &list, &n, NULL);
    if (status == PAWL_E_NOT_FOUND)
        api_refuse(&error, 400, "invalid_value", "after",
                   "Invalid value for 'after': there is no conversation '%s'.", page.after);
    else if (status)
        api_refuse(&error, 500, "server_error", NULL, "The conversations could not be read.");
    if (status)
        return call_refused(&error);
    api_call *call = call_reply(200);
    if (call)
        add_list(&call->body, list, n, (size_t)page.limit);
    for (size_t i = 0; i < n; i++)
        free(list[i]);
    free(list);
    return call;
}
