/*
 * script/schema.c - the part of JSON Schema that parameters are checked by. See schema.h.
 *
 * Recursion is bounded by JSON_MAX_DEPTH, which parsing has enforced.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_SIZE 200 /* of "value.member[3].…", cut where it is longer */

/* What the value of a keyword must be. */
enum kind { NOTE, TYPE, LIST, ANY, SCHEMAS, NAMES, SCHEMA, SCHEMA_OR_BOOL, COUNT, NUMBER };

static const struct keyword {
    const char *name;
    enum kind kind;
} keywords[] = {
    {"type", TYPE},
    {"enum", LIST},
    {"const", ANY},
    {"properties", SCHEMAS},
    {"required", NAMES},
    {"additionalProperties", SCHEMA_OR_BOOL},
    {"items", SCHEMA},
    {"minItems", COUNT},
    {"maxItems", COUNT},
    {"minLength", COUNT},
    {"maxLength", COUNT},
    {"minimum", NUMBER},
    {"maximum", NUMBER},
    {"exclusiveMinimum", NUMBER},
    {"exclusiveMaximum", NUMBER},
    {"title", NOTE},
    {"description", NOTE},
    {"default", ANY},
    {"examples", LIST},
};

static const char *const types[] = {"object",  "array",   "string", "number",
                                    "integer", "boolean", "null"};

static bool is_type_name(const cJSON *value)
{
    for (size_t i = 0; cJSON_IsString(value) && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(value->valuestring, types[i]) == 0)
            return true;
    return false;
}

static bool are_texts(const cJSON *list, bool type_names)
{
    const cJSON *item;
    if (!cJSON_IsArray(list))
        return false;
    cJSON_ArrayForEach(item, list) if (!cJSON_IsString(item) ||
                                       (type_names && !is_type_name(item))) return false;
    return true;
}

/* ------------------------------------------------------------- the schema itself */

static pawl_status check_at(const cJSON *schema, const char *place, pawl_error *error);

static pawl_status check_members(const cJSON *object, const char *place, pawl_error *error)
{
    const cJSON *member;
    char below[PLACE_SIZE];
    if (!cJSON_IsObject(object))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s must be an object of schemas", place);
    cJSON_ArrayForEach(member, object)
    {
        snprintf(below, sizeof below, "%.100s.%.80s", place, member->string);
        pawl_status status = check_at(member, below, error);
        if (status)
            return status;
    }
    return PAWL_OK;
}

static pawl_status check_keyword(const cJSON *value, enum kind kind, const char *place,
                                 pawl_error *error)
{
    bool good = true;
    const char *wanted = "";
    switch (kind) {
    case ANY:
        return PAWL_OK;
    case NOTE:
        good = cJSON_IsString(value);
        wanted = "a text";
        break;
    case TYPE:
        good = is_type_name(value) || (are_texts(value, true) && cJSON_GetArraySize(value));
        wanted = "object, array, string, number, integer, boolean, null, or a list of these";
        break;
    case LIST:
        good = cJSON_IsArray(value) && cJSON_GetArraySize(value);
        wanted = "a list that is not empty";
        break;
    case NAMES:
        good = are_texts(value, false);
        wanted = "a list of texts";
        break;
    case COUNT:
        good = cJSON_IsNumber(value) && value->valuedouble >= 0 &&
               value->valuedouble <= floor(value->valuedouble);
        wanted = "a whole number from 0";
        break;
    case NUMBER:
        good = cJSON_IsNumber(value);
        wanted = "a number";
        break;
    case SCHEMAS:
        return check_members(value, place, error);
    case SCHEMA_OR_BOOL:
        return cJSON_IsBool(value) ? PAWL_OK : check_at(value, place, error);
    case SCHEMA:
        return check_at(value, place, error);
    }
    return good ? PAWL_OK : pawl_fail(error, PAWL_E_ARGUMENT, "%s must be %s", place, wanted);
}

