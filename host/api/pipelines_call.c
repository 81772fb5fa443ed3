/*
 * api/pipelines_call.c - pipelines and their runs, over HTTP.
 *
 *   GET  /pipelines                    POST /pipelines/{name}/runs   {"params":{…}}
 *   GET  /runs   /runs/{id}            GET  /runs/{id}/events?after=N&limit=N&stream=true
 *   POST /runs/{id}/cancel             POST /runs/{id}/answer        {"answer":…}
 *
 * What is asked goes to whoever runs pipelines (run/pipelines.h), and the answer comes as
 * events like that of a turn. A stream is the stored events after a number and then those
 * that come, each with its own; it ends when the run stops. A client that goes leaves the
 * run alone.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "api/handlers.h"

#define LIST_DEFAULT 1000
#define NUMBER_SIZE 24

typedef struct pipelines_state {
    const run_pipelines *pipelines;
    run_follower *follower; /* of a stream, a reference */
} pipelines_state;

/* ------------------------------------------------------------------ answers -- */

static void refuse_how(api_error *error, const char *how, const char *why)
{
    static const struct {
        const char *how;
        int status;
        const char *code;
    } kinds[] = {{RUN_ANSWER_INVALID, 400, "invalid_value"},
                 {RUN_ANSWER_CONFLICT, 409, "conflict"},
                 {RUN_ANSWER_UNKNOWN, 404, NULL},
                 {RUN_ANSWER_BUSY, 503, "server_is_overloaded"}};
    const char *message = why ? why : "The server failed.";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(how, kinds[i].how) == 0) {
            api_refuse(error, kinds[i].status, kinds[i].code, NULL, "%s", message);
            return;
        }
    api_refuse(error, 500, "server_error", NULL, "%s", message);
}

static void on_event(api_call *call, void *state, run_event *event, api_emit emit, void *arg)
{
    api_error error;
    (void)state;
    if (event->type == RUN_DELTA && emit && event->text)
        emit(arg, event->name, event->text, strlen(event->text));
    if (event->type != RUN_END)
        return;
    if (strcmp(event->stop_reason, RUN_ANSWER_OK) == 0) {
        buf_add_text(&call->body, event->text ? event->text : "");
        return;
    }
    refuse_how(&error, event->stop_reason, event->text);
    if (!emit) {
        call_set_error(call, &error);
        return;
    }
    char *text = api_error_text(&error);
    if (text)
        emit(arg, "error", text, strlen(text));
    free(text);
}

static void close_state(void *state)
{
    pipelines_state *s = state;
    s->pipelines->release(s->follower);
    free(s);
}

static void cancel(void *state)
{
    pipelines_state *s = state;
    if (s->follower)
        s->pipelines->unfollow(s->follower);
}

static const call_dialect dialect = {on_event, close_state, cancel};

/* ---------------------------------------------------------------- questions -- */

/* A whole number of the query. False: it is none. */
static bool read_number(const api_context *context, const char *name, uint64_t most,
                        uint64_t *value, api_error *error)
{
    char text[NUMBER_SIZE], *end;
    if (!route_query(context->request->query, name, text, sizeof text))
        return true;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || *end || text[0] == '-' || number > most)
        return api_refuse(error, 400, "invalid_value", name,
                          "Invalid value for '%s': a whole number from 0 is expected.", name);
    *value = number;
    return true;
}

/* The member of the body that is handed on, as JSON; to be free()d. */
static bool read_body(const api_context *context, const char *member, bool needed, char **json,
                      api_error *error)
{
    const api_http_request *request = context->request;
    if (!needed && request->body_size == 0)
        return true;
    cJSON *body = handlers_body(request->body, request->body_size, error);
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(body, member), *other;
    if (!body)
        return false;
    bool good = true;
    cJSON_ArrayForEach(other, body) if (strcmp(other->string, member) != 0) good =
        api_refuse(error, 400, "unknown_parameter", other->string,
                   "Unknown parameter: '%.80s'; known is '%s'.", other->string, member);
    if (good && needed && !value)
        good = api_refuse(error, 400, "missing_required_parameter", member,
                          "Missing required parameter: '%s'.", member);
    if (good && value && !(*json = json_print(value)))
        good = api_refuse_memory(error);
    cJSON_Delete(body);
    return good;
}

static bool wants_stream(const api_context *context)
{
    char text[8];
    return route_query(context->request->query, "stream", text, sizeof text) &&
           strcmp(text, "true") == 0;
}

/* Fills the question but for who asks; body: what it may own. */
static bool read_question(const api_context *context, enum route_name route, run_question *q,
                          char **body, api_error *error)
{
    static const struct {
        enum route_name route;
        enum run_question_kind kind;
    } kinds[] = {{ROUTE_PIPELINES, RUN_ASK_PIPELINES}, {ROUTE_PIPELINE_START, RUN_ASK_START},
                 {ROUTE_RUNS, RUN_ASK_RUNS},           {ROUTE_RUN, RUN_ASK_RUN},
                 {ROUTE_RUN_EVENTS, RUN_ASK_EVENTS},   {ROUTE_RUN_CANCEL, RUN_ASK_CANCEL},
                 {ROUTE_RUN_ANSWER, RUN_ASK_ANSWER}};
    uint64_t limit = LIST_DEFAULT;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].route == route)
            q->kind = kinds[i].kind;
    q->name = context->id;
    if (q->kind == RUN_ASK_START && !read_body(context, "params", false, body, error))
        return false;
    if (q->kind == RUN_ASK_ANSWER && !read_body(context, "answer", true, body, error))
        return false;
    if (!read_number(context, "after", INT64_MAX, &q->after, error) ||
        !read_number(context, "limit", LIST_DEFAULT, &limit, error))
        return false;
    q->limit = limit ? (size_t)limit : 1;
    q->body = *body;
    if (q->kind == RUN_ASK_EVENTS && wants_stream(context))
        q->kind = RUN_ASK_FOLLOW;
    return true;
}

/* A stream of a run that is not there would begin with 200. */
static bool is_there(const api_context *context)
{
    store *kept = run_store(context->runtime);
    store_run *run = NULL;
    bool own = kept->run_get(kept, context->id, &run, NULL) == PAWL_OK &&
               strcmp(run->tenant, context->caller.tenant) == 0;
    free(run);
    return own;
}

api_call *pipelines_ask(const api_context *context, enum route_name route)
{
    const run_pipelines *pipelines = context->request->pipelines;
    run_question question = {.caller = context->caller};
    api_error error;
    char *body = NULL;
    if (!pipelines) {
        api_refuse(&error, 404, "no_pipelines", NULL,
                   "This server has no pipelines; it is started with --pipelines DIR.");
        return call_refused(&error);
    }
    if (!read_question(context, route, &question, &body, &error)) {
        free(body);
        return call_refused(&error);
    }
    if (question.kind == RUN_ASK_FOLLOW && !is_there(context)) {
        free(body);
        api_refuse(&error, 404, NULL, NULL, "There is no run '%.60s'.", context->id);
        return call_refused(&error);
    }
    pipelines_state *state = calloc(1, sizeof *state);
    enum api_call_kind kind = question.kind == RUN_ASK_FOLLOW ? API_STREAM : API_FOLD;
    if (state)
        state->pipelines = pipelines;
    api_call *call = state ? call_running(kind, &dialect, state) : NULL;
    if (call && !pipelines->ask(pipelines->arg, &question, context->listener, &state->follower)) {
        api_call_free(call);
        call = NULL;
    }
    free(body);
    if (call)
        return call;
    api_refuse_memory(&error);
    return call_refused(&error);
}
