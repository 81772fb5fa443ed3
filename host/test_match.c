/*
 * host/test_match.c - whether what a pipeline gave is what its test wants. See test_match.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "test_match.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SHOWN 300 /* bytes of a value in a message */
#define MAX_PLACE 200
#define MAX_EVENTS 10000

static bool differs(const cJSON *wanted, const cJSON *got, const char *what, buf *why)
{
    char *w = wanted ? json_print(wanted) : NULL, *g = got ? json_print(got) : NULL;
    buf_printf(why, "%s is %.*s; wanted: %.*s", what, MAX_SHOWN, g ? g : "not there", MAX_SHOWN,
               w ? w : "nothing");
    free(w);
    free(g);
    return false;
}

static bool match_lists(const cJSON *wanted, const cJSON *got, const char *what, buf *why)
{
    char place[MAX_PLACE];
    const cJSON *w = wanted->child, *g = got->child;
    if (cJSON_GetArraySize(wanted) != cJSON_GetArraySize(got))
        return differs(wanted, got, what, why);
    for (int i = 1; w; w = w->next, g = g->next, i++) {
        snprintf(place, sizeof place, "%s[%d]", what, i);
        if (!test_match(w, g, place, why))
            return false;
    }
    return true;
}

static bool match_objects(const cJSON *wanted, const cJSON *got, const char *what, buf *why)
{
    char place[MAX_PLACE];
    const cJSON *w;
    cJSON_ArrayForEach(w, wanted)
    {
        snprintf(place, sizeof place, "%s.%s", what, w->string);
        if (!test_match(w, json_get(got, w->string), place, why))
            return false;
    }
    return true;
}

/* An empty table of Lua's is an object, whatever was meant. */
static bool is_empty(const cJSON *value)
{
    return (cJSON_IsObject(value) || cJSON_IsArray(value)) && !value->child;
}

bool test_match(const cJSON *wanted, const cJSON *got, const char *what, buf *why)
{
    if (got && is_empty(wanted) && cJSON_IsArray(got))
        return is_empty(got) || differs(wanted, got, what, why);
    if (got && cJSON_IsArray(wanted) && cJSON_IsArray(got))
        return match_lists(wanted, got, what, why);
    if (got && cJSON_IsObject(wanted) && cJSON_IsObject(got))
        return match_objects(wanted, got, what, why);
    return (got && cJSON_Compare(wanted, got, true)) || differs(wanted, got, what, why);
}

bool test_match_events(const cJSON *wanted, const cJSON *got, buf *why)
{
    const cJSON *w, *g;
    buf unused;
    bool taken[MAX_EVENTS] = {false};
    cJSON_ArrayForEach(w, wanted)
    {
        bool found = false;
        int i = 0;
        cJSON_ArrayForEach(g, got)
        {
            buf_init(&unused, 4096);
            if (!found && i < MAX_EVENTS && !taken[i] && test_match(w, g, "event", &unused))
                found = taken[i] = true;
            buf_clear(&unused);
            i++;
        }
        if (!found)
            return differs(w, got, "what it emitted", why);
    }
    return true;
}
