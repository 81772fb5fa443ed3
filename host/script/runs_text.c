/*
 * script/runs_text.c - answers about pipelines and runs, as JSON. See runs_text.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/runs_text.h"

#include <stdlib.h>
#include <string.h>

static void add_head(buf *out, const store_run *run)
{
    buf_add_text(out, "{\"id\":");
    json_add_quoted(out, json_text(run->id));
    buf_add_text(out, ",\"object\":\"pipeline.run\",\"pipeline\":");
    json_add_quoted(out, json_text(run->pipeline));
    buf_printf(out, ",\"state\":\"%s\",\"created_ms\":%lld,\"updated_ms\":%lld", run->state,
               (long long)run->created_ms, (long long)run->updated_ms);
}

void runs_text_brief(buf *out, const store_run *run)
{
    add_head(out, run);
    buf_add_text(out, "}");
}

/* A question without the key that its answer gets. */
static void add_question(buf *out, const char *json)
{
    cJSON *question = NULL;
    json_parse(json, strlen(json), &question, NULL);
    cJSON_DeleteItemFromObjectCaseSensitive(question, "key");
    if (question)
        json_add(out, question);
    else
        buf_add_text(out, "null");
    cJSON_Delete(question);
}

void runs_text_run(buf *out, const store_run *run)
{
    add_head(out, run);
    buf_printf(out, ",\"params\":%s", run->params);
    if (strcmp(run->state, "done") == 0) {
        buf_printf(out, ",\"result\":%s", run->result);
    } else if (strcmp(run->state, "parked") == 0) {
        buf_add_text(out, ",\"question\":");
        add_question(out, run->result);
    } else if (strcmp(run->state, "running") != 0) {
        buf_printf(out, ",\"error\":%s", run->result);
    }
    buf_add_text(out, "}");
}

void runs_text_pipeline(buf *out, const pipeline *p)
{
    buf_add_text(out, "{\"name\":");
    json_add_quoted(out, json_text(p->name));
    buf_add_text(out, ",\"object\":\"pipeline\",\"description\":");
    if (p->description)
        json_add_quoted(out, json_text(p->description));
    else
        buf_add_text(out, "null");
    buf_add_text(out, ",\"params\":");
    if (p->params)
        json_add(out, p->params);
    else
        buf_add_text(out, "null");
    buf_printf(out, ",\"hash\":\"%s\"}", p->hash);
}

void runs_text_events(buf *out, const store_event *events, size_t n, bool more)
{
    buf_add_text(out, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "%s{\"seq\":%llu,\"at_ms\":%lld,\"type\":\"%s\",\"data\":%s}", i ? "," : "",
                   (unsigned long long)events[i].seq, (long long)events[i].at_ms, events[i].type,
                   events[i].data);
    buf_printf(out, "],\"has_more\":%s}", more ? "true" : "false");
}