static pawl_status check_at(const cJSON *schema, const char *place, pawl_error *error)
{
    const cJSON *member;
    if (!cJSON_IsObject(schema))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s must be a schema, an object", place);
    cJSON_ArrayForEach(member, schema)
    {
        size_t i = 0, n = sizeof keywords / sizeof keywords[0];
        char below[PLACE_SIZE];
        while (i < n && strcmp(keywords[i].name, member->string) != 0)
            i++;
        if (i == n)
            return pawl_fail(error, PAWL_E_UNSUPPORTED,
                             "%s has the keyword '%.80s', which is not known here", place,
                             member->string);
        snprintf(below, sizeof below, "%.100s.%.80s", place, member->string);
        pawl_status status = check_keyword(member, keywords[i].kind, below, error);
        if (status)
            return status;
    }
    return PAWL_OK;
}

pawl_status schema_check(const cJSON *schema, pawl_error *error)
{
    return check_at(schema, "the schema", error);
}

/* ------------------------------------------------------------- values */

static bool is_whole(double value)
{
    return value <= floor(value) && isfinite(value);
}

static bool has_type(const cJSON *value, const char *type)
{
    switch (type[0]) {
    case 'o':
        return cJSON_IsObject(value);
    case 'a':
        return cJSON_IsArray(value);
    case 's':
        return cJSON_IsString(value);
    case 'b':
        return cJSON_IsBool(value);
    case 'i':
        return cJSON_IsNumber(value) && is_whole(value->valuedouble);
    default:
        return strcmp(type, "null") == 0 ? cJSON_IsNull(value) : cJSON_IsNumber(value);
    }
}

static pawl_status check_type(const cJSON *wanted, const cJSON *value, const char *place,
                              pawl_error *error)
{
    const cJSON *type;
    char names[100] = "";
    if (cJSON_IsString(wanted)) {
        if (has_type(value, wanted->valuestring))
            return PAWL_OK;
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s must be of type %s", place,
                         wanted->valuestring);
    }
    cJSON_ArrayForEach(type, wanted)
    {
        if (has_type(value, type->valuestring))
            return PAWL_OK;
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used ? " or " : "", type->valuestring);
    }
    return pawl_fail(error, PAWL_E_ARGUMENT, "%s must be of type %s", place, names);
}

static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The limits of one pair of keywords. */
static pawl_status check_range(const cJSON *schema, const char *low, const char *high, double value,
                               const char *what, const char *place, pawl_error *error)
{
    const cJSON *least = cJSON_GetObjectItemCaseSensitive(schema, low);
    const cJSON *most = cJSON_GetObjectItemCaseSensitive(schema, high);
    bool open = low[0] == 'e';
    if (least && (open ? !(value > least->valuedouble) : value < least->valuedouble))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s must have %s %s %.15g", place, what,
                         open ? "above" : "of at least", least->valuedouble);
    if (most && (open ? !(value < most->valuedouble) : value > most->valuedouble))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s must have %s %s %.15g", place, what,
                         open ? "below" : "of at most", most->valuedouble);
    return PAWL_OK;
}

static pawl_status check_ranges(const cJSON *schema, const cJSON *value, const char *place,
                                pawl_error *error)
{
    if (cJSON_IsString(value))
        return check_range(schema, "minLength", "maxLength", (double)characters(value->valuestring),
                           "a length", place, error);
    if (cJSON_IsArray(value))
        return check_range(schema, "minItems", "maxItems", cJSON_GetArraySize(value),
                           "a number of items", place, error);
    if (!cJSON_IsNumber(value))
        return PAWL_OK;
    pawl_status status =
        check_range(schema, "minimum", "maximum", value->valuedouble, "a value", place, error);
    return status ? status
                  : check_range(schema, "exclusiveMinimum", "exclusiveMaximum", value->valuedouble,
                                "a value", place, error);
}

