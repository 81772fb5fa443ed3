/*
 * api/messages_parse.c - the messages of a Chat Completions request, as input items.
 *
 *   system, developer, user   a message
 *   assistant                 its thoughts, its text, its calls: an item each, of which
 *                             the first one begins a turn, so that two messages in a
 *                             row stay two
 *   tool                      the output of a call
 *
 * The parts of a content become one text with line breaks between them, as other local
 * servers have it. An output whose call is not there is taken as it is: clients cut old
 * messages off. Pure; runs where parsing runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <stdlib.h>
#include <string.h>

#include "api/fields.h"

#define MAX_CONTENT_BYTES ((size_t)256 << 20)
#define MAX_CALLS 256

/* The message that is being read. */
typedef struct message_state {
    parse_state *parse;
    api_error *error;
    const cJSON *message;
    const char *path;
    bool begins_turn; /* the next item of the assistant is its first one */
} message_state;

/* ------------------------------------------------------------------- items -- */

/* Adds an item with type and id to the request. NULL: refused. */
static cJSON *add_item(message_state *s, const char *type, const char *id_prefix)
{
    char id[CLOCK_ID_SIZE];
    cJSON *item = cJSON_CreateObject();
    clock_new_id(s->parse->env->clock, id_prefix, id);
    bool ok = item && cJSON_AddStringToObject(item, "type", type) &&
              cJSON_AddStringToObject(item, "id", id) &&
              (!s->begins_turn || cJSON_AddTrueToObject(item, "begins_turn"));
    if (!ok) {
        cJSON_Delete(item);
        item = NULL;
    }
    s->begins_turn = false;
    if (ok && field_add(s->parse->request->items, NULL, item))
        return item;
    api_refuse_memory(s->error);
    return NULL;
}

/* Gives an item its one part of text, under the name of a list. */
static bool add_part(message_state *s, cJSON *item, const char *list, const char *type,
                     const char *text)
{
    cJSON *parts = cJSON_AddArrayToObject(item, list);
    cJSON *part = cJSON_CreateObject();
    bool ok = parts && field_add(parts, NULL, part);
    return (ok && cJSON_AddStringToObject(part, "type", type) &&
            cJSON_AddStringToObject(part, "text", text)) ||
           api_refuse_memory(s->error);
}

static bool add_message(message_state *s, const char *role, const char *text)
{
    bool assistant = strcmp(role, "assistant") == 0;
    cJSON *item = add_item(s, "message", "msg_");
    return item && (cJSON_AddStringToObject(item, "role", role) || api_refuse_memory(s->error)) &&
           add_part(s, item, "content", assistant ? "output_text" : "input_text", text);
}

/* ----------------------------------------------------------------- content -- */

static bool refuse_part(message_state *s, const char *path, const char *type)
{
    char place[API_PARAM_SIZE];
    api_path(place, path, "type");
    if (field_word_is_one(type, "image_url video_url"))
        return api_refuse(s->error, 400, "unsupported_value", place,
                          "This model takes no images; leave parts of type '%.20s' out.", type);
    if (field_word_is_one(type, "input_audio audio_url file"))
        return api_refuse(s->error, 400, "unsupported_value", place,
                          "This model takes no files and no audio; give their text as parts of "
                          "type 'text'.");
    return api_refuse(s->error, 400, "invalid_value", place,
                      "Invalid value for '%s': '%.60s'. Allowed is: text.", place, type);
}

static bool add_part_text(message_state *s, const cJSON *part, const char *path, buf *text)
{
    const char *type = NULL;
    const char *words = NULL;
    if (!cJSON_IsObject(part))
        return field_wrong_type(path, part, "an object", s->error);
    if (!field_text(part, path, "type", SIZE_MAX, &type, s->error))
        return false;
    if (!type)
        return field_missing(path, "type", s->error);
    const char *name = strcmp(type, "refusal") == 0 ? "refusal" : "text";
    if (!field_word_is_one(type, "text input_text output_text refusal"))
        return refuse_part(s, path, type);
    if (!field_text(part, path, name, SIZE_MAX, &words, s->error))
        return false;
    if (!words)
        return field_missing(path, name, s->error);
    if (text->size)
        buf_add_text(text, "\n");
    buf_add_text(text, words);
    return true;
}

