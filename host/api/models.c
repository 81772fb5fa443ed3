/*
 * api/models.c - which models there are, and whether the server is well.
 *
 * Runs on run's worker; keeps nothing. A server that stops refuses before it comes here,
 * so that whoever reaches server_ready() finds a server that takes work; and net answers
 * /livez, /readyz and /health itself, on its loop, whatever the worker does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>

#include "api/handlers.h"
#include "run/ready.h"

static void add_model(buf *out, const run_model *model)
{
    buf_add_text(out, "{\"id\":");
    json_add_quoted(out, json_text(model->name));
    buf_printf(out,
               ",\"object\":\"model\",\"created\":%" PRId64
               ",\"owned_by\":\"pawl\",\"max_model_len\":%" PRIu64 "}",
               model->created_ms / 1000, model->info.context_limit);
}

api_call *models_list(const api_context *context)
{
    api_call *call = call_reply(200);
    if (!call)
        return NULL;
    buf_add_text(&call->body, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < run_model_count(context->runtime); i++) {
        buf_add_text(&call->body, i ? "," : "");
        add_model(&call->body, run_model_at(context->runtime, i));
    }
    buf_add_text(&call->body, "]}");
    return call;
}

api_call *models_get(const api_context *context)
{
    const run_model *model = run_model_find(context->runtime, context->id);
    if (!model) {
        parse_env env = responses_env(context, NULL);
        api_error error;
        parse_refuse_model(&env, context->id, &error);
        return call_refused(&error);
    }
    api_call *call = call_reply(200);
    if (call)
        add_model(&call->body, model);
    return call;
}

api_call *server_health(const api_context *context)
{
    (void)context;
    return call_text(200, "{\"status\":\"ok\"}");
}

api_call *server_ready(const api_context *context)
{
    api_error error;
    char why[200];
    if (run_is_ready(context->runtime, why, sizeof why))
        return call_text(200, "{\"status\":\"ok\"}");
    api_refuse(&error, 503, "server_is_overloaded", NULL, "%s", why);
    return call_refused(&error);
}

api_call *server_metrics(const api_context *context)
{
    api_call *call = call_reply(200);
    if (!call)
        return NULL;
    call->content_type = "text/plain; version=0.0.4; charset=utf-8";
    buf_add_text(&call->body, "");
    metrics_write(run_metrics(context->runtime), &call->body);
    return call;
}

api_call *server_version(const api_context *context)
{
    (void)context;
    return call_text(200, "{\"version\":\"" PAWL_VERSION "\"}");
}
