/*
 * api/chat_parse.c - a Chat Completions request as a whole. See parse.h.
 *
 * Clients of this dialect send vendor keys freely and null for what they do not set, so
 * unknown keys are ignored and null is absent. Refused is what would silently change the
 * answer. An answer repeats nothing of its request: the echo stays unused.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <string.h>

#include "api/fields.h"

static bool refuse_unsupported(parse_state *s)
{
    const cJSON *modalities = NULL;
    const cJSON *each;
    size_t i = 0;
    if (json_get(s->body, "functions") || json_get(s->body, "function_call")) {
        const char *name = json_get(s->body, "functions") ? "functions" : "function_call";
        return api_refuse(s->error, 400, "unsupported_parameter", name,
                          "'%s' is not supported here; use 'tools' and 'tool_choice'.", name);
    }
    if (!field_array(s->body, "", "modalities", 8, &modalities, s->error))
        return false;
    cJSON_ArrayForEach(each, modalities)
    {
        char path[API_PARAM_SIZE];
        api_path_at(path, "modalities", i++);
        if (!cJSON_IsString(each))
            return field_wrong_type(path, each, "a string", s->error);
        if (strcmp(each->valuestring, "text") != 0)
            return api_refuse(s->error, 400, "unsupported_value", path,
                              "This model answers with text only, not with '%.40s'.",
                              each->valuestring);
    }
    return true;
}

/* max_completion_tokens is the newer name and wins. */
static bool parse_limits(parse_state *s)
{
    int64_t max = 0;
    int64_t min = 0;
    if (!field_integer(s->body, "", "max_tokens", 1, FIELD_MAX_INTEGER, &max, s->error) ||
        !field_integer(s->body, "", "max_completion_tokens", 1, FIELD_MAX_INTEGER, &max,
                       s->error) ||
        !field_integer(s->body, "", "min_tokens", 0, FIELD_MAX_INTEGER, &min, s->error) ||
        !field_bool(s->body, "", "ignore_eos", &s->request->ignore_eos, s->error))
        return false;
    if (max && min > max)
        return api_refuse(s->error, 400, "invalid_value", "min_tokens",
                          "'min_tokens' may not be more than the limit of tokens.");
    s->request->max_tokens = (uint64_t)max;
    s->request->min_tokens = (uint64_t)min;
    return true;
}

static bool parse_logprobs(parse_state *s)
{
    int64_t top = 0;
    if (!field_bool(s->body, "", "logprobs", &s->request->logprobs, s->error) ||
        !field_integer(s->body, "", "top_logprobs", 0, RUN_MAX_TOP_LOGPROBS, &top, s->error))
        return false;
    if (top && !s->request->logprobs)
        return api_refuse(s->error, 400, "invalid_value", "top_logprobs",
                          "'top_logprobs' needs \"logprobs\": true.");
    s->request->top_logprobs = (uint32_t)top;
    return true;
}

/* The names under which clients of different servers ask for thoughts or for none. */
static bool parse_reasoning(parse_state *s)
{
    const char *effort = NULL;
    const char *type = NULL;
    bool on = false;
    const cJSON *thinking = json_get(s->body, "thinking");
    if (!field_word(s->body, "", "reasoning_effort", PARSE_EFFORTS, &effort, s->error) ||
        (effort && !params_effort(s, effort)) ||
        !field_bool(s->body, "", "enable_thinking", &on, s->error))
        return false;
    if (json_get(s->body, "enable_thinking"))
        s->request->thinking = on;
    if (cJSON_IsBool(thinking)) {
        s->request->thinking = cJSON_IsTrue(thinking);
    } else if (thinking) {
        if (!field_object(s->body, "", "thinking", &thinking, s->error) ||
            !field_word(thinking, "thinking", "type", "enabled disabled auto adaptive", &type,
                        s->error))
            return false;
        if (type && strcmp(type, "disabled") == 0)
            s->request->thinking = 0;
        else if (type && strcmp(type, "enabled") == 0)
            s->request->thinking = 1;
    }
    return params_template_kwargs(s);
}

/* A schema stands in json_schema.schema or, as Dify sends what its user wrote, bare in
 * json_schema. */
static bool check_schema(parse_state *s, const cJSON *format)
{
    static const char prefix[] = "response_format.json_schema";
    const cJSON *given = NULL;
    const cJSON *schema = NULL;
    const char *name = NULL;
    if (!field_object(format, "response_format", "json_schema", &given, s->error))
        return false;
    if (!given)
        return field_missing("response_format", "json_schema", s->error);
    if (!json_get(given, "schema"))
        return true;
    return field_object(given, prefix, "schema", &schema, s->error) &&
           field_text(given, prefix, "name", SIZE_MAX, &name, s->error);
}

static bool parse_format(parse_state *s)
{
    const cJSON *format = NULL;
    const char *type = NULL;
    if (!field_object(s->body, "", "response_format", &format, s->error))
        return false;
    if (!format)
        return true;
    if (!field_word(format, "response_format", "type", "text json_object json_schema", &type,
                    s->error))
        return false;
    if (!type)
        return field_missing("response_format", "type", s->error);
    if (strcmp(type, "text") == 0)
        return true;
    if (strcmp(type, "json_schema") == 0 && !check_schema(s, format))
        return false;
    return api_refuse(s->error, 400, "unsupported_value", "response_format.type",
                      "The format '%s' is not supported here: no grammar constrains the reply. Use "
                      "{\"type\":\"text\"} and say in a message what the reply must look like.",
                      type);
}

run_request *chat_parse(const cJSON *body, const parse_env *env, parse_choices *choices,
                        api_error *error)
{
    run_request *request = parse_new_request(env);
    parse_state state = {
        .body = body, .env = env, .request = request, .error = error, .nested = true};
    *choices = (parse_choices){.n = 1};
    if (request)
        request->echo = cJSON_CreateObject();
    if (!request || !request->echo) {
        run_request_free(request);
        api_refuse_memory(error);
        return NULL;
    }
    if (parse_model(&state) && refuse_unsupported(&state) && choices_parse(&state, choices) &&
        params_sampling(&state) && params_stop(&state) && params_cache_salt(&state) &&
        parse_limits(&state) && parse_logprobs(&state) && parse_reasoning(&state) &&
        parse_format(&state) && tools_parse(&state) && messages_parse(&state) && keep_parse(&state))
        return request;
    run_request_free(request);
    return NULL;
}
