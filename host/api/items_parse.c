/*
 * api/items_parse.c - the input items of a request, brought to one form.
 *
 * Clients leave out what they like: a string stands for a user message, a role for the
 * type, a string for the parts of a message. What run, the store and a later reader of
 * input_items get is always whole: every item has type, id and status, a message has
 * parts, an output_text has annotations and logprobs. Order is kept.
 *
 * An output of a call must find its call, in this input before it or in the chain of
 * the parent; item_reference is replaced by a copy of the item that it names, looked
 * for in the same places. Pure but for the environment's lookups.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <stdlib.h>
#include <string.h>

#include "api/fields.h"

typedef struct items_state {
    parse_state *parse;
    api_error *error;
    const char *name;   /* of the list in the request                       */
    cJSON *items;       /* what is done so far; the request's               */
    const char **calls; /* call_ids of the function_calls in items, borrowed */
    size_t n_calls;
    unsigned lookups; /* calls that were looked for in the chain          */
    unsigned visits;  /* records that references have looked into         */
} items_state;

static bool refuse_no_memory(items_state *s, cJSON *item)
{
    cJSON_Delete(item);
    return api_refuse_memory(s->error);
}

/* An item with type, id and status: the id that was given, or a new one. NULL: refused. */
static cJSON *new_item(items_state *s, const cJSON *given, const char *path, const char *type,
                       const char *id_prefix)
{
    const char *id = NULL;
    const char *status = "completed";
    char made[CLOCK_ID_SIZE];
    if (!field_text(given, path, "id", PARSE_MAX_ID, &id, s->error) ||
        !field_word(given, path, "status", "in_progress completed incomplete", &status, s->error))
        return NULL;
    if (!id || !*id) {
        clock_new_id(s->parse->env->clock, id_prefix, made);
        id = made;
    }
    cJSON *item = cJSON_CreateObject();
    if (item && cJSON_AddStringToObject(item, "type", type) &&
        cJSON_AddStringToObject(item, "id", id) && cJSON_AddStringToObject(item, "status", status))
        return item;
    refuse_no_memory(s, item);
    return NULL;
}

/* {"type":"output_text","text","annotations":[],"logprobs":[]} or {"type":…,"text"}. */
static bool add_text_part(items_state *s, cJSON *parts, const char *type, const char *text)
{
    cJSON *part = cJSON_CreateObject();
    bool ok = part && cJSON_AddStringToObject(part, "type", type) &&
              cJSON_AddStringToObject(part, "text", text);
    if (ok && strcmp(type, "output_text") == 0)
        ok =
            cJSON_AddArrayToObject(part, "annotations") && cJSON_AddArrayToObject(part, "logprobs");
    if (!ok)
        return refuse_no_memory(s, part);
    return field_add(parts, NULL, part) || api_refuse_memory(s->error);
}

static bool add_refusal(items_state *s, cJSON *parts, const cJSON *given, const char *path)
{
    const char *text = NULL;
    if (!field_text(given, path, "refusal", SIZE_MAX, &text, s->error))
        return false;
    if (!text)
        return field_missing(path, "refusal", s->error);
    cJSON *part = cJSON_CreateObject();
    if (!part || !cJSON_AddStringToObject(part, "type", "refusal") ||
        !cJSON_AddStringToObject(part, "refusal", text))
        return refuse_no_memory(s, part);
    return field_add(parts, NULL, part) || api_refuse_memory(s->error);
}

static bool refuse_part(items_state *s, const char *path, const char *type, bool assistant)
{
    char place[API_PARAM_SIZE];
    api_path(place, path, "type");
    if (strcmp(type, "input_image") == 0)
        return api_refuse(s->error, 400, "unsupported_value", place,
                          "This model takes no images; leave parts of type 'input_image' out.");
    if (strcmp(type, "input_file") == 0 || strcmp(type, "input_audio") == 0)
        return api_refuse(
            s->error, 400, "unsupported_value", place,
            "This model takes no files and no audio; give their text as 'input_text'.");
    return api_refuse(s->error, 400, "invalid_value", place,
                      "Invalid value for '%s': '%.60s'. Allowed are: input_text, output_text%s.",
                      place, type, assistant ? ", refusal" : "");
}

