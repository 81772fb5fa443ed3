/*
 * api/params_parse.c - how a reply is to be made: sampling, limits, reasoning, format.
 *
 * Beside the parameters that OpenAI documents stand those that clients of other local
 * servers send at the top level: top_k, min_p, penalties, seed, stop, min_tokens,
 * ignore_eos, cache_salt, chat_template_kwargs. priority is ours: which class a turn is
 * served in. Pure; runs where parsing runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/fields.h"

static bool float_param(parse_state *s, const char *name, double min, double max, float *out)
{
    double value = *out;
    if (!field_number(s->body, "", name, min, max, &value, s->error))
        return false;
    *out = (float)value;
    return true;
}

/* temperature and top_p are echoed as they were written, not as a float holds them. */
static bool echoed_param(parse_state *s, const char *name, double max, float *out)
{
    double value = 1.0;
    if (!field_number(s->body, "", name, 0.0, max, &value, s->error))
        return false;
    *out = (float)value;
    return echo_number(s, name, value);
}

bool params_sampling(parse_state *s)
{
    pawl_sampling *sampling = &s->request->sampling;
    int64_t top_k = 0;
    int64_t seed = 0;
    bool seeded = json_get(s->body, "seed") != NULL;
    if (!echoed_param(s, "temperature", 2.0, &sampling->temperature) ||
        !echoed_param(s, "top_p", 1.0, &sampling->top_p) ||
        !float_param(s, "min_p", 0.0, 1.0, &sampling->min_p) ||
        !float_param(s, "repetition_penalty", 0.01, 10.0, &sampling->repetition_penalty) ||
        !float_param(s, "presence_penalty", -2.0, 2.0, &sampling->presence_penalty) ||
        !float_param(s, "frequency_penalty", -2.0, 2.0, &sampling->frequency_penalty) ||
        !field_integer(s->body, "", "top_k", -1, INT32_MAX, &top_k, s->error) ||
        !field_integer(s->body, "", "seed", -FIELD_MAX_INTEGER, FIELD_MAX_INTEGER, &seed, s->error))
        return false;
    sampling->top_k = top_k > 0 ? (uint32_t)top_k : 0; /* -1 and 0: all tokens */
    if (seeded)
        sampling->seed = (uint64_t)seed;
    return true;
}

static bool add_stop(parse_state *s, const cJSON *value, const char *path)
{
    run_request *request = s->request;
    if (!cJSON_IsString(value))
        return field_wrong_type(path, value, "a string", s->error);
    size_t size = strlen(value->valuestring);
    if (size == 0 || size > RUN_MAX_STOP_BYTES)
        return api_refuse(s->error, 400, "invalid_value", path,
                          "'%s' has %zu bytes; a stop string has from 1 to %d.", path, size,
                          RUN_MAX_STOP_BYTES);
    char *copy = strdup(value->valuestring);
    if (!copy)
        return api_refuse_memory(s->error);
    request->stop[request->n_stop++] = copy;
    return true;
}

bool params_stop(parse_state *s)
{
    const cJSON *stop = json_get(s->body, "stop");
    const cJSON *each;
    size_t i = 0;
    if (!stop)
        return true;
    if (cJSON_IsString(stop))
        return add_stop(s, stop, "stop");
    if (!cJSON_IsArray(stop))
        return field_wrong_type("stop", stop, "a string or an array of strings", s->error);
    if (!field_array(s->body, "", "stop", RUN_MAX_STOP, &stop, s->error))
        return false;
    cJSON_ArrayForEach(each, stop)
    {
        char path[API_PARAM_SIZE];
        api_path_at(path, "stop", i++);
        if (!add_stop(s, each, path))
            return false;
    }
    return true;
}

/* Any text will do: it is hashed and compared, and never shown. */
bool params_cache_salt(parse_state *s)
{
    const char *salt = NULL;
    if (!field_text(s->body, "", "cache_salt", RUN_MAX_SALT, &salt, s->error))
        return false;
    if (salt && !salt[0])
        return api_refuse(s->error, 400, "invalid_value", "cache_salt",
                          "'cache_salt' is empty; leave it out, or give it from 1 to %d bytes.",
                          RUN_MAX_SALT);
    snprintf(s->request->cache_salt, sizeof s->request->cache_salt, "%s", salt ? salt : "");
    return true;
}

bool params_priority(parse_state *s)
{
    const char *priority = "interactive";
    if (!field_word(s->body, "", "priority", "interactive batch", &priority, s->error))
        return false;
    s->request->priority = strcmp(priority, "batch") == 0 ? RUN_BATCH : RUN_INTERACTIVE;
    return true;
}

static bool parse_limits(parse_state *s)
{
    int64_t max_output = 0;
    int64_t max_calls = 0;
    int64_t min_tokens = 0;
    if (!field_integer(s->body, "", "max_output_tokens", 1, FIELD_MAX_INTEGER, &max_output,
                       s->error) ||
        !field_integer(s->body, "", "max_tool_calls", 1, FIELD_MAX_INTEGER, &max_calls, s->error) ||
        !field_integer(s->body, "", "min_tokens", 0, FIELD_MAX_INTEGER, &min_tokens, s->error) ||
        !field_bool(s->body, "", "ignore_eos", &s->request->ignore_eos, s->error))
        return false;
    if (max_output && min_tokens > max_output)
        return api_refuse(s->error, 400, "invalid_value", "min_tokens",
                          "'min_tokens' may not be more than 'max_output_tokens'.");
    s->request->max_tokens = (uint64_t)max_output;
    s->request->min_tokens = (uint64_t)min_tokens;
    return (!max_output || echo_number(s, "max_output_tokens", (double)max_output)) &&
           (!max_calls || echo_number(s, "max_tool_calls", (double)max_calls));
}

