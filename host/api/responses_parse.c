/*
 * api/responses_parse.c - a Responses request as a whole. See parse.h.
 *
 * The echo is made here: everything that the Response object repeats of its request,
 * under the keys of that object. It is stored with the response, so that a response
 * read back later says what the live one said.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/fields.h"

#define MAX_METADATA 16
#define MAX_METADATA_KEY 64
#define MAX_METADATA_VALUE 512
#define MAX_USER_TEXT 512 /* prompt_cache_key and the like */

bool echo_add(parse_state *state, const char *name, cJSON *value)
{
    cJSON_DeleteItemFromObjectCaseSensitive(state->request->echo, name);
    return field_add(state->request->echo, name, value) || api_refuse_memory(state->error);
}

bool echo_text(parse_state *state, const char *name, const char *text)
{
    return echo_add(state, name, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

bool echo_number(parse_state *state, const char *name, double number)
{
    return echo_add(state, name, cJSON_CreateNumber(number));
}

bool parse_refuse_model(const parse_env *env, const char *name, api_error *error)
{
    char known[300] = "";
    size_t used = 0;
    const char *each;
    for (size_t i = 0; used < sizeof known - 1 && (each = env->model_name(env->context, i)); i++) {
        int n = snprintf(known + used, sizeof known - used, "%s'%s'", i ? ", " : "", each);
        used += n > 0 ? (size_t)n : 0;
    }
    return api_refuse(error, 404, "model_not_found", "model",
                      "The model '%.100s' does not exist. There is: %s.", name,
                      *known ? known : "none");
}

bool parse_model(parse_state *s)
{
    const char *name = NULL;
    if (!field_text(s->body, "", "model", SIZE_MAX, &name, s->error))
        return false;
    if (!name)
        return field_missing("", "model", s->error);
    s->request->model = s->env->find_model(s->env->context, name);
    if (!s->request->model)
        return parse_refuse_model(s->env, name, s->error);
    return echo_text(s, "model", name);
}

/* What is documented, means something, and is not there. */
static bool refuse_unsupported(parse_state *s)
{
    if (json_get(s->body, "prompt"))
        return api_refuse(s->error, 400, "unsupported_parameter", "prompt",
                          "Prompt templates are not supported here; give 'instructions' and "
                          "'input' instead.");
    return true;
}

static bool parse_parent(parse_state *s)
{
    static const char name[] = "previous_response_id";
    const parse_env *env = s->env;
    const char *id = NULL;
    if (!field_text(s->body, "", name, PARSE_MAX_ID, &id, s->error))
        return false;
    if (!id)
        return true;
    run_record *parent = env->parent && strcmp(env->parent->id, id) == 0
                             ? run_record_retain(env->parent)
                             : env->find_record(env->context, id, false);
    if (!parent)
        return api_refuse(s->error, 400, "previous_response_not_found", name,
                          "Previous response with id '%s' not found.", id);
    s->request->parent = parent;
    if (!run_record_can_continue(parent))
        return api_refuse(s->error, 400, "previous_response_not_found", name,
                          "Previous response with id '%s' cannot be continued: it is %s. Continue "
                          "from a completed or incomplete one.",
                          id, parent->status);
    return echo_text(s, name, id);
}

/* ------------------------------------------------------------ conversation -- */

bool conversation_refuse(enum run_conversation_answer answer, const char *id, const char *param,
                         api_error *error)
{
    if (answer == RUN_CONVERSATION_UNKNOWN)
        return api_refuse(error, 404, NULL, param, "Conversation with id '%.100s' not found.", id);
    if (answer != RUN_CONVERSATION_HELD)
        return api_refuse(error, 500, "server_error", param,
                          "The conversation '%.100s' could not be read.", id);
    api_refuse(error, 409, "conversation_locked", param,
               "Another request is working on the conversation '%.100s'. Retry in a few seconds.",
               id);
    error->retry_after = 1;
    return false;
}

/* The id, from "conv_…" or {"id": "conv_…"}. False: refused. */
static bool parse_conversation_id(parse_state *s, const char **id)
{
    static const char name[] = "conversation";
    const cJSON *given = json_get(s->body, name);
    if (!given || cJSON_IsString(given))
        return field_text(s->body, "", name, PARSE_MAX_ID, id, s->error);
    if (!cJSON_IsObject(given))
        return field_wrong_type(name, given, "an id or an object with one", s->error);
    if (!field_text(given, name, "id", PARSE_MAX_ID, id, s->error))
        return false;
    return *id || field_missing(name, "id", s->error);
}

static bool parse_conversation(parse_state *s)
{
    const parse_env *env = s->env;
    const char *id = NULL;
    run_conversation *c = NULL;
    if (!parse_conversation_id(s, &id))
        return false;
    if (!id)
        return true;
    if (s->request->parent)
        return api_refuse(s->error, 400, "invalid_value", "conversation",
                          "'conversation' and 'previous_response_id' exclude each other; give one "
                          "of them.");
    if (!s->request->store)
        return api_refuse(s->error, 400, "invalid_value", "store",
                          "What is said in a conversation is stored; leave 'store' out, or give "
                          "the items as 'input' without 'conversation'.");
    enum run_conversation_answer answer =
        env->find_conversation ? env->find_conversation(env->context, id, !env->looks_only, &c)
                               : RUN_CONVERSATION_UNKNOWN;
    if (answer != RUN_CONVERSATION_FOUND)
        return conversation_refuse(answer, id, "conversation", s->error);
    if (!run_conversation_attach(c, s->request))
        return api_refuse_memory(s->error);
    if (c->head && !run_record_can_continue(c->head))
        return api_refuse(s->error, 400, "invalid_value", "conversation",
                          "The conversation cannot be continued: its latest response is %s.",
                          c->head->status);
    cJSON *echo = cJSON_CreateObject();
    if (!echo || !cJSON_AddStringToObject(echo, "id", id)) {
        cJSON_Delete(echo);
        return api_refuse_memory(s->error);
    }
    return echo_add(s, "conversation", echo);
}

/* A string, or, as prompt templates have it, messages whose texts are joined. */
static bool parse_instructions(parse_state *s)
{
    const char *text = NULL;
    const cJSON *value = json_get(s->body, "instructions");
    if (cJSON_IsArray(value))
        return api_refuse(s->error, 400, "unsupported_value", "instructions",
                          "'instructions' must be a string here; give a list of messages as "
                          "'input'.");
    if (!field_text(s->body, "", "instructions", SIZE_MAX, &text, s->error))
        return false;
    if (!text)
        return true;
    s->request->instructions = strdup(text);
    if (!s->request->instructions)
        return api_refuse_memory(s->error);
    return echo_text(s, "instructions", text);
}

bool metadata_parse(parse_state *s)
{
    const cJSON *metadata = NULL;
    const cJSON *each;
    if (!field_object(s->body, "", "metadata", &metadata, s->error))
        return false;
    if (!metadata)
        return echo_add(s, "metadata", cJSON_CreateObject());
    if (cJSON_GetArraySize(metadata) > MAX_METADATA)
        return api_refuse(s->error, 400, "invalid_value", "metadata",
                          "'metadata' has %d pairs and may have %d.", cJSON_GetArraySize(metadata),
                          MAX_METADATA);
    cJSON_ArrayForEach(each, metadata)
    {
        char path[API_PARAM_SIZE];
        api_path(path, "metadata", each->string);
        if (field_characters(each->string) > MAX_METADATA_KEY)
            return api_refuse(
                s->error, 400, "invalid_value", "metadata",
                "The key '%.80s' of 'metadata' is too long: %d characters are allowed.",
                each->string, MAX_METADATA_KEY);
        if (!cJSON_IsString(each))
            return field_wrong_type(path, each, "a string", s->error);
        if (field_characters(each->valuestring) > MAX_METADATA_VALUE)
            return api_refuse(s->error, 400, "invalid_value", path,
                              "'%s' is too long: %d characters are allowed.", path,
                              MAX_METADATA_VALUE);
    }
    return echo_add(s, "metadata", cJSON_Duplicate(metadata, true));
}

static bool parse_echoed_texts(parse_state *s)
{
    static const char *const names[] = {"prompt_cache_key", "safety_identifier", "user"};
    const char *tier = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = NULL;
        if (!field_text(s->body, "", names[i], MAX_USER_TEXT, &text, s->error) ||
            !echo_text(s, names[i], text))
            return false;
    }
    /* Whatever is asked for: there is one tier. */
    return field_text(s->body, "", "service_tier", MAX_USER_TEXT, &tier, s->error) &&
           echo_text(s, "service_tier", "default");
}

static bool parse_switches(parse_state *s)
{
    run_request *request = s->request;
    const cJSON *options = NULL;
    const char *truncation = "disabled";
    bool stream = false;
    bool prewarm = false;
    if (!field_bool(s->body, "", "store", &request->store, s->error) ||
        !field_bool(s->body, "", "stream", &stream, s->error) ||
        !field_object(s->body, "", "stream_options", &options, s->error) ||
        !field_bool(s->body, "", "generate", &request->generate, s->error) ||
        !field_object(s->body, "", "prompt_cache_options", &options, s->error) ||
        !field_bool(json_get(s->body, "prompt_cache_options"), "prompt_cache_options", "prewarm",
                    &prewarm, s->error) ||
        !field_word(s->body, "", "truncation", "auto disabled", &truncation, s->error))
        return false;
    if (prewarm)
        request->generate = false;
    request->truncate = strcmp(truncation, "auto") == 0;
    return echo_add(s, "store", cJSON_CreateBool(request->store)) &&
           echo_text(s, "truncation", truncation);
}

run_request *parse_new_request(const parse_env *env)
{
    run_request *request = run_request_new(env->clock);
    if (request && env->caller)
        request->caller = *env->caller;
    if (request && env->key) {
        request->key = strdup(env->key);
        snprintf(request->key_hash, sizeof request->key_hash, "%s", env->key_hash);
        if (!request->key) {
            run_request_free(request);
            return NULL;
        }
    }
    return request;
}

run_request *responses_parse(const cJSON *body, const parse_env *env, api_error *error)
{
    run_request *request = parse_new_request(env);
    parse_state state = {.body = body, .env = env, .request = request, .error = error};
    if (request)
        request->echo = cJSON_CreateObject();
    if (!request || !request->echo) {
        run_request_free(request);
        api_refuse_memory(error);
        return NULL;
    }
    if (refuse_unsupported(&state) && parse_model(&state) && parse_instructions(&state) &&
        metadata_parse(&state) && parse_echoed_texts(&state) && parse_switches(&state) &&
        background_parse(&state) && params_parse(&state) && tools_parse(&state) &&
        parse_parent(&state) && parse_conversation(&state) && items_parse(&state))
        return request;
    run_request_free(request);
    return NULL;
}