/* text_type: what the texts become, whichever of the two names they came under. */
static bool parse_part(items_state *s, cJSON *parts, const cJSON *part, const char *path,
                       const char *text_type)
{
    const char *type = NULL;
    const char *text = NULL;
    bool assistant = strcmp(text_type, "output_text") == 0;
    if (!cJSON_IsObject(part))
        return field_wrong_type(path, part, "an object", s->error);
    if (!field_text(part, path, "type", SIZE_MAX, &type, s->error))
        return false;
    if (!type)
        return field_missing(path, "type", s->error);
    if (assistant && strcmp(type, "refusal") == 0)
        return add_refusal(s, parts, part, path);
    if (!field_word_is_one(type, "input_text output_text"))
        return refuse_part(s, path, type, assistant);
    if (!field_text(part, path, "text", SIZE_MAX, &text, s->error))
        return false;
    if (!text)
        return field_missing(path, "text", s->error);
    return add_text_part(s, parts, text_type, text);
}

/* name: "content" of a message, "output" of a call's output. */
static bool parse_parts(items_state *s, cJSON *parts, const cJSON *item, const char *path,
                        const char *name, const char *text_type)
{
    const cJSON *given = NULL;
    const cJSON *each;
    char list[API_PARAM_SIZE];
    size_t i = 0;
    if (!field_array(item, path, name, PARSE_MAX_PARTS, &given, s->error))
        return false;
    api_path(list, path, name);
    cJSON_ArrayForEach(each, given)
    {
        char place[API_PARAM_SIZE];
        api_path_at(place, list, i++);
        if (!parse_part(s, parts, each, place, text_type))
            return false;
    }
    return true;
}

static cJSON *parse_message(items_state *s, const cJSON *given, const char *path)
{
    const char *role = NULL;
    const char *phase = NULL;
    const cJSON *content = json_get(given, "content");
    if (!field_word(given, path, "role", "user assistant system developer", &role, s->error) ||
        !field_word(given, path, "phase", "commentary final_answer", &phase, s->error))
        return NULL;
    if (!role || !content) {
        field_missing(path, role ? "content" : "role", s->error);
        return NULL;
    }
    cJSON *item = new_item(s, given, path, "message", "msg_");
    if (!item)
        return NULL;
    cJSON *parts = NULL;
    if (!cJSON_AddStringToObject(item, "role", role) ||
        (phase && !cJSON_AddStringToObject(item, "phase", phase)) ||
        !(parts = cJSON_AddArrayToObject(item, "content"))) {
        refuse_no_memory(s, item);
        return NULL;
    }
    const char *text_type = strcmp(role, "assistant") == 0 ? "output_text" : "input_text";
    bool ok = cJSON_IsString(content) ? add_text_part(s, parts, text_type, content->valuestring)
                                      : parse_parts(s, parts, given, path, "content", text_type);
    if (ok)
        return item;
    cJSON_Delete(item);
    return NULL;
}

static cJSON *parse_call(items_state *s, const cJSON *given, const char *path)
{
    const char *call_id = NULL;
    const char *name = NULL;
    const char *arguments = NULL;
    if (!field_text(given, path, "call_id", PARSE_MAX_ID, &call_id, s->error) ||
        !field_text(given, path, "name", PARSE_MAX_NAME, &name, s->error) ||
        !field_text(given, path, "arguments", SIZE_MAX, &arguments, s->error))
        return NULL;
    if (!call_id || !name || !arguments) {
        field_missing(path, !call_id ? "call_id" : !name ? "name" : "arguments", s->error);
        return NULL;
    }
    cJSON *item = new_item(s, given, path, "function_call", "fc_");
    if (!item)
        return NULL;
    cJSON *id = cJSON_AddStringToObject(item, "call_id", call_id);
    if (!id || !cJSON_AddStringToObject(item, "name", name) ||
        !cJSON_AddStringToObject(item, "arguments", arguments)) {
        refuse_no_memory(s, item);
        return NULL;
    }
    return item;
}

