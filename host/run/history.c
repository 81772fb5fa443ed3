/*
 * run/history.c - items of a whole conversation as the messages of a chat request.
 * See history.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/history.h"

#include <stdlib.h>
#include <string.h>

bool run_refuse(run_refusal *refusal, enum run_refusal_reason reason, const char *param,
                const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refusal->reason = reason;
    snprintf(refusal->param, sizeof refusal->param, "%s", param);
    vsnprintf(refusal->message, sizeof refusal->message, format, args);
    va_end(args);
    return false;
}

#define MAX_TEXT_BYTES (256u << 20) /* of one message */

/* The messages so far, and the assistant message that following items join. */
typedef struct messages {
    cJSON *list;
    cJSON *assistant; /* in list, or NULL */
} messages;

static bool is(const cJSON *object, const char *name, const char *value)
{
    const char *text = json_get_text(object, name);
    return text && strcmp(text, value) == 0;
}

static cJSON *add_message(messages *m, const char *role)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "role", role);
    cJSON_AddItemToArray(m->list, message);
    m->assistant = strcmp(role, "assistant") == 0 ? message : NULL;
    return message;
}

static cJSON *assistant(messages *m)
{
    return m->assistant ? m->assistant : add_message(m, "assistant");
}

/* A string, or the "text" of all parts joined; to be free()d. */
static char *joined_text(const cJSON *content)
{
    buf out;
    buf_init(&out, MAX_TEXT_BYTES);
    if (cJSON_IsString(content))
        buf_add_text(&out, content->valuestring);
    const cJSON *part;
    if (cJSON_IsArray(content))
        cJSON_ArrayForEach(part, content)
        {
            const char *text = json_get_text(part, "text");
            if (!text)
                text = json_get_text(part, "refusal");
            buf_add_text(&out, text ? text : "");
        }
    return buf_take(&out);
}

/* Appends text to a member of a message; a line break goes between two texts. */
static void append_text(cJSON *message, const char *name, const char *text)
{
    const char *before = json_get_text(message, name);
    if (!before) {
        cJSON_DeleteItemFromObjectCaseSensitive(message, name);
        cJSON_AddStringToObject(message, name, text);
        return;
    }
    buf both;
    buf_init(&both, MAX_TEXT_BYTES);
    buf_printf(&both, "%s\n%s", before, text);
    cJSON_ReplaceItemInObjectCaseSensitive(message, name, cJSON_CreateString(buf_text(&both)));
    buf_clear(&both);
}

/* Arguments as the object that they are, byte for byte, since templates write a string
 * with quotes; as a string where the model wrote no object. */
static void add_arguments(cJSON *function, const char *text)
{
    cJSON *parsed = NULL;
    json_parse(text, strlen(text), &parsed, NULL);
    if (cJSON_IsObject(parsed))
        cJSON_AddRawToObject(function, "arguments", text);
    else
        cJSON_AddStringToObject(function, "arguments", text);
    cJSON_Delete(parsed);
}

static void add_call(messages *m, const cJSON *item)
{
    cJSON *message = assistant(m);
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(message, "tool_calls");
    if (!calls)
        calls = cJSON_AddArrayToObject(message, "tool_calls");
    const char *id = json_get_text(item, "call_id"), *name = json_get_text(item, "name");
    const char *arguments = json_get_text(item, "arguments");
    cJSON *call = cJSON_CreateObject(), *function = cJSON_CreateObject();
    cJSON_AddStringToObject(call, "id", id ? id : "");
    cJSON_AddStringToObject(call, "type", "function");
    cJSON_AddStringToObject(function, "name", name ? name : "");
    add_arguments(function, arguments ? arguments : "{}");
    cJSON_AddItemToObject(call, "function", function);
    cJSON_AddItemToArray(calls, call);
}

/* The name of the function that a call id stands for, in the messages so far. */
static const char *called_name(const messages *m, const char *call_id)
{
    const cJSON *message, *call;
    cJSON_ArrayForEach(message, m->list) cJSON_ArrayForEach(
        call, cJSON_GetObjectItemCaseSensitive(
                  message,
                  "tool_calls")) if (is(call, "id",
                                        call_id)) return json_get_text(json_get(call, "function"),
                                                                       "name");
    return NULL;
}

static void add_output(messages *m, const cJSON *item)
{
    const char *call_id = json_get_text(item, "call_id");
    const char *name = call_id ? called_name(m, call_id) : NULL;
    if (!name)
        name = json_get_text(item, "name");
    char *text = joined_text(json_get(item, "output"));
    cJSON *message = add_message(m, "tool");
    cJSON_AddStringToObject(message, "content", text ? text : "");
    cJSON_AddStringToObject(message, "tool_call_id", call_id ? call_id : "");
    if (name)
        cJSON_AddStringToObject(message, "name", name);
    free(text);
}

