/*
 * api/api.c - an HTTP request to its endpoint. See api.h, route.h, handlers.h.
 *
 * Runs on run's worker; keeps nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/api.h"

#include "api/handlers.h"

#include <string.h>

cJSON *handlers_body(const char *data, size_t size, api_error *error)
{
    cJSON *body = NULL;
    pawl_error why = {.struct_size = sizeof why};
    if (json_parse(data ? data : "", data ? size : 0, &body, &why) != PAWL_OK) {
        if (why.code == PAWL_E_MEMORY)
            api_refuse_memory(error);
        else
            api_refuse(error, 400, "invalid_json", NULL, "The request is not usable: %s.",
                       why.message);
        return NULL;
    }
    if (cJSON_IsObject(body))
        return body;
    cJSON_Delete(body);
    api_refuse(error, 400, "invalid_json", NULL, "The request must be a JSON object, {…}.");
    return NULL;
}

static api_call *handle(enum route_name route, const api_context *context)
{
    switch (route) {
    case ROUTE_RESPONSES_CREATE:
        return responses_create(context);
    case ROUTE_INPUT_TOKENS:
        return responses_input_tokens(context);
    case ROUTE_RESPONSE_GET:
        return responses_retrieve(context);
    case ROUTE_RESPONSE_DELETE:
        return responses_delete(context);
    case ROUTE_RESPONSE_CANCEL:
        return responses_cancel(context);
    case ROUTE_INPUT_ITEMS:
        return responses_input_items(context);
    case ROUTE_CONVERSATIONS_CREATE:
        return conversations_create(context);
    case ROUTE_CONVERSATIONS_LIST:
        return conversations_list(context);
    case ROUTE_CONVERSATION_GET:
        return conversations_retrieve(context);
    case ROUTE_CONVERSATION_UPDATE:
        return conversations_update(context);
    case ROUTE_CONVERSATION_DELETE:
        return conversations_delete(context);
    case ROUTE_ITEMS_LIST:
        return conversations_items(context);
    case ROUTE_ITEMS_CREATE:
        return conversations_add(context);
    case ROUTE_ITEM_GET:
        return conversations_item(context);
    case ROUTE_ITEM_DELETE:
        return conversations_drop(context);
    case ROUTE_CHAT:
        return chat_create(context);
    case ROUTE_COMPLETIONS:
        return completions_create(context);
    case ROUTE_TOKENIZE:
        return tokens_tokenize(context);
    case ROUTE_DETOKENIZE:
        return tokens_detokenize(context);
    case ROUTE_MODELS:
        return models_list(context);
    case ROUTE_MODEL:
        return models_get(context);
    case ROUTE_HEALTH:
        return server_health(context);
    case ROUTE_READY:
        return server_ready(context);
    case ROUTE_METRICS:
        return server_metrics(context);
    case ROUTE_VERSION:
        return server_version(context);
    case ROUTE_NONE:
        break;
    }
    return NULL;
}

const char *api_endpoint(const char *method, const char *path)
{
    return route_pattern(method, path);
}

api_call *api_http(run_runtime *runtime, const api_http_request *request, run_listener listener)
{
    api_context context = {.runtime = runtime,
                           .caller = request->caller ? *request->caller : RUN_NOBODY,
                           .request = request,
                           .listener = listener};
    api_error error;
    route_ids ids = {.id = ""};
    enum route_name route = route_find(request->method, request->path, &ids, &error);
    memcpy(context.id, ids.id, sizeof ids.id);
    memcpy(context.item, ids.item, sizeof ids.item);
    return route == ROUTE_NONE ? call_refused(&error) : handle(route, &context);
}