static bool call_is_known(items_state *s, const char *call_id)
{
    const parse_env *env = s->parse->env;
    run_record *parent = s->parse->request->parent;
    for (size_t i = 0; i < s->n_calls; i++)
        if (strcmp(s->calls[i], call_id) == 0)
            return true;
    return parent && s->lookups++ < PARSE_MAX_LOOKUPS &&
           env->has_call(env->context, parent, call_id);
}

static cJSON *parse_call_output(items_state *s, const cJSON *given, const char *path)
{
    char place[API_PARAM_SIZE];
    const char *call_id = NULL;
    const cJSON *output = json_get(given, "output");
    if (!field_text(given, path, "call_id", PARSE_MAX_ID, &call_id, s->error))
        return NULL;
    if (!call_id || !output) {
        field_missing(path, call_id ? "output" : "call_id", s->error);
        return NULL;
    }
    if (!call_is_known(s, call_id)) {
        api_path(place, path, "call_id");
        api_refuse(s->error, 400, "invalid_value", place,
                   "No tool call found for function call output with call_id '%s': its "
                   "function_call must come before it, in the input, in the chain of "
                   "'previous_response_id' or in the conversation.",
                   call_id);
        return NULL;
    }
    if (!cJSON_IsString(output) && !cJSON_IsArray(output)) {
        api_path(place, path, "output");
        field_wrong_type(place, output, "a string or an array of parts", s->error);
        return NULL;
    }
    cJSON *item = new_item(s, given, path, "function_call_output", "fco_");
    if (!item)
        return NULL;
    cJSON *copy =
        cJSON_IsString(output) ? cJSON_CreateString(output->valuestring) : cJSON_CreateArray();
    if (!cJSON_AddStringToObject(item, "call_id", call_id) || !field_add(item, "output", copy)) {
        refuse_no_memory(s, item);
        return NULL;
    }
    if (cJSON_IsString(output) || parse_parts(s, copy, given, path, "output", "input_text"))
        return item;
    cJSON_Delete(item);
    return NULL;
}

/* The texts of a reasoning item: "summary" or "content". An absent list is an empty one. */
static bool parse_thoughts(items_state *s, cJSON *item, const cJSON *given, const char *path,
                           const char *name, const char *type)
{
    char list[API_PARAM_SIZE];
    const cJSON *thoughts = NULL;
    const cJSON *each;
    size_t i = 0;
    cJSON *parts = cJSON_AddArrayToObject(item, name);
    if (!parts)
        return api_refuse_memory(s->error);
    if (!field_array(given, path, name, PARSE_MAX_PARTS, &thoughts, s->error))
        return false;
    api_path(list, path, name);
    cJSON_ArrayForEach(each, thoughts)
    {
        char place[API_PARAM_SIZE];
        const char *given_type = type;
        const char *text = NULL;
        api_path_at(place, list, i++);
        if (!cJSON_IsObject(each))
            return field_wrong_type(place, each, "an object", s->error);
        if (!field_word(each, place, "type", type, &given_type, s->error) ||
            !field_text(each, place, "text", SIZE_MAX, &text, s->error))
            return false;
        if (!text)
            return field_missing(place, "text", s->error);
        if (!add_text_part(s, parts, type, text))
            return false;
    }
    return true;
}

static cJSON *parse_reasoning(items_state *s, const cJSON *given, const char *path)
{
    const char *encrypted = NULL; /* none of ours: accepted, and nothing can be done with it */
    if (!field_text(given, path, "encrypted_content", SIZE_MAX, &encrypted, s->error))
        return NULL;
    cJSON *item = new_item(s, given, path, "reasoning", "rs_");
    if (item && parse_thoughts(s, item, given, path, "summary", "summary_text") &&
        parse_thoughts(s, item, given, path, "content", "reasoning_text"))
        return item;
    cJSON_Delete(item);
    return NULL;
}

static const cJSON *item_with_id(const cJSON *items, const char *id)
{
    const cJSON *each;
    cJSON_ArrayForEach(each, items)
    {
        const char *other = json_get_text(each, "id");
        if (other && strcmp(other, id) == 0)
            return each;
    }
    return NULL;
}

