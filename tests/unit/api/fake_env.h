/*
 * fake_env.h - a parse_env without a runtime, for the tests of host/api.
 *
 * There is one model, "tiny", whose tokens are bytes, and a small store:
 *
 *   resp_root    completed; asked "First", called get_time as call_known, item fc_root
 *   resp_child   completed; its parent is resp_root, known by id alone
 *   resp_failed  failed
 *
 * and conversations: conv_full goes on from resp_root and has one more message, msg_tail;
 * conv_empty has nothing in it; conv_busy is held by somebody.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef FAKE_ENV_H
#define FAKE_ENV_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/parse.h"

typedef struct fake_world {
    run_model model;
} fake_world;

static inline run_model *fake_model(void *context, const char *name)
{
    fake_world *world = context;
    return strcmp(name, "tiny") == 0 ? &world->model : NULL;
}

static inline const char *fake_model_name(void *context, size_t i)
{
    (void)context;
    return i == 0 ? "tiny" : NULL;
}

static inline run_record *fake_record(const char *id, const char *parent, const char *status,
                                      const char *input, const char *output)
{
    run_record *record = run_record_new();
    assert_non_null(record);
    record->id = strdup(id);
    record->parent_id = parent ? strdup(parent) : NULL;
    record->model = strdup("tiny");
    record->status = status;
    record->created_ms = 1700000000123;
    record->completed_ms = 1700000002456;
    record->request = strdup("{\"model\":\"tiny\"}");
    record->input = strdup(input);
    record->output = strdup(output);
    record->result = strdup("{}");
    return record;
}

static inline run_record *fake_find(void *context, const char *id, bool with_removed)
{
    (void)context;
    (void)with_removed;
    if (strcmp(id, "resp_root") == 0)
        return fake_record(
            "resp_root", NULL, "completed",
            "[{\"type\":\"message\",\"id\":\"msg_root\",\"role\":\"user\",\"content\":"
            "[{\"type\":\"input_text\",\"text\":\"First\"}]}]",
            "[{\"type\":\"function_call\",\"id\":\"fc_root\",\"call_id\":\"call_known\","
            "\"name\":\"get_time\",\"arguments\":\"{}\"}]");
    if (strcmp(id, "resp_child") == 0)
        return fake_record("resp_child", "resp_root", "completed", "[]", "[]");
    if (strcmp(id, "resp_failed") == 0)
        return fake_record("resp_failed", NULL, "failed", "[]", "[]");
    return NULL;
}

static inline bool fake_has_call(void *context, run_record *from, const char *call_id)
{
    (void)context;
    return strcmp(call_id, "call_known") == 0 &&
           (strcmp(from->id, "resp_root") == 0 || strcmp(from->id, "resp_child") == 0);
}

static inline enum run_conversation_answer fake_conversation(void *context, const char *id,
                                                             bool hold, run_conversation **out)
{
    bool full = strcmp(id, "conv_full") == 0;
    (void)hold;
    if (strcmp(id, "conv_busy") == 0)
        return RUN_CONVERSATION_HELD;
    if (!full && strcmp(id, "conv_empty") != 0)
        return RUN_CONVERSATION_UNKNOWN;
    run_conversation *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->id = strdup(id);
    c->metadata = strdup("{}");
    c->tail = cJSON_Parse(full ? "[{\"type\":\"message\",\"id\":\"msg_tail\",\"role\":\"user\","
                                 "\"content\":[]}]"
                               : "[]");
    c->head_id = full ? strdup("resp_root") : NULL;
    c->head = full ? fake_find(context, "resp_root", false) : NULL;
    *out = c;
    return RUN_CONVERSATION_FOUND;
}

static inline pawl_bytes fake_piece(const pawl_tokenizer *tokenizer, int32_t token)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz";
    (void)tokenizer;
    return (pawl_bytes){token >= 'a' && token <= 'z' ? letters + token - 'a' : "?", 1};
}

static inline pawl_status fake_encode(const pawl_tokenizer *tokenizer, const pawl_segment *segments,
                                      uint64_t n_segments, int32_t *tokens, uint64_t room,
                                      uint64_t *needed, pawl_error *error)
{
    (void)tokenizer;
    (void)error;
    *needed = 0;
    for (uint64_t i = 0; i < n_segments; i++)
        for (uint64_t k = 0; k < segments[i].text.size; k++, ++*needed)
            if (*needed < room)
                tokens[*needed] = (unsigned char)segments[i].text.data[k];
    return PAWL_OK;
}

static inline parse_env fake_env(fake_world *world)
{
    static const pawl_tokenizer_api tokenizer = {
        .struct_size = sizeof tokenizer, .encode = fake_encode, .piece = fake_piece};
    memset(world, 0, sizeof *world);
    world->model.tokenizer_api = &tokenizer;
    world->model.vocabulary.vocab_size = 256;
    world->model.vocabulary.bos = -1;
    world->model.info.context_limit = 100;
    return (parse_env){.clock = clock_system(),
                       .context = world,
                       .find_model = fake_model,
                       .model_name = fake_model_name,
                       .find_record = fake_find,
                       .has_call = fake_has_call,
                       .find_conversation = fake_conversation};
}

static inline cJSON *fake_json(const char *text)
{
    cJSON *value = NULL;
    pawl_error error;
    if (json_parse(text, strlen(text), &value, &error) != PAWL_OK)
        fail_msg("%s in %s", error.message, text);
    return value;
}

/* The request of a body that must be accepted. */
static inline run_request *fake_accept(const char *text)
{
    fake_world *world = malloc(sizeof *world);
    parse_env env = fake_env(world);
    api_error error;
    cJSON *body = fake_json(text);
    run_request *request = responses_parse(body, &env, &error);
    cJSON_Delete(body);
    free(world);
    if (!request)
        fail_msg("refused: %s (%s) for %s", error.message, error.param, text);
    request->model = NULL;
    return request;
}

#endif /* FAKE_ENV_H */