static void add_item(messages *m, const cJSON *item)
{
    if (json_get_bool(item, "begins_turn", false))
        m->assistant = NULL;
    if (is(item, "type", "function_call")) {
        add_call(m, item);
    } else if (is(item, "type", "function_call_output")) {
        add_output(m, item);
    } else if (is(item, "type", "reasoning")) {
        const cJSON *content = json_get(item, "content");
        char *text = joined_text(cJSON_GetArraySize(content) ? content : json_get(item, "summary"));
        if (text && text[0])
            append_text(assistant(m), "reasoning_content", text);
        free(text);
    } else {
        const char *role = json_get_text(item, "role");
        char *text = joined_text(json_get(item, "content"));
        cJSON *message = role && strcmp(role, "assistant") == 0
                             ? assistant(m)
                             : add_message(m, role ? role : "user");
        append_text(message, "content", text ? text : "");
        free(text);
    }
}

static bool add_items_text(messages *m, const char *json, run_refusal *refusal)
{
    cJSON *items = NULL;
    if (json_parse(json, strlen(json), &items, NULL) != PAWL_OK)
        return run_refuse(refusal, RUN_REFUSED_INTERNAL, "previous_response_id",
                          "a stored response of this conversation is damaged");
    const cJSON *item;
    cJSON_ArrayForEach(item, items) add_item(m, item);
    cJSON_Delete(items);
    return true;
}

/* Fills chain, of RUN_MAX_CHAIN, from the record upwards. Their number, or -1. */
static int climb(run_runtime *runtime, run_record *from, run_record **chain, run_refusal *refusal)
{
    int n = 0;
    run_record *record = from ? run_record_retain(from) : NULL;
    while (record && n < RUN_MAX_CHAIN) {
        chain[n++] = record;
        if (record->parent)
            record = run_record_retain(record->parent);
        else if (!record->parent_id)
            record = NULL;
        else if (!(record = run_find(runtime, NULL, record->parent_id, true))) {
            run_refuse(refusal, RUN_REFUSED_NOT_FOUND, "previous_response_id",
                       "an earlier response of this conversation, %s, is no longer stored",
                       chain[n - 1]->parent_id);
            goto failed;
        }
    }
    if (!record)
        return n;
    run_record_release(record);
    run_refuse(refusal, RUN_REFUSED_INPUT, "previous_response_id",
               "the conversation has more than %d responses; start a new one", RUN_MAX_CHAIN);
failed:
    while (n)
        run_record_release(chain[--n]);
    return -1;
}

int run_history_chain(run_runtime *runtime, run_record *from, run_record ***out,
                      run_refusal *refusal)
{
    run_record **chain = calloc(RUN_MAX_CHAIN, sizeof *chain);
    if (!chain) {
        run_refuse(refusal, RUN_REFUSED_INTERNAL, "", "no memory for the history");
        return -1;
    }
    int n = climb(runtime, from, chain, refusal);
    if (n < 0) {
        free(chain);
        return n;
    }
    for (int i = 0; i < n / 2; i++) {
        run_record *other = chain[i];
        chain[i] = chain[n - 1 - i];
        chain[n - 1 - i] = other;
    }
    *out = chain;
    return n;
}

static bool add_chain(messages *m, run_runtime *runtime, run_record *parent, run_refusal *refusal)
{
    run_record **chain = NULL;
    int n = run_history_chain(runtime, parent, &chain, refusal);
    bool ok = n >= 0;
    for (int i = 0; i < n; i++) {
        ok = ok && add_items_text(m, chain[i]->input, refusal) &&
             add_items_text(m, chain[i]->output, refusal);
        run_record_release(chain[i]);
    }
    free(chain);
    return ok;
}

cJSON *run_history_messages(run_runtime *runtime, const run_request *request, run_refusal *refusal)
{
    messages m = {cJSON_CreateArray(), NULL};
    if (request->instructions)
        cJSON_AddStringToObject(add_message(&m, "system"), "content", request->instructions);
    bool ok = add_chain(&m, runtime, request->parent, refusal);
    const cJSON *item;
    cJSON_ArrayForEach(item, request->items) add_item(&m, item);
    if (ok)
        return m.list;
    cJSON_Delete(m.list);
    return NULL;
}

size_t run_history_turns(const cJSON *list)
{
    size_t n = 0;
    const cJSON *message;
    cJSON_ArrayForEach(message, list) n += is(message, "role", "user");
    return n;
}

cJSON *run_history_without(const cJSON *list, size_t n_turns)
{
    cJSON *rest = cJSON_CreateArray();
    bool leading = true; /* system messages at the front always stay */
    size_t turn = 0;
    const cJSON *message;
    cJSON_ArrayForEach(message, list)
    {
        leading = leading && (is(message, "role", "system") || is(message, "role", "developer"));
        turn += is(message, "role", "user");
        if (leading || turn > n_turns)
            cJSON_AddItemReferenceToArray(rest, (cJSON *)(uintptr_t)message);
    }
    return rest;
}
