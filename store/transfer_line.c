/*
 * store/transfer_line.c - one line of an export, written and read. See transfer.h.
 *
 * Pure; [any].
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/transfer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "store/items.h"
#include "store/record.h"

#define MAX_TIME 9e15 /* what a JSON number carries exactly */

/* ----------------------------------------------------------------- writing --- */

static void add_text(buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    if (text)
        json_add_quoted(out, json_text(text));
    else
        buf_add_text(out, "null");
}

/* JSON of a row as it stands there; what is none spoils the line. */
static void add_json(buf *out, const char *name, const char *text)
{
    cJSON *value = NULL;
    if (json_parse(text, strlen(text), &value, NULL) != PAWL_OK) {
        out->failed = true;
        return;
    }
    buf_printf(out, ",\"%s\":", name);
    if (strpbrk(text, "\r\n"))
        json_add(out, value);
    else
        buf_add_text(out, text);
    cJSON_Delete(value);
}

static void add_tokens(buf *out, const store_response *r, const store_response *parent)
{
    uint64_t same = 0, most = parent ? parent->n_tokens : 0;
    while (same < most && same < r->n_tokens && parent->tokens[same] == r->tokens[same])
        same++;
    buf_printf(out, ",\"n_prompt\":%" PRIu64 ",\"same\":%" PRIu64 ",\"tokens\":[", r->n_prompt,
               same);
    for (uint64_t i = same; i < r->n_tokens; i++)
        buf_printf(out, "%s%" PRId32, i > same ? "," : "", r->tokens[i]);
    buf_add_text(out, "]");
}

/* What is queued ends nowhere else than here: its row says what is true of it then. */
static const char *ended_status(const store_response *r)
{
    return strcmp(r->status, STORE_QUEUED) == 0 ? "failed" : r->status;
}

bool transfer_add_response(buf *out, const store_response *r, bool removed,
                           const store_response *parent)
{
    buf_add_text(out, "{\"type\":\"response\"");
    add_text(out, "id", r->id);
    add_text(out, "parent", r->parent_id);
    buf_printf(out, ",\"removed\":%s", removed ? "true" : "false");
    add_text(out, "conversation", r->conversation_id);
    add_text(out, "tenant", r->tenant ? r->tenant : "");
    add_text(out, "model", r->model);
    add_text(out, "status", ended_status(r));
    buf_printf(out, ",\"created_ms\":%" PRId64 ",\"completed_ms\":%" PRId64, r->created_ms,
               r->completed_ms);
    add_json(out, "request", r->request);
    add_json(out, "result", r->result);
    add_json(out, "input", r->input);
    add_json(out, "output", r->output);
    add_tokens(out, r, parent);
    buf_add_text(out, "}\n");
    return !out->failed;
}

bool transfer_add_conversation(buf *out, const store_conversation *c)
{
    buf_add_text(out, "{\"type\":\"conversation\"");
    add_text(out, "id", c->id);
    add_text(out, "tenant", c->tenant ? c->tenant : "");
    add_text(out, "title", c->title ? c->title : "");
    add_json(out, "metadata", c->metadata);
    add_text(out, "head", c->head_id);
    add_text(out, "base", c->base_id);
    buf_printf(out, ",\"created_ms\":%" PRId64 ",\"updated_ms\":%" PRId64, c->created_ms,
               c->updated_ms);
    add_json(out, "tail", c->tail);
    buf_add_text(out, "}\n");
    return !out->failed;
}

/* ----------------------------------------------------------------- reading --- */

static pawl_status fail(pawl_error *error, const char *name, const char *wanted)
{
    return pawl_fail(error, PAWL_E_FORMAT, "'%s' must be %s", name, wanted);
}

static pawl_status take_text(const transfer_line *line, const char *name, bool may_be_null,
                             const char **out, pawl_error *error)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(line->json, name);
    if (cJSON_IsString(value))
        *out = value->valuestring;
    else if (!may_be_null || (value && !cJSON_IsNull(value)))
        return fail(error, name, may_be_null ? "a text or null" : "a text");
    return PAWL_OK;
}

