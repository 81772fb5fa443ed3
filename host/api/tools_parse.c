/*
 * api/tools_parse.c - tools and tool_choice.
 *
 * The Responses dialect has a tool flat, {"type":"function","name",…}; Chat Completions,
 * run and the chat templates have it nested, {"type":"function","function":{"name",…}}.
 * The echo keeps all tools; what run gets is narrowed by allowed_tools.
 *
 * What would force a call (required, a named function, allowed_tools with mode
 * required) needs a grammar over the reply; as long as there is none it is refused,
 * because a reply without the forced call would be a lie. Pure; runs where parsing runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <string.h>

#include "api/fields.h"

#define FORCED                                                                                     \
    "is not supported here: no grammar constrains the reply. Use \"auto\" or \"none\", or "        \
    "{\"type\":\"allowed_tools\",\"mode\":\"auto\",…}."

static bool name_is_valid(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && size <= PARSE_MAX_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
               size;
}

static const cJSON *tool_named(const cJSON *tools, const char *name)
{
    const cJSON *each;
    cJSON_ArrayForEach(each, tools)
    {
        const char *other = json_get_text(json_get(each, "function"), "name");
        if (other && strcmp(other, name) == 0)
            return each;
    }
    return NULL;
}

static bool parse_type(const cJSON *tool, const char *path, api_error *error)
{
    char place[API_PARAM_SIZE];
    const char *type = NULL;
    if (!cJSON_IsObject(tool))
        return field_wrong_type(path, tool, "an object", error);
    if (!field_text(tool, path, "type", SIZE_MAX, &type, error))
        return false;
    if (!type)
        return field_missing(path, "type", error);
    api_path(place, path, "type");
    if (strcmp(type, "function") != 0)
        return api_refuse(error, 400, "unsupported_value", place,
                          "Tools of type '%.60s' are not supported here; only tools of type "
                          "'function', which the client runs, are.",
                          type);
    return true;
}

/* The object in which a function's name and all else stand, with its path. NULL: refused. */
static const cJSON *members_of(parse_state *s, const cJSON *tool, char path[API_PARAM_SIZE])
{
    const cJSON *function = NULL;
    char inner[API_PARAM_SIZE];
    if (!s->nested)
        return tool;
    if (!field_object(tool, path, "function", &function, s->error))
        return NULL;
    if (!function) {
        field_missing(path, "function", s->error);
        return NULL;
    }
    api_path(inner, path, "function");
    memcpy(path, inner, sizeof inner);
    return function;
}

static bool parse_name(const cJSON *tool, const char *path, const char **name, api_error *error)
{
    char place[API_PARAM_SIZE];
    if (!field_text(tool, path, "name", SIZE_MAX, name, error))
        return false;
    api_path(place, path, "name");
    if (!*name && json_get(tool, "function"))
        return api_refuse(
            error, 400, "missing_required_parameter", place,
            "Missing required parameter: '%s'. In the Responses API a function's name "
            "stands beside its type, not inside 'function'.",
            place);
    if (!*name)
        return field_missing(path, "name", error);
    if (!name_is_valid(*name))
        return api_refuse(error, 400, "invalid_value", place,
                          "Invalid value for '%s': a name has from 1 to %d characters, letters, "
                          "digits, '_', '-' and '.'.",
                          place, PARSE_MAX_NAME);
    return true;
}

/* The members of one tool, once they are checked. */
typedef struct tool_view {
    const char *name;
    const char *description; /* or NULL */
    const cJSON *parameters; /* or NULL */
    bool strict;
} tool_view;

static cJSON *run_tool(const tool_view *view)
{
    cJSON *tool = cJSON_CreateObject();
    bool ok = tool && cJSON_AddStringToObject(tool, "type", "function");
    cJSON *function = ok ? cJSON_AddObjectToObject(tool, "function") : NULL;
    ok = function && cJSON_AddStringToObject(function, "name", view->name);
    if (ok && view->description)
        ok = field_add(function, "description", cJSON_CreateString(view->description));
    if (ok && view->parameters)
        ok = field_add(function, "parameters", cJSON_Duplicate(view->parameters, true));
    if (ok)
        return tool;
    cJSON_Delete(tool);
    return NULL;
}

