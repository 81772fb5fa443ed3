/*
 * tests/fuzz/request_fuzz.c - any bytes as a Responses request and as a socket frame.
 *
 * A request is accepted whole, with items that have type and id and an echo that makes
 * a Response object, or refused with a status, a code and a message whose error body and
 * frame are JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/handlers.h"
#include "api/responses_object.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static run_model *find_model(void *context, const char *name)
{
    return strcmp(name, "tiny") == 0 ? context : NULL;
}

static const char *model_name(void *context, size_t i)
{
    (void)context;
    return i == 0 ? "tiny" : NULL;
}

/* Every "r…" exists and is its own parent, so that walking up must end by itself. */
static run_record *find_record(void *context, const char *id, bool with_removed)
{
    (void)context;
    (void)with_removed;
    run_record *record = id[0] == 'r' ? run_record_new() : NULL;
    if (!record)
        return NULL;
    record->id = strdup(id);
    record->parent_id = strdup(id);
    record->status = id[1] == 'f' ? "failed" : "completed";
    record->input =
        strdup("[{\"type\":\"message\",\"id\":\"m\",\"role\":\"user\",\"content\":[]}]");
    record->output = strdup("[]");
    return record;
}

static bool has_call(void *context, run_record *from, const char *call_id)
{
    (void)context;
    (void)from;
    return call_id[0] == 'c';
}

/* "b…" is held by somebody, every "c…" exists; "cf…" has a head that failed. */
static enum run_conversation_answer find_conversation(void *context, const char *id, bool hold,
                                                      run_conversation **out)
{
    (void)hold;
    if (id[0] != 'c')
        return id[0] == 'b' ? RUN_CONVERSATION_HELD : RUN_CONVERSATION_UNKNOWN;
    run_conversation *c = calloc(1, sizeof *c);
    if (!c)
        return RUN_CONVERSATION_FAILED;
    c->id = strdup(id);
    c->tail = cJSON_Parse("[{\"type\":\"function_call\",\"id\":\"t\",\"call_id\":\"k\"}]");
    if (id[1])
        c->head = find_record(context, id[1] == 'f' ? "rf" : "r", true);
    *out = c;
    return RUN_CONVERSATION_FOUND;
}

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_json(char *text)
{
    cJSON *value = NULL;
    must(text && json_parse(text, strlen(text), &value, NULL) == PAWL_OK);
    cJSON_Delete(value);
    free(text);
}

static void check_error(const api_error *error)
{
    must(error->status >= 400 && error->status < 600 && error->type);
    must((error->status == 404 || (error->code && *error->code)) && *error->message);
    check_json(api_error_text(error));
    check_json(api_error_frame_text(error, "lane"));
}

static void check_request(const run_request *request)
{
    buf text;
    const cJSON *item;
    responses_view view = {.id = request->id, .status = "in_progress", .echo = request->echo};
    must(request->model && cJSON_IsArray(request->items));
    cJSON_ArrayForEach(item, request->items)
    {
        must(json_get_text(item, "type") && json_get_text(item, "id"));
    }
    buf_init(&text, 1 << 26);
    must(responses_object_add(&text, &view));
    check_json(buf_take(&text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const parse_env table = {.find_model = find_model,
                                    .model_name = model_name,
                                    .find_record = find_record,
                                    .has_call = has_call,
                                    .find_conversation = find_conversation};
    run_model model = {.name = NULL};
    parse_env env = table;
    api_error error;
    env.clock = clock_system();
    env.context = &model;
    cJSON *body = handlers_body((const char *)data, size, &error);
    run_request *request = body ? responses_parse(body, &env, &error) : NULL;
    if (request)
        check_request(request);
    else
        check_error(&error);
    run_request_free(request);
    cJSON_Delete(body);

    api_frame *frame = api_frame_parse(NULL, (const char *)data, size);
    must(frame != NULL);
    if (api_frame_type(frame) == API_FRAME_REFUSED)
        check_json(api_frame_error(frame));
    api_frame_free(frame);
    return 0;
}