static pawl_status take_number(const transfer_line *line, const char *name, double min, double max,
                               double *out, pawl_error *error)
{
    const cJSON *value = json_get(line->json, name);
    double number = cJSON_IsNumber(value) ? value->valuedouble : min - 1;
    if (!(number >= min && number <= max) || (double)(int64_t)number != number)
        return pawl_fail(error, PAWL_E_FORMAT, "'%s' must be a whole number from %.0f to %.0f",
                         name, min, max);
    *out = number;
    return PAWL_OK;
}

static pawl_status take_time(const transfer_line *line, const char *name, int64_t *out,
                             pawl_error *error)
{
    double number;
    pawl_status status = take_number(line, name, -MAX_TIME, MAX_TIME, &number, error);
    if (!status)
        *out = (int64_t)number;
    return status;
}

/* A JSON member as a text of its own, which is the line's. list: of items; else an object. */
static pawl_status take_json(transfer_line *line, const char *name, bool list, size_t at,
                             const char **out, pawl_error *error)
{
    const cJSON *value = json_get(line->json, name);
    if (list ? !items_are_ok(value) : !cJSON_IsObject(value))
        return fail(error, name,
                    list ? "an array of items, each with a type and an id" : "an object");
    line->texts[at] = json_print(value);
    if (!line->texts[at])
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for '%s'", name);
    *out = line->texts[at];
    return PAWL_OK;
}

static pawl_status take_tokens(transfer_line *line, pawl_error *error)
{
    store_response *r = &line->response;
    const cJSON *list = json_get(line->json, "tokens"), *each;
    double same = 0, n_prompt = 0;
    if (!cJSON_IsArray(list))
        return fail(error, "tokens", "an array of token ids");
    uint64_t n = (uint64_t)cJSON_GetArraySize(list);
    pawl_status status = take_number(line, "same", 0, (double)RECORD_MAX_TOKENS, &same, error);
    if (!status && same > 0 && !r->parent_id)
        status = pawl_fail(error, PAWL_E_FORMAT, "'same' must be 0 without a parent");
    if (!status && n + (uint64_t)same > RECORD_MAX_TOKENS)
        status = pawl_fail(error, PAWL_E_LIMIT,
                           "a response of %" PRIu64 " tokens; at most %zu are "
                           "kept",
                           n + (uint64_t)same, RECORD_MAX_TOKENS);
    if (!status)
        status = take_number(line, "n_prompt", 0, same + (double)n, &n_prompt, error);
    if (status)
        return status;
    line->tokens = malloc((n + 1) * sizeof *line->tokens);
    if (!line->tokens)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %" PRIu64 " tokens", n);
    size_t i = 0;
    cJSON_ArrayForEach(each, list)
    {
        double id = cJSON_IsNumber(each) ? each->valuedouble : -1;
        if (!(id >= 0 && id <= INT32_MAX) || (double)(int32_t)id != id)
            return pawl_fail(error, PAWL_E_FORMAT, "'tokens[%zu]' must be a token id", i);
        line->tokens[i++] = (int32_t)id;
    }
    line->same = (uint64_t)same;
    r->tokens = line->tokens;
    r->n_tokens = n;
    r->n_prompt = (uint64_t)n_prompt;
    return PAWL_OK;
}

static pawl_status parse_response(transfer_line *line, pawl_error *error)
{
    store_response *r = &line->response;
    const cJSON *removed = json_get(line->json, "removed");
    pawl_status status = take_text(line, "id", false, &r->id, error);
    if (!status)
        status = take_text(line, "parent", true, &r->parent_id, error);
    if (!status)
        status = take_text(line, "conversation", true, &r->conversation_id, error);
    if (!status)
        status = take_text(line, "tenant", false, &r->tenant, error);
    if (!status)
        status = take_text(line, "model", false, &r->model, error);
    if (!status)
        status = take_text(line, "status", false, &r->status, error);
    if (!status && !items_status_ok(r->status))
        status = fail(error, "status", "completed, incomplete, failed or cancelled");
    if (!status && removed && !cJSON_IsBool(removed))
        status = fail(error, "removed", "true or false");
    if (!status)
        status = take_time(line, "created_ms", &r->created_ms, error);
    if (!status)
        status = take_time(line, "completed_ms", &r->completed_ms, error);
    if (!status)
        status = take_json(line, "request", false, 0, &r->request, error);
    if (!status)
        status = take_json(line, "result", false, 1, &r->result, error);
    if (!status)
        status = take_json(line, "input", true, 2, &r->input, error);
    if (!status)
        status = take_json(line, "output", true, 3, &r->output, error);
    if (!status)
        status = take_tokens(line, error);
    line->removed = cJSON_IsTrue(removed);
    if (status)
        return status;
    store_response whole = *r; /* its prompt may reach into the parent's tokens */
    whole.n_prompt = whole.n_prompt > whole.n_tokens ? whole.n_tokens : whole.n_prompt;
    return record_check(&whole, error);
}

