/*
 * host/model_lines.c - JSON lines in, one answer a line out. See model_lines.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model_lines.h"

#include <stdlib.h>
#include <string.h>

static const char *code_name(pawl_status status)
{
    static const char *const names[] = {
        "ok",   "invalid_argument", "unsupported", "not_found", "bad_format", "out_of_memory",
        "busy", "cancelled",        "limit",       "device",    "internal"};
    size_t n = sizeof names / sizeof names[0];
    return status >= 0 && (size_t)status < n ? names[status] : "internal";
}

static cJSON *error_json(const pawl_error *error, pawl_status status)
{
    cJSON *result = cJSON_CreateObject(), *body = cJSON_AddObjectToObject(result, "error");
    cJSON_AddStringToObject(body, "code", code_name(status));
    cJSON_AddStringToObject(body, "message", error->message);
    return result;
}

static void answer_line(model_answer answer, void *context, const char *text, size_t size)
{
    pawl_error error = {.struct_size = sizeof error};
    cJSON *line = NULL, *result = NULL;
    pawl_status status = json_parse_with_nuls(text, size, &line, &error);
    if (!status && !cJSON_IsObject(line))
        status = pawl_fail(&error, PAWL_E_FORMAT, "a JSON object is wanted on each line");
    if (!status)
        status = answer(context, line, &result, &error);
    if (status)
        result = error_json(&error, status);
    char *out = json_print(result);
    puts(out ? out : "{\"error\":{\"code\":\"out_of_memory\",\"message\":\"no memory\"}}");
    fflush(stdout);
    free(out);
    cJSON_Delete(result);
    cJSON_Delete(line);
}

int model_lines(model_answer answer, void *context)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t size;
    while ((size = getline(&text, &room, stdin)) > 0) {
        while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
            size--;
        if (size > 0)
            answer_line(answer, context, text, (size_t)size);
    }
    free(text);
    return 0;
}

pawl_status model_ids(const cJSON *line, const char *name, int32_t **ids, uint64_t *n,
                      pawl_error *error)
{
    const cJSON *array = json_get(line, name), *item;
    if (!cJSON_IsArray(array))
        return pawl_fail(error, PAWL_E_ARGUMENT, "%s: an array of token ids is wanted", name);
    int32_t *out = malloc(((size_t)cJSON_GetArraySize(array) + 1) * sizeof *out);
    uint64_t count = 0;
    if (!out)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for token ids");
    cJSON_ArrayForEach(item, array)
    {
        double value = cJSON_IsNumber(item) ? item->valuedouble : -1;
        if (value < 0 || value > INT32_MAX || value != (double)(int32_t)value) {
            free(out);
            return pawl_fail(error, PAWL_E_ARGUMENT, "%s[%llu]: a token id is wanted", name,
                             (unsigned long long)count);
        }
        out[count++] = (int32_t)value;
    }
    *ids = out;
    *n = count;
    return PAWL_OK;
}

cJSON *model_ids_json(const int32_t *ids, uint64_t n)
{
    cJSON *array = cJSON_CreateArray();
    for (uint64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber(ids[i]));
    return array;
}
