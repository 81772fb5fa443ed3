/*
 * api/fields.c - members of a JSON object, read by type and range. See fields.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/fields.h"

#include <inttypes.h>
#include <string.h>

static const char *type_name(const cJSON *value)
{
    if (cJSON_IsString(value))
        return "a string";
    if (cJSON_IsNumber(value))
        return "a number";
    if (cJSON_IsBool(value))
        return "a boolean";
    if (cJSON_IsArray(value))
        return "an array";
    if (cJSON_IsObject(value))
        return "an object";
    return "null";
}

bool field_wrong_type(const char *path, const cJSON *value, const char *wanted, api_error *error)
{
    return api_refuse(error, 400, "invalid_type", path,
                      "Invalid type for '%s': %s is expected, not %s.", path, wanted,
                      type_name(value));
}

bool field_missing(const char *prefix, const char *name, api_error *error)
{
    char path[API_PARAM_SIZE];
    api_path(path, prefix, name);
    return api_refuse(error, 400, "missing_required_parameter", path,
                      "Missing required parameter: '%s'.", path);
}

bool field_word_is_one(const char *word, const char *words)
{
    size_t size = strlen(word);
    if (size == 0 || strchr(word, ' '))
        return false;
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += size) {
        bool begins = at == words || at[-1] == ' ';
        if (begins && (at[size] == ' ' || at[size] == '\0'))
            return true;
    }
    return false;
}

size_t field_characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

bool field_add(cJSON *object, const char *name, cJSON *item)
{
    bool added =
        name ? cJSON_AddItemToObject(object, name, item) : cJSON_AddItemToArray(object, item);
    if (!added)
        cJSON_Delete(item);
    return added;
}

bool field_text(const cJSON *object, const char *prefix, const char *name, size_t max,
                const char **out, api_error *error)
{
    char path[API_PARAM_SIZE];
    const cJSON *value = json_get(object, name);
    if (!value)
        return true;
    api_path(path, prefix, name);
    if (!cJSON_IsString(value))
        return field_wrong_type(path, value, "a string", error);
    if (strlen(value->valuestring) > max)
        return api_refuse(error, 400, "invalid_value", path,
                          "'%s' is too long: it has %zu bytes and may have %zu.", path,
                          strlen(value->valuestring), max);
    *out = value->valuestring;
    return true;
}

bool field_bool(const cJSON *object, const char *prefix, const char *name, bool *out,
                api_error *error)
{
    char path[API_PARAM_SIZE];
    const cJSON *value = json_get(object, name);
    if (!value)
        return true;
    api_path(path, prefix, name);
    if (!cJSON_IsBool(value))
        return field_wrong_type(path, value, "a boolean", error);
    *out = cJSON_IsTrue(value);
    return true;
}

bool field_number(const cJSON *object, const char *prefix, const char *name, double min, double max,
                  double *out, api_error *error)
{
    char path[API_PARAM_SIZE];
    const cJSON *value = json_get(object, name);
    if (!value)
        return true;
    api_path(path, prefix, name);
    if (!cJSON_IsNumber(value))
        return field_wrong_type(path, value, "a number", error);
    if (!(value->valuedouble >= min && value->valuedouble <= max))
        return api_refuse(error, 400, "invalid_value", path,
                          "Invalid value for '%s': %g is given, between %g and %g is allowed.",
                          path, value->valuedouble, min, max);
    *out = value->valuedouble;
    return true;
}

bool field_integer(const cJSON *object, const char *prefix, const char *name, int64_t min,
                   int64_t max, int64_t *out, api_error *error)
{
    char path[API_PARAM_SIZE];
    const cJSON *value = json_get(object, name);
    if (!value)
        return true;
    api_path(path, prefix, name);
    if (!cJSON_IsNumber(value))
        return field_wrong_type(path, value, "an integer", error);
    double number = value->valuedouble;
    if (!(number >= (double)min && number <= (double)max)) /* false for not-a-number */
        return api_refuse(error, 400, "invalid_value", path,
                          "Invalid value for '%s': %.16g is given, from %" PRId64 " to %" PRId64
                          " is allowed.",
                          path, number, min, max);
    if ((double)(int64_t)number != number)
        return api_refuse(error, 400, "invalid_type", path,
                          "Invalid type for '%s': an integer is expected, not %.16g.", path,
                          number);
    *out = (int64_t)number;
    return true;
}

bool field_array(const cJSON *object, const char *prefix, const char *name, int max,
                 const cJSON **out, api_error *error)
{
    char path[API_PARAM_SIZE];
    const cJSON *value = json_get(object, name);
    if (!value)
        return true;
    api_path(path, prefix, name);
    if (!cJSON_IsArray(value))
        return field_wrong_type(path, value, "an array", error);
    int size = cJSON_GetArraySize(value);
    if (size > max)
        return api_refuse(error, 400, "invalid_value", path,
                          "'%s' is too long: it has %d members and may have %d.", path, size, max);
    *out = value;
    return true;
}

bool field_object(const cJSON *object, const char *prefix, const char *name, const cJSON **out,
                  api_error *error)
{
    char path[API_PARAM_SIZE];
    const cJSON *value = json_get(object, name);
    if (!value)
        return true;
    api_path(path, prefix, name);
    if (!cJSON_IsObject(value))
        return field_wrong_type(path, value, "an object", error);
    *out = value;
    return true;
}

bool field_word(const cJSON *object, const char *prefix, const char *name, const char *words,
                const char **out, api_error *error)
{
    char path[API_PARAM_SIZE];
    const char *word = NULL;
    if (!field_text(object, prefix, name, SIZE_MAX, &word, error))
        return false;
    if (!word)
        return true;
    if (!field_word_is_one(word, words)) {
        api_path(path, prefix, name);
        return api_refuse(error, 400, "invalid_value", path,
                          "Invalid value for '%s': '%.60s'. Allowed are: %s.", path, word, words);
    }
    *out = word;
    return true;
}
