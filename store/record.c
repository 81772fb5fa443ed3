/*
 * store/record.c - responses and conversations as one allocation each. See record.h.
 *
 *     | store_response | int32 tokens … | id\0 | parent\0 | model\0 | … |
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "store/record.h"

#include <stdlib.h>
#include <string.h>

bool record_id_ok(const char *id)
{
    size_t size = id ? strnlen(id, RECORD_MAX_ID + 1) : 0;
    return size > 0 && size <= RECORD_MAX_ID;
}

static pawl_status check_text(const char *name, const char *text, size_t max, pawl_error *error)
{
    if (!text)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a record without %s", name);
    if (strnlen(text, max + 1) > max)
        return pawl_fail(error, PAWL_E_LIMIT, "a record whose %s has more than %zu bytes", name,
                         max);
    return PAWL_OK;
}

pawl_status record_check(const store_response *r, pawl_error *error)
{
    if (!record_id_ok(r->id) || (r->parent_id && !record_id_ok(r->parent_id)) ||
        (r->conversation_id && !record_id_ok(r->conversation_id)))
        return pawl_fail(error, PAWL_E_ARGUMENT, "an id has 1 to %d bytes", RECORD_MAX_ID);
    if (r->conversation_revision && !r->conversation_id)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a conversation's revision without its id");
    if (r->n_tokens > RECORD_MAX_TOKENS)
        return pawl_fail(error, PAWL_E_LIMIT, "a response of %llu tokens; at most %zu are kept",
                         (unsigned long long)r->n_tokens, RECORD_MAX_TOKENS);
    if (r->n_prompt > r->n_tokens || (r->n_tokens && !r->tokens))
        return pawl_fail(error, PAWL_E_ARGUMENT,
                         "a response whose prompt is longer than its timeline");
    const struct {
        const char *name, *text;
        size_t max;
    } members[] = {
        {"model", r->model, RECORD_MAX_NAME},
        {"status", r->status, RECORD_MAX_NAME},
        {"request", r->request, RECORD_MAX_TEXT},
        {"input", r->input, RECORD_MAX_TEXT},
        {"output", r->output, RECORD_MAX_TEXT},
        {"result", r->result, RECORD_MAX_TEXT},
        {"tenant", r->tenant ? r->tenant : "", RECORD_MAX_TENANT},
        {"key", r->key ? r->key : "", STORE_MAX_KEY},
        {"key_hash", r->key ? r->key_hash : "", STORE_ID_SIZE - 1},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        pawl_status status = check_text(members[i].name, members[i].text, members[i].max, error);
        if (status)
            return status;
    }
    return PAWL_OK;
}

pawl_status record_conversation_check(const store_conversation *c, pawl_error *error)
{
    if (!record_id_ok(c->id) || (c->head_id && !record_id_ok(c->head_id)) ||
        (c->base_id && !record_id_ok(c->base_id)))
        return pawl_fail(error, PAWL_E_ARGUMENT, "an id has 1 to %d bytes", RECORD_MAX_ID);
    if (c->head_id && c->base_id)
        return pawl_fail(error, PAWL_E_ARGUMENT, "a conversation with a head needs no base");
    pawl_status status = check_text("tenant", c->tenant ? c->tenant : "", RECORD_MAX_TENANT, error);
    if (!status)
        status = check_text("title", c->title ? c->title : "", RECORD_MAX_TITLE, error);
    if (!status)
        status = check_text("metadata", c->metadata, RECORD_MAX_METADATA, error);
    return status ? status : check_text("tail", c->tail, RECORD_MAX_TEXT, error);
}

/* Copies each text that there is to *at, which moves on. */
static void place_texts(const char **const *texts, size_t n, char *at)
{
    for (size_t i = 0; i < n; i++) {
        if (!*texts[i])
            continue;
        size_t size = strlen(*texts[i]) + 1;
        *texts[i] = memcpy(at, *texts[i], size);
        at += size;
    }
}

static size_t size_of_texts(const char **const *texts, size_t n)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += *texts[i] ? strlen(*texts[i]) + 1 : 0;
    return total;
}

store_response *record_copy(const store_response *r, size_t *size)
{
    store_response copy = *r;
    const char **const texts[] = {
        &copy.id,      &copy.parent_id,       &copy.model,  &copy.status,
        &copy.request, &copy.input,           &copy.output, &copy.result,
        &copy.tenant,  &copy.conversation_id, &copy.key,    &copy.key_hash};
    const size_t n_texts = sizeof texts / sizeof texts[0];
    size_t tokens = (size_t)r->n_tokens * sizeof r->tokens[0];
    size_t total = sizeof copy + tokens + size_of_texts(texts, n_texts);
    char *memory = malloc(total);
    if (!memory)
        return NULL;
    char *at = memory + sizeof copy;
    if (r->tokens)
        memcpy(at, r->tokens, tokens);
    else
        memset(at, 0, tokens);
    copy.tokens = (const int32_t *)(const void *)at;
    place_texts(texts, n_texts, at + tokens);
    memcpy(memory, &copy, sizeof copy);
    *size = total;
    return (store_response *)(void *)memory;
}

store_conversation *record_conversation_copy(const store_conversation *c, size_t *size)
{
    store_conversation copy = *c;
    const char **const texts[] = {&copy.id,   &copy.tenant,  &copy.title,  &copy.metadata,
                                  &copy.tail, &copy.head_id, &copy.base_id};
    const size_t n_texts = sizeof texts / sizeof texts[0];
    size_t total = sizeof copy + size_of_texts(texts, n_texts);
    char *memory = malloc(total);
    if (!memory)
        return NULL;
    place_texts(texts, n_texts, memory + sizeof copy);
    memcpy(memory, &copy, sizeof copy);
    *size = total;
    return (store_conversation *)(void *)memory;
}
