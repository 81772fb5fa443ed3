/*
 * chat/request.c - a chat request, checked. See request.h.
 *
 * Runs on any thread; owns nothing but the list of messages it makes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "chat/request.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGES_MAX = 1 << 20 };

static const char *kind_name(struct json_view value)
{
    switch (json_kind(value)) {
    case '\0':
        return "missing";
    case '{':
        return "an object";
    case '[':
        return "an array";
    case '"':
        return "a string";
    case 'n':
        return "null";
    case '0':
        return "a number";
    default:
        return "a boolean";
    }
}

/* Missing and null mean the same wherever a value is optional. */
static bool is_absent(struct json_view value)
{
    return json_kind(value) == '\0' || json_kind(value) == 'n';
}

/* --------------------------------------------------------------- messages -- */

static pawl_status read_role(struct json_view item, size_t i, enum message_role *role,
                             pawl_error *error)
{
    static const struct {
        const char *name;
        enum message_role role;
    } roles[] = {
        {"system", ROLE_SYSTEM},       {"developer", ROLE_SYSTEM}, {"user", ROLE_USER},
        {"assistant", ROLE_ASSISTANT}, {"tool", ROLE_TOOL},
    };
    struct json_view name = json_member(item, "role");
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++) {
        if (json_is(name, roles[k].name)) {
            *role = roles[k].role;
            return PAWL_OK;
        }
    }
    if (json_kind(name) != '"')
        return pawl_fail(error, PAWL_E_ARGUMENT, "messages[%zu].role is %s, not a string", i,
                         kind_name(name));
    return pawl_fail(error, PAWL_E_ARGUMENT,
                     "messages[%zu].role is %.*s; known are system, developer, user, assistant, "
                     "tool",
                     i, name.size < 40 ? (int)name.size : 40, name.data);
}

static pawl_status check_parts(struct json_view parts, size_t i, pawl_error *error)
{
    struct json_view part;
    size_t at = 0;
    for (size_t k = 0; json_next(parts, &at, &part); k++) {
        struct json_view type = json_member(part, "type");
        if (!json_is(type, "text") && !json_is(type, "input_text") && !json_is(type, "output_text"))
            return pawl_fail(error, PAWL_E_ARGUMENT,
                             "messages[%zu].content[%zu].type is %.*s; this model takes \"text\"",
                             i, k, type.size < 40 ? (int)type.size : 40,
                             type.size ? type.data : "");
        if (json_kind(json_member(part, "text")) != '"')
            return pawl_fail(error, PAWL_E_ARGUMENT,
                             "messages[%zu].content[%zu].text is %s, not a string", i, k,
                             kind_name(json_member(part, "text")));
    }
    return PAWL_OK;
}

static pawl_status check_content(const struct message *message, size_t i, pawl_error *error)
{
    switch (json_kind(message->content)) {
    case '"':
        return PAWL_OK;
    case '[':
        return check_parts(message->content, i, error);
    case '\0':
    case 'n': /* an assistant may only have called, a tool may have nothing to say */
        if (message->role == ROLE_ASSISTANT || message->role == ROLE_TOOL)
            return PAWL_OK;
    }
    return pawl_fail(error, PAWL_E_ARGUMENT,
                     "messages[%zu].content is %s; it must be a string or an array of text parts",
                     i, kind_name(message->content));
}

static pawl_status check_calls(struct json_view calls, size_t i, pawl_error *error)
{
    struct json_view call;
    size_t at = 0;
    if (!is_absent(calls) && json_kind(calls) != '[')
        return pawl_fail(error, PAWL_E_ARGUMENT, "messages[%zu].tool_calls is %s, not an array", i,
                         kind_name(calls));
    for (size_t k = 0; json_next(calls, &at, &call); k++) {
        struct json_view function = json_member(call, "function");
        struct json_view name = json_member(function, "name");
        struct json_view arguments = json_member(function, "arguments");
        char kind = json_kind(arguments);
        if (json_kind(name) != '"')
            return pawl_fail(error, PAWL_E_ARGUMENT,
                             "messages[%zu].tool_calls[%zu].function.name is %s, not a string", i,
                             k, kind_name(name));
        if (kind != '"' && kind != '{' && !is_absent(arguments))
            return pawl_fail(error, PAWL_E_ARGUMENT,
                             "messages[%zu].tool_calls[%zu].function.arguments is %s; it must be "
                             "an object or a string",
                             i, k, kind_name(arguments));
    }
    return PAWL_OK;
}

static pawl_status read_message(struct json_view item, size_t i, struct message *message,
                                pawl_error *error)
{
    struct message made = {
        .content = json_member(item, "content"),
        .reasoning = json_member(item, "reasoning_content"),
        .calls = json_member(item, "tool_calls"),
    };
    if (json_kind(item) != '{')
        return pawl_fail(error, PAWL_E_ARGUMENT, "messages[%zu] is %s, not an object", i,
                         kind_name(item));
    if (!is_absent(made.reasoning) && json_kind(made.reasoning) != '"')
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "messages[%zu].reasoning_content is %s, not a string", i,
                         kind_name(made.reasoning));
    pawl_status status = read_role(item, i, &made.role, error);
    if (status == PAWL_OK)
        status = check_content(&made, i, error);
    if (status == PAWL_OK)
        status = check_calls(made.calls, i, error);
    if (status == PAWL_OK)
        *message = made;
    return status;
}

