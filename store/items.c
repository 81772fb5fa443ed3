/*
 * store/items.c - what the JSON of a row must be. See items.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/items.h"

#include <string.h>

bool items_status_ok(const char *status)
{
    static const char *const known[] = {"completed", "incomplete", "failed", "cancelled"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(status, known[i]) == 0)
            return true;
    return false;
}

static cJSON *parse(const char *text)
{
    cJSON *value = NULL;
    return json_parse(text, strlen(text), &value, NULL) == PAWL_OK ? value : NULL;
}

bool items_object_ok(const char *text)
{
    cJSON *value = parse(text);
    bool ok = cJSON_IsObject(value);
    cJSON_Delete(value);
    return ok;
}

bool items_are_ok(const cJSON *list)
{
    const cJSON *each;
    if (!cJSON_IsArray(list))
        return false;
    cJSON_ArrayForEach(each, list)
    {
        if (!cJSON_IsObject(each) || !json_get_text(each, "type") || !json_get_text(each, "id"))
            return false;
    }
    return true;
}

bool items_list_ok(const char *text)
{
    cJSON *value = parse(text);
    bool ok = items_are_ok(value);
    cJSON_Delete(value);
    return ok;
}