static pawl_status check_listed(const cJSON *schema, const cJSON *value, const char *place,
                                pawl_error *error)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, "enum"), *item;
    const cJSON *only = cJSON_GetObjectItemCaseSensitive(schema, "const");
    bool found = !list;
    cJSON_ArrayForEach(item, list) found = found || cJSON_Compare(item, value, true);
    if (found && (!only || cJSON_Compare(only, value, true)))
        return PAWL_OK;
    char *text = json_print(found ? only : list);
    pawl_status status =
        found ? pawl_fail(error, PAWL_E_ARGUMENT, "%s must be %.200s", place, text ? text : "")
              : pawl_fail(error, PAWL_E_ARGUMENT, "%s must be one of %.200s", place,
                          text ? text : "");
    free(text);
    return status;
}

static pawl_status holds(const cJSON *schema, const cJSON *value, const char *place,
                         pawl_error *error);

static pawl_status check_object(const cJSON *schema, const cJSON *value, const char *place,
                                pawl_error *error)
{
    const cJSON *properties = cJSON_GetObjectItemCaseSensitive(schema, "properties"), *member;
    const cJSON *rest = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    cJSON_ArrayForEach(member, cJSON_GetObjectItemCaseSensitive(schema, "required"))
    {
        if (!cJSON_GetObjectItemCaseSensitive(value, member->valuestring))
            return pawl_fail(error, PAWL_E_ARGUMENT, "%s lacks '%.80s'", place,
                             member->valuestring);
    }
    cJSON_ArrayForEach(member, value)
    {
        char below[PLACE_SIZE];
        const cJSON *own = cJSON_GetObjectItemCaseSensitive(properties, member->string);
        snprintf(below, sizeof below, "%.100s.%.80s", place, member->string);
        if (!own && cJSON_IsFalse(rest))
            return pawl_fail(error, PAWL_E_ARGUMENT, "%s has the unknown member '%.80s'", place,
                             member->string);
        if (!own && cJSON_IsObject(rest))
            own = rest;
        pawl_status status = own ? holds(own, member, below, error) : PAWL_OK;
        if (status)
            return status;
    }
    return PAWL_OK;
}

static pawl_status check_array(const cJSON *schema, const cJSON *value, const char *place,
                               pawl_error *error)
{
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items"), *item;
    int i = 0;
    if (!items)
        return PAWL_OK;
    cJSON_ArrayForEach(item, value)
    {
        char below[PLACE_SIZE];
        snprintf(below, sizeof below, "%.150s[%d]", place, i++);
        pawl_status status = holds(items, item, below, error);
        if (status)
            return status;
    }
    return PAWL_OK;
}

static pawl_status holds(const cJSON *schema, const cJSON *value, const char *place,
                         pawl_error *error)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(schema, "type");
    pawl_status status = type ? check_type(type, value, place, error) : PAWL_OK;
    if (!status)
        status = check_listed(schema, value, place, error);
    if (!status)
        status = check_ranges(schema, value, place, error);
    if (!status && cJSON_IsObject(value))
        status = check_object(schema, value, place, error);
    if (!status && cJSON_IsArray(value))
        status = check_array(schema, value, place, error);
    return status;
}

pawl_status schema_holds(const cJSON *schema, const cJSON *value, const char *what,
                         pawl_error *error)
{
    return schema ? holds(schema, value, what, error) : PAWL_OK;
}

/* ------------------------------------------------------------- texts */

pawl_status schema_typed(const cJSON *schema, const char *name, const char *text, cJSON **value,
                         pawl_error *error)
{
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(schema, "properties"), name);
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(own, "type");
    const char *wanted = cJSON_GetStringValue(type);
    cJSON *made = NULL;
    if (schema && !own &&
        cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties")))
        return pawl_fail(error, PAWL_E_ARGUMENT, "there is no parameter '%.80s'", name);
    bool is_text = !type || (wanted && strcmp(wanted, "string") == 0);
    if (!is_text && json_parse(text, strlen(text), &made, NULL) == PAWL_OK &&
        (!wanted || has_type(made, wanted))) {
        *value = made;
        return PAWL_OK;
    }
    cJSON_Delete(made);
    if (wanted && !is_text)
        return pawl_fail(error, PAWL_E_ARGUMENT, "'%.80s' must be of type %s, as JSON has it", name,
                         wanted);
    made = cJSON_CreateString(text);
    if (!made)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a parameter");
    *value = made;
    return PAWL_OK;
}