static pawl_status read_messages(struct json_view list, struct request *request, pawl_error *error)
{
    struct json_view item;
    size_t n = 0, at = 0;
    while (json_next(list, &at, &item))
        n++;
    if (json_kind(list) != '[' || n == 0)
        return pawl_fail(error, PAWL_E_ARGUMENT, "messages is %s; it must be a list of at least 1",
                         n || json_kind(list) != '[' ? kind_name(list) : "empty");
    if (n > MESSAGES_MAX)
        return pawl_fail(error, PAWL_E_LIMIT, "%zu messages; at most %d are taken", n,
                         (int)MESSAGES_MAX);
    request->messages = calloc(n, sizeof *request->messages);
    if (!request->messages)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %zu messages", n);
    at = 0;
    while (json_next(list, &at, &item)) {
        pawl_status status =
            read_message(item, request->n_messages, &request->messages[request->n_messages], error);
        if (status != PAWL_OK)
            return status;
        request->n_messages++;
    }
    return PAWL_OK;
}

/* ------------------------------------------------------------------ tools -- */

/* The tools of a request, nothing where there are none. */
static pawl_status read_tools(struct json_view root, struct json_view *tools, pawl_error *error)
{
    struct json_view list = json_member(root, "tools"), tool;
    size_t at = 0, n = 0;
    if (!is_absent(list) && json_kind(list) != '[')
        return pawl_fail(error, PAWL_E_ARGUMENT, "tools is %s, not an array", kind_name(list));
    for (; json_next(list, &at, &tool); n++) {
        struct json_view type = json_member(tool, "type");
        struct json_view name = json_member(json_member(tool, "function"), "name");
        if (json_kind(tool) != '{')
            return pawl_fail(error, PAWL_E_ARGUMENT, "tools[%zu] is %s, not an object", n,
                             kind_name(tool));
        if (!is_absent(type) && !json_is(type, "function"))
            return pawl_fail(error, PAWL_E_ARGUMENT, "tools[%zu].type is %.*s, not \"function\"", n,
                             type.size < 40 ? (int)type.size : 40, type.data);
        if (json_kind(name) != '"')
            return pawl_fail(error, PAWL_E_ARGUMENT, "tools[%zu].function.name is %s, not a string",
                             n, kind_name(name));
    }
    *tools = n ? list : (struct json_view){NULL, 0};
    return PAWL_OK;
}

static pawl_status read_root(pawl_bytes json, struct json_view *root, pawl_error *error)
{
    pawl_status status = json_parse(json, "the chat request", root, error);
    if (status != PAWL_OK)
        return status;
    if (json_kind(*root) != '{')
        return pawl_fail(error, PAWL_E_ARGUMENT, "the chat request is %s, not an object",
                         kind_name(*root));
    return PAWL_OK;
}

/* ----------------------------------------------------------------- public -- */

pawl_status request_open(pawl_bytes json, struct request *request, pawl_error *error)
{
    struct request made = {0};
    struct json_view root;
    pawl_status status = read_root(json, &root, error);
    if (status == PAWL_OK)
        status = read_tools(root, &made.tools, error);
    if (status == PAWL_OK)
        status = read_messages(json_member(root, "messages"), &made, error);
    if (status != PAWL_OK) {
        request_clear(&made);
        return status;
    }
    made.generate = json_kind(json_member(root, "add_generation_prompt")) != 'f';
    made.no_thinking = json_kind(json_member(root, "thinking")) == 'f' ||
                       json_kind(json_member(root, "enable_thinking")) == 'f' ||
                       json_is(json_member(root, "reasoning_effort"), "none");
    *request = made;
    return PAWL_OK;
}

void request_clear(struct request *request)
{
    free(request->messages);
    *request = (struct request){0};
}

pawl_status request_reply_options(pawl_bytes json, struct reply_options *options, pawl_error *error)
{
    struct json_view root, tools;
    pawl_status status = read_root(json, &root, error);
    if (status == PAWL_OK)
        status = read_tools(root, &tools, error);
    if (status != PAWL_OK)
        return status;
    options->calls_allowed = tools.size > 0 && !json_is(json_member(root, "tool_choice"), "none");
    options->starts_in_reasoning = json_kind(json_member(root, "starts_in_reasoning")) == 't';
    return PAWL_OK;
}

void message_text(const struct message *message, struct text *to)
{
    struct json_view part;
    size_t at = 0;
    json_decode(message->content, to);
    for (size_t k = 0; json_next(message->content, &at, &part); k++) {
        if (k)
            text_add_byte(to, '\n');
        json_decode(json_member(part, "text"), to);
    }
}