/* The text of "content": *text is to be free()d, NULL where there is none. */
static bool content_text(message_state *s, char **text)
{
    const cJSON *content = json_get(s->message, "content");
    const cJSON *each;
    char list[API_PARAM_SIZE];
    size_t i = 0;
    buf joined;
    *text = NULL;
    if (!content)
        return true;
    api_path(list, s->path, "content");
    if (!cJSON_IsString(content) && !cJSON_IsArray(content))
        return field_wrong_type(list, content, "a string or an array of parts", s->error);
    if (cJSON_IsArray(content) &&
        !field_array(s->message, s->path, "content", PARSE_MAX_PARTS, &content, s->error))
        return false;
    buf_init(&joined, MAX_CONTENT_BYTES);
    bool ok = true;
    if (cJSON_IsString(content))
        buf_add_text(&joined, content->valuestring);
    else
        cJSON_ArrayForEach(each, content)
        {
            char place[API_PARAM_SIZE];
            api_path_at(place, list, i++);
            ok = ok && add_part_text(s, each, place, &joined);
        }
    buf_add_text(&joined, "");
    *text = ok ? buf_take(&joined) : NULL;
    buf_clear(&joined);
    return ok && (*text || api_refuse_memory(s->error));
}

/* ---------------------------------------------------------------- messages -- */

/* Arguments are a JSON text; an object is taken too and written as one. */
static bool call_arguments(message_state *s, const cJSON *function, const char *path, char **text)
{
    const cJSON *arguments = json_get(function, "arguments");
    char place[API_PARAM_SIZE];
    api_path(place, path, "arguments");
    if (arguments && !cJSON_IsString(arguments) && !cJSON_IsObject(arguments))
        return field_wrong_type(place, arguments, "a string", s->error);
    if (!arguments)
        *text = strdup("{}");
    else
        *text = cJSON_IsString(arguments) ? strdup(arguments->valuestring) : json_print(arguments);
    return *text || api_refuse_memory(s->error);
}

static bool parse_call(message_state *s, const cJSON *call, const char *path)
{
    const char *id = "";
    const char *type = "function";
    const char *name = NULL;
    const cJSON *function = NULL;
    char inner[API_PARAM_SIZE];
    char *arguments = NULL;
    if (!cJSON_IsObject(call))
        return field_wrong_type(path, call, "an object", s->error);
    if (!field_text(call, path, "id", PARSE_MAX_ID, &id, s->error) ||
        !field_word(call, path, "type", "function", &type, s->error) ||
        !field_object(call, path, "function", &function, s->error))
        return false;
    if (!function)
        return field_missing(path, "function", s->error);
    api_path(inner, path, "function");
    if (!field_text(function, inner, "name", PARSE_MAX_NAME, &name, s->error))
        return false;
    if (!name)
        return field_missing(inner, "name", s->error);
    if (!call_arguments(s, function, inner, &arguments))
        return false;
    cJSON *item = add_item(s, "function_call", "fc_");
    bool ok = item && ((cJSON_AddStringToObject(item, "call_id", id) &&
                        cJSON_AddStringToObject(item, "name", name) &&
                        cJSON_AddStringToObject(item, "arguments", arguments)) ||
                       api_refuse_memory(s->error));
    free(arguments);
    return ok;
}

static bool parse_calls(message_state *s, const cJSON *calls)
{
    const cJSON *each;
    char list[API_PARAM_SIZE];
    size_t i = 0;
    api_path(list, s->path, "tool_calls");
    cJSON_ArrayForEach(each, calls)
    {
        char path[API_PARAM_SIZE];
        api_path_at(path, list, i++);
        if (!parse_call(s, each, path))
            return false;
    }
    return true;
}