static cJSON *echo_tool(const tool_view *view)
{
    cJSON *tool = cJSON_CreateObject();
    const char *text = view->description;
    const cJSON *parameters = view->parameters;
    if (tool && cJSON_AddStringToObject(tool, "type", "function") &&
        cJSON_AddStringToObject(tool, "name", view->name) &&
        field_add(tool, "description", text ? cJSON_CreateString(text) : cJSON_CreateNull()) &&
        field_add(tool, "parameters",
                  parameters ? cJSON_Duplicate(parameters, true) : cJSON_CreateNull()) &&
        cJSON_AddBoolToObject(tool, "strict", view->strict))
        return tool;
    cJSON_Delete(tool);
    return NULL;
}

static bool parse_tool(parse_state *s, const cJSON *given, char path[API_PARAM_SIZE], cJSON *echo)
{
    tool_view view = {NULL, NULL, NULL, false};
    const cJSON *tool = parse_type(given, path, s->error) ? members_of(s, given, path) : NULL;
    if (!tool || !parse_name(tool, path, &view.name, s->error) ||
        !field_text(tool, path, "description", SIZE_MAX, &view.description, s->error) ||
        !field_object(tool, path, "parameters", &view.parameters, s->error) ||
        !field_bool(tool, path, "strict", &view.strict, s->error))
        return false;
    if (tool_named(s->request->tools, view.name)) {
        char place[API_PARAM_SIZE];
        api_path(place, path, "name");
        return api_refuse(s->error, 400, "invalid_value", place,
                          "Two tools are named '%s'; each needs its own name.", view.name);
    }
    cJSON *for_run = run_tool(&view);
    cJSON *for_echo = for_run ? echo_tool(&view) : NULL;
    if (!for_echo) {
        cJSON_Delete(for_run);
        return api_refuse_memory(s->error);
    }
    cJSON_AddItemToArray(s->request->tools, for_run);
    cJSON_AddItemToArray(echo, for_echo);
    return true;
}

static bool parse_tools(parse_state *s)
{
    const cJSON *tools = NULL;
    const cJSON *each;
    size_t i = 0;
    if (!field_array(s->body, "", "tools", PARSE_MAX_TOOLS, &tools, s->error))
        return false;
    cJSON *echo = cJSON_CreateArray();
    if (!echo_add(s, "tools", echo))
        return false;
    if (!cJSON_GetArraySize(tools))
        return true;
    s->request->tools = cJSON_CreateArray();
    if (!s->request->tools)
        return api_refuse_memory(s->error);
    cJSON_ArrayForEach(each, tools)
    {
        char path[API_PARAM_SIZE];
        api_path_at(path, "tools", i++);
        if (!parse_tool(s, each, path, echo))
            return false;
    }
    return true;
}

static bool choice_word(parse_state *s, const char *word)
{
    if (!field_word_is_one(word, "none auto required"))
        return api_refuse(s->error, 400, "invalid_value", "tool_choice",
                          "Invalid value for 'tool_choice': '%.60s'. Allowed are: none, auto.",
                          word);
    if (strcmp(word, "required") == 0) {
        if (!s->request->tools)
            return api_refuse(s->error, 400, "invalid_value", "tool_choice",
                              "'tool_choice' is 'required', but the request has no 'tools'.");
        return api_refuse(s->error, 400, "unsupported_value", "tool_choice",
                          "The tool_choice 'required' " FORCED);
    }
    s->request->tools_off = strcmp(word, "none") == 0;
    return echo_text(s, "tool_choice", word);
}