static bool parse_logprobs(parse_state *s)
{
    const cJSON *include = NULL;
    const cJSON *each;
    int64_t top = 0;
    size_t i = 0;
    if (!field_integer(s->body, "", "top_logprobs", 0, RUN_MAX_TOP_LOGPROBS, &top, s->error) ||
        !field_array(s->body, "", "include", 64, &include, s->error))
        return false;
    cJSON_ArrayForEach(each, include)
    {
        char path[API_PARAM_SIZE];
        api_path_at(path, "include", i++);
        if (!cJSON_IsString(each))
            return field_wrong_type(path, each, "a string", s->error);
        if (strcmp(each->valuestring, "message.output_text.logprobs") == 0)
            s->request->logprobs = true;
    }
    s->request->top_logprobs = s->request->logprobs ? (uint32_t)top : 0;
    return echo_number(s, "top_logprobs", (double)top);
}

bool params_effort(parse_state *s, const char *effort)
{
    free(s->request->reasoning_effort);
    s->request->reasoning_effort = NULL;
    s->request->thinking = strcmp(effort, "none") != 0;
    if (!s->request->thinking)
        return true;
    s->request->reasoning_effort = strdup(effort);
    return s->request->reasoning_effort || api_refuse_memory(s->error);
}

/* Two names are in use for the same switch; what else a template knows is left alone. */
bool params_template_kwargs(parse_state *s)
{
    static const char prefix[] = "chat_template_kwargs";
    const cJSON *kwargs = NULL;
    const char *effort = NULL;
    bool on = false;
    if (!field_object(s->body, "", prefix, &kwargs, s->error))
        return false;
    if (!kwargs)
        return true;
    if (!field_word(kwargs, prefix, "reasoning_effort", PARSE_EFFORTS, &effort, s->error) ||
        (effort && !params_effort(s, effort)))
        return false;
    const char *name = json_get(kwargs, "enable_thinking") ? "enable_thinking" : "thinking";
    if (!field_bool(kwargs, prefix, name, &on, s->error))
        return false;
    if (json_get(kwargs, name))
        s->request->thinking = on;
    return true;
}

static bool parse_reasoning(parse_state *s)
{
    const cJSON *reasoning = NULL;
    const char *effort = NULL;
    const char *summary = NULL;
    if (!field_object(s->body, "", "reasoning", &reasoning, s->error) ||
        !field_word(reasoning, "reasoning", "effort", PARSE_EFFORTS, &effort, s->error) ||
        !field_word(reasoning, "reasoning", "generate_summary", "auto concise detailed", &summary,
                    s->error) ||
        !field_word(reasoning, "reasoning", "summary", "auto concise detailed", &summary, s->error))
        return false;
    if (effort && !params_effort(s, effort))
        return false;
    cJSON *echo = cJSON_CreateObject();
    if (!echo_add(s, "reasoning", echo))
        return false;
    bool added =
        field_add(echo, "effort", effort ? cJSON_CreateString(effort) : cJSON_CreateNull()) &&
        field_add(echo, "summary", summary ? cJSON_CreateString(summary) : cJSON_CreateNull());
    return added ? params_template_kwargs(s) : api_refuse_memory(s->error);
}

static bool parse_text(parse_state *s)
{
    const cJSON *text = NULL;
    const cJSON *format = NULL;
    const char *type = "text";
    const char *verbosity = "medium";
    if (!field_object(s->body, "", "text", &text, s->error) ||
        !field_word(text, "text", "verbosity", "low medium high", &verbosity, s->error) ||
        !field_object(text, "text", "format", &format, s->error))
        return false;
    if (format && !json_get(format, "type"))
        return field_missing("text.format", "type", s->error);
    if (!field_word(format, "text.format", "type", "text json_object json_schema", &type, s->error))
        return false;
    if (strcmp(type, "text") != 0)
        return api_refuse(s->error, 400, "unsupported_value", "text.format.type",
                          "The format '%s' is not supported here: no grammar constrains the reply. "
                          "Use {\"type\":\"text\"} and say in the instructions what the reply must "
                          "look like.",
                          type);
    cJSON *echo = cJSON_CreateObject();
    if (!echo_add(s, "text", echo))
        return false;
    cJSON *echo_format = cJSON_AddObjectToObject(echo, "format");
    bool added = echo_format && cJSON_AddStringToObject(echo_format, "type", type) &&
                 cJSON_AddStringToObject(echo, "verbosity", verbosity);
    return added || api_refuse_memory(s->error);
}

bool params_parse(parse_state *state)
{
    return params_sampling(state) && params_stop(state) && params_cache_salt(state) &&
           params_priority(state) && parse_limits(state) && parse_logprobs(state) &&
           parse_reasoning(state) && parse_text(state);
}