static bool parse_thoughts(message_state *s)
{
    const char *text = NULL;
    if (!field_text(s->message, s->path, "reasoning", SIZE_MAX, &text, s->error) ||
        !field_text(s->message, s->path, "reasoning_content", SIZE_MAX, &text, s->error))
        return false;
    if (!text || !*text)
        return true;
    cJSON *item = add_item(s, "reasoning", "rs_");
    return item && add_part(s, item, "content", "reasoning_text", text);
}

static bool parse_assistant(message_state *s, const char *text)
{
    const cJSON *calls = NULL;
    const char *refusal = NULL;
    s->begins_turn = true;
    if (!field_array(s->message, s->path, "tool_calls", MAX_CALLS, &calls, s->error) ||
        !field_text(s->message, s->path, "refusal", SIZE_MAX, &refusal, s->error))
        return false;
    if (!text)
        text = refusal;
    if (!text && !cJSON_GetArraySize(calls))
        return field_missing(s->path, "content", s->error);
    return parse_thoughts(s) && (!text || add_message(s, "assistant", text)) &&
           parse_calls(s, calls);
}

static bool parse_output(message_state *s, const char *text)
{
    const char *call_id = NULL;
    const char *name = NULL;
    if (!field_text(s->message, s->path, "tool_call_id", PARSE_MAX_ID, &call_id, s->error) ||
        !field_text(s->message, s->path, "name", PARSE_MAX_NAME, &name, s->error))
        return false;
    if (!call_id)
        return field_missing(s->path, "tool_call_id", s->error);
    cJSON *item = add_item(s, "function_call_output", "fc_");
    return item && ((cJSON_AddStringToObject(item, "call_id", call_id) &&
                     (!name || cJSON_AddStringToObject(item, "name", name)) &&
                     cJSON_AddStringToObject(item, "output", text ? text : "")) ||
                    api_refuse_memory(s->error));
}

static bool parse_message(message_state *s)
{
    const char *role = NULL;
    char *text = NULL;
    char place[API_PARAM_SIZE];
    if (!cJSON_IsObject(s->message))
        return field_wrong_type(s->path, s->message, "an object", s->error);
    if (!field_text(s->message, s->path, "role", SIZE_MAX, &role, s->error))
        return false;
    if (!role)
        return field_missing(s->path, "role", s->error);
    api_path(place, s->path, "role");
    if (strcmp(role, "function") == 0)
        return api_refuse(s->error, 400, "unsupported_value", place,
                          "The role 'function' is not supported here; give the result of a call as "
                          "a message of the role 'tool' with a 'tool_call_id'.");
    if (!field_word(s->message, s->path, "role", "system developer user assistant tool", &role,
                    s->error) ||
        !content_text(s, &text))
        return false;
    bool ok;
    if (strcmp(role, "assistant") == 0)
        ok = parse_assistant(s, text);
    else if (strcmp(role, "tool") == 0)
        ok = parse_output(s, text);
    else
        ok = text ? add_message(s, role, text) : field_missing(s->path, "content", s->error);
    free(text);
    return ok;
}

bool messages_parse(parse_state *state)
{
    const cJSON *messages = NULL;
    const cJSON *each;
    size_t i = 0;
    if (!field_array(state->body, "", "messages", PARSE_MAX_ITEMS, &messages, state->error))
        return false;
    if (!messages)
        return field_missing("", "messages", state->error);
    if (!cJSON_GetArraySize(messages))
        return api_refuse(state->error, 400, "invalid_value", "messages",
                          "'messages' is empty; give at least one message.");
    state->request->items = cJSON_CreateArray();
    if (!state->request->items)
        return api_refuse_memory(state->error);
    cJSON_ArrayForEach(each, messages)
    {
        char path[API_PARAM_SIZE];
        message_state s = {.parse = state, .error = state->error, .message = each, .path = path};
        api_path_at(path, "messages", i++);
        if (!parse_message(&s))
            return false;
    }
    return true;
}