/* A copy of the item out of a record's JSON array, or NULL. */
static cJSON *item_in_text(const char *text, const char *id)
{
    cJSON *items = NULL;
    if (!text || !strstr(text, id) || json_parse(text, strlen(text), &items, NULL) != PAWL_OK)
        return NULL;
    const cJSON *found = item_with_id(items, id);
    cJSON *copy = found ? cJSON_Duplicate(found, true) : NULL;
    cJSON_Delete(items);
    return copy;
}

static cJSON *item_in_chain(items_state *s, const char *id)
{
    const parse_env *env = s->parse->env;
    run_record *record = s->parse->request->parent;
    cJSON *found = NULL;
    if (record)
        run_record_retain(record);
    while (record && !found && s->visits++ < PARSE_MAX_VISITS) {
        found = item_in_text(record->output, id);
        if (!found)
            found = item_in_text(record->input, id);
        run_record *next = record->parent ? run_record_retain(record->parent)
                           : record->parent_id
                               ? env->find_record(env->context, record->parent_id, true)
                               : NULL;
        run_record_release(record);
        record = next;
    }
    run_record_release(record);
    return found;
}

static cJSON *parse_reference(items_state *s, const cJSON *given, const char *path)
{
    const char *id = NULL;
    if (!field_text(given, path, "id", PARSE_MAX_ID, &id, s->error))
        return NULL;
    if (!id || !*id) {
        field_missing(path, "id", s->error);
        return NULL;
    }
    const cJSON *here = item_with_id(s->items, id);
    cJSON *item = here ? cJSON_Duplicate(here, true) : item_in_chain(s, id);
    if (!item) {
        char place[API_PARAM_SIZE];
        api_path(place, path, "id");
        api_refuse(s->error, 404, "item_not_found", place,
                   "Item with id '%s' not found: it must be in the input before its reference, "
                   "in the chain of 'previous_response_id' or in the conversation.",
                   id);
    }
    return item;
}

static cJSON *parse_by_type(items_state *s, const cJSON *given, const char *path)
{
    const char *type = NULL;
    char place[API_PARAM_SIZE];
    if (!cJSON_IsObject(given)) {
        field_wrong_type(path, given, "an object", s->error);
        return NULL;
    }
    if (!field_text(given, path, "type", SIZE_MAX, &type, s->error))
        return NULL;
    if (!type && json_get(given, "role"))
        type = "message";
    else if (!type && cJSON_GetArraySize(given) == 1 && json_get(given, "id"))
        type = "item_reference";
    if (!type) {
        field_missing(path, "type", s->error);
        return NULL;
    }
    if (strcmp(type, "message") == 0)
        return parse_message(s, given, path);
    if (strcmp(type, "function_call") == 0)
        return parse_call(s, given, path);
    if (strcmp(type, "function_call_output") == 0)
        return parse_call_output(s, given, path);
    if (strcmp(type, "reasoning") == 0)
        return parse_reasoning(s, given, path);
    if (strcmp(type, "item_reference") == 0)
        return parse_reference(s, given, path);
    api_path(place, path, "type");
    api_refuse(s->error, 400, "unsupported_value", place,
               "Items of type '%.60s' are not supported here. Supported are: message, "
               "function_call, function_call_output, reasoning, item_reference.",
               type);
    return NULL;
}

static void note_call(items_state *s, const cJSON *item)
{
    const char *type = json_get_text(item, "type");
    const char *call_id = json_get_text(item, "call_id");
    if (type && call_id && strcmp(type, "function_call") == 0)
        s->calls[s->n_calls++] = call_id;
}

static bool parse_list(items_state *s, const cJSON *input)
{
    const cJSON *each;
    size_t i = 0;
    size_t n = (size_t)cJSON_GetArraySize(input) + (size_t)cJSON_GetArraySize(s->items);
    s->calls = calloc(n + 1, sizeof *s->calls);
    if (!s->calls)
        return api_refuse_memory(s->error);
    cJSON_ArrayForEach(each, s->items)
    {
        note_call(s, each);
    }
    cJSON_ArrayForEach(each, input)
    {
        char path[API_PARAM_SIZE];
        api_path_at(path, s->name, i++);
        cJSON *item = parse_by_type(s, each, path);
        if (!item)
            return false;
        if (!field_add(s->items, NULL, item))
            return api_refuse_memory(s->error);
        note_call(s, item);
    }
    return true;
}