/* The tool that a member of tool_choice names; refused where there is none. */
static const cJSON *choice_tool(parse_state *s, const cJSON *choice, char path[API_PARAM_SIZE])
{
    const char *type = NULL;
    const char *name = NULL;
    if (!cJSON_IsObject(choice)) {
        field_wrong_type(path, choice, "an object", s->error);
        return NULL;
    }
    if (!field_text(choice, path, "type", SIZE_MAX, &type, s->error))
        return NULL;
    if (type && strcmp(type, "function") != 0) {
        char place[API_PARAM_SIZE];
        api_path(place, path, "type");
        api_refuse(s->error, 400, "unsupported_value", place,
                   "Tools of type '%.60s' are not supported here; only 'function' is.", type);
        return NULL;
    }
    choice = members_of(s, choice, path);
    if (!choice || !field_text(choice, path, "name", SIZE_MAX, &name, s->error))
        return NULL;
    if (!name) {
        field_missing(path, "name", s->error);
        return NULL;
    }
    const cJSON *tool = tool_named(s->request->tools, name);
    if (!tool) {
        char place[API_PARAM_SIZE];
        api_path(place, path, "name");
        api_refuse(s->error, 400, "invalid_value", place,
                   "'tool_choice' names the function '%.100s', which is not among the 'tools'.",
                   name);
    }
    return tool;
}

/* Keeps for run only the tools that are allowed, in the order of 'tools'. */
static bool narrow_tools(parse_state *s, const cJSON *allowed, const char *prefix)
{
    size_t i = 0;
    const cJSON *each;
    cJSON *kept = cJSON_CreateArray();
    if (!kept)
        return api_refuse_memory(s->error);
    cJSON_ArrayForEach(each, allowed)
    {
        char path[API_PARAM_SIZE];
        api_path_at(path, prefix, i++);
        const cJSON *tool = choice_tool(s, each, path);
        cJSON *copy = tool ? cJSON_Duplicate(tool, true) : NULL;
        if (!copy) {
            cJSON_Delete(kept);
            return tool ? api_refuse_memory(s->error) : false;
        }
        cJSON_AddItemToArray(kept, copy);
    }
    cJSON_Delete(s->request->tools);
    s->request->tools = kept;
    return true;
}

static bool choice_allowed(parse_state *s, const cJSON *choice)
{
    const char *prefix = s->nested ? "tool_choice.allowed_tools" : "tool_choice";
    const char *mode = "auto";
    const cJSON *given = choice;
    const cJSON *allowed = NULL;
    char path[API_PARAM_SIZE];
    if (s->nested && !field_object(choice, "tool_choice", "allowed_tools", &given, s->error))
        return false;
    if (!field_word(given, prefix, "mode", "auto required", &mode, s->error) ||
        !field_array(given, prefix, "tools", PARSE_MAX_TOOLS, &allowed, s->error))
        return false;
    if (!cJSON_GetArraySize(allowed))
        return field_missing(prefix, "tools", s->error);
    api_path(path, prefix, "tools");
    if (!narrow_tools(s, allowed, path))
        return false;
    api_path(path, prefix, "mode");
    if (strcmp(mode, "required") == 0)
        return api_refuse(s->error, 400, "unsupported_value", path,
                          "The mode 'required' of tool_choice " FORCED);
    return echo_add(s, "tool_choice", cJSON_Duplicate(choice, true));
}

static bool parse_choice(parse_state *s)
{
    const cJSON *choice = json_get(s->body, "tool_choice");
    if (!choice)
        return echo_text(s, "tool_choice", "auto");
    if (cJSON_IsString(choice))
        return choice_word(s, choice->valuestring);
    if (!cJSON_IsObject(choice))
        return field_wrong_type("tool_choice", choice, "a string or an object", s->error);
    const char *type = NULL;
    if (!field_text(choice, "tool_choice", "type", SIZE_MAX, &type, s->error))
        return false;
    if (!type)
        return field_missing("tool_choice", "type", s->error);
    if (strcmp(type, "allowed_tools") == 0)
        return choice_allowed(s, choice);
    char path[API_PARAM_SIZE] = "tool_choice";
    const cJSON *tool = choice_tool(s, choice, path);
    return tool && api_refuse(s->error, 400, "unsupported_value", "tool_choice",
                              "A tool_choice that names a function " FORCED);
}

bool tools_parse(parse_state *state)
{
    bool parallel = true;
    if (!parse_tools(state) || !parse_choice(state) ||
        !field_bool(state->body, "", "parallel_tool_calls", &parallel, state->error))
        return false;
    state->request->one_call = !parallel;
    return echo_add(state, "parallel_tool_calls", cJSON_CreateBool(parallel));
}