static pawl_status parse_conversation(transfer_line *line, pawl_error *error)
{
    store_conversation *c = &line->conversation;
    pawl_status status = take_text(line, "id", false, &c->id, error);
    if (!status)
        status = take_text(line, "tenant", false, &c->tenant, error);
    if (!status)
        status = take_text(line, "title", false, &c->title, error);
    if (!status)
        status = take_text(line, "head", true, &c->head_id, error);
    if (!status)
        status = take_text(line, "base", true, &c->base_id, error);
    if (!status)
        status = take_time(line, "created_ms", &c->created_ms, error);
    if (!status)
        status = take_time(line, "updated_ms", &c->updated_ms, error);
    if (!status)
        status = take_json(line, "metadata", false, 0, &c->metadata, error);
    if (!status)
        status = take_json(line, "tail", true, 1, &c->tail, error);
    return status ? status : record_conversation_check(c, error);
}

static pawl_status parse_end(transfer_line *line, pawl_error *error)
{
    double responses = 0, conversations = 0;
    pawl_status status = take_number(line, "responses", 0, MAX_TIME, &responses, error);
    if (!status)
        status = take_number(line, "conversations", 0, MAX_TIME, &conversations, error);
    line->counts = (transfer_counts){(int64_t)responses, (int64_t)conversations};
    return status;
}

static pawl_status parse_header(transfer_line *line, pawl_error *error)
{
    double version = 0;
    pawl_status status = take_number(line, "pawl_export", 1, 1e6, &version, error);
    if (!status && version > TRANSFER_VERSION)
        status = pawl_fail(error, PAWL_E_UNSUPPORTED,
                           "an export of version %.0f; this program reads up to %d: use a newer "
                           "one",
                           version, TRANSFER_VERSION);
    return status;
}

static pawl_status parse_by_kind(transfer_line *line, pawl_error *error)
{
    const char *type = json_get_text(line->json, "type");
    if (cJSON_GetObjectItemCaseSensitive(line->json, "pawl_export")) {
        line->kind = TRANSFER_HEADER;
        return parse_header(line, error);
    }
    if (type && strcmp(type, "response") == 0) {
        line->kind = TRANSFER_RESPONSE;
        return parse_response(line, error);
    }
    if (type && strcmp(type, "conversation") == 0) {
        line->kind = TRANSFER_CONVERSATION;
        return parse_conversation(line, error);
    }
    if (type && strcmp(type, "end") == 0) {
        line->kind = TRANSFER_END;
        return parse_end(line, error);
    }
    return fail(error, "type", "response, conversation or end");
}

pawl_status transfer_parse(const char *data, size_t size, transfer_line *out, pawl_error *error)
{
    transfer_line line = {.kind = TRANSFER_END};
    pawl_status status = json_parse(data, size, &line.json, error);
    if (!status && !cJSON_IsObject(line.json))
        status = pawl_fail(error, PAWL_E_FORMAT, "a line must be a JSON object");
    if (!status)
        status = parse_by_kind(&line, error);
    if (status)
        transfer_clear(&line);
    else
        *out = line;
    return status;
}

void transfer_clear(transfer_line *line)
{
    cJSON_Delete(line->json);
    for (size_t i = 0; i < sizeof line->texts / sizeof line->texts[0]; i++)
        free(line->texts[i]);
    free(line->tokens);
    *line = (transfer_line){.kind = TRANSFER_END};
}