/* Gives all items from the n-th on ids of our own: in a conversation an id means one item,
 * and clients send the same ones twice. */
static bool give_ids(items_state *s, int n)
{
    static const char *const prefixes[][2] = {
        {"function_call", "fc_"}, {"function_call_output", "fco_"}, {"reasoning", "rs_"}};
    const cJSON *each;
    cJSON_ArrayForEach(each, s->items)
    {
        char id[CLOCK_ID_SIZE];
        const char *type = json_get_text(each, "type"), *prefix = "msg_";
        if (n-- > 0)
            continue;
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (type && strcmp(type, prefixes[i][0]) == 0)
                prefix = prefixes[i][1];
        clock_new_id(s->parse->env->clock, prefix, id);
        cJSON *member = cJSON_GetObjectItemCaseSensitive(each, "id");
        if (!cJSON_SetValuestring(member, id)) {
            cJSON *made = cJSON_CreateString(id);
            if (!made ||
                !cJSON_ReplaceItemInObjectCaseSensitive((cJSON *)(uintptr_t)each, "id", made))
                return api_refuse_memory(s->error);
        }
    }
    return true;
}

/* A string is one message of the user. */
static bool parse_string(items_state *s, const char *text)
{
    cJSON *given = cJSON_CreateObject();
    if (!given || !cJSON_AddStringToObject(given, "role", "user") ||
        !cJSON_AddStringToObject(given, "content", text))
        return refuse_no_memory(s, given);
    cJSON *item = parse_message(s, given, "input");
    cJSON_Delete(given);
    return item && (field_add(s->items, NULL, item) || api_refuse_memory(s->error));
}

static bool open_items(items_state *s, parse_state *state, const char *name)
{
    run_request *request = state->request;
    *s = (items_state){.parse = state, .error = state->error, .name = name};
    if (!request->items)
        request->items = cJSON_CreateArray();
    s->items = request->items;
    return s->items || api_refuse_memory(state->error);
}

bool items_parse(parse_state *state)
{
    items_state s;
    run_request *request = state->request;
    const cJSON *input = json_get(state->body, "input");
    if (!open_items(&s, state, "input"))
        return false;
    int n_before = cJSON_GetArraySize(s.items);
    bool may_be_empty = request->parent || !request->generate || n_before > 0;
    bool ok;
    if (!input)
        return may_be_empty || field_missing("", "input", state->error);
    if (cJSON_IsString(input)) {
        ok = parse_string(&s, input->valuestring);
    } else if (!cJSON_IsArray(input)) {
        return field_wrong_type("input", input, "a string or an array of items", state->error);
    } else {
        ok = field_array(state->body, "", "input", PARSE_MAX_ITEMS, &input, state->error) &&
             parse_list(&s, input);
        free(s.calls);
    }
    if (ok && !may_be_empty && cJSON_GetArraySize(s.items) == 0)
        return api_refuse(state->error, 400, "invalid_value", "input",
                          "'input' is empty; give a text or at least one item.");
    return ok && (!request->conversation || give_ids(&s, n_before));
}

bool items_parse_added(parse_state *state)
{
    items_state s;
    const cJSON *items = NULL;
    if (!open_items(&s, state, "items") ||
        !field_array(state->body, "", "items", PARSE_MAX_ADDED, &items, state->error))
        return false;
    int n_before = cJSON_GetArraySize(s.items);
    if (n_before + cJSON_GetArraySize(items) > RUN_MAX_TAIL)
        return api_refuse(state->error, 400, "invalid_value", "items",
                          "The conversation has %d items that no response has seen, and may have "
                          "%d.",
                          n_before, RUN_MAX_TAIL);
    bool ok = parse_list(&s, items);
    free(s.calls);
    return ok && give_ids(&s, n_before);
}
