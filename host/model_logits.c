/*
 * host/model_logits.c - `pawl model logits`: what the engine computes, for tests.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "model_lines.h"

#include "run/model.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TOP 1000

/* One line's question, its room for answers, and the sequence it runs on. */
typedef struct question {
    const run_model *model;
    pawl_sequence *sequence;
    int32_t *ids; /* n_ids of them                         */
    uint64_t n_ids;
    uint64_t generate;     /* tokens to generate                    */
    uint64_t rows;         /* last rows of logits wanted            */
    uint32_t top;          /* most likely tokens wanted             */
    int32_t *argmax;       /* n_ids                                 */
    float *logprobs;       /* n_ids: of each id, given those before */
    float *logits;         /* rows * vocab_size                     */
    struct pawl_top *tops; /* top                                   */
    int32_t *generated;    /* generate                              */
} question;

static uint64_t whole(const cJSON *line, const char *name, uint64_t max)
{
    double value = json_get_number(line, name, 0);
    return value <= 0 ? 0 : value > (double)max ? max : (uint64_t)value;
}

static pawl_status read_question(question *q, const cJSON *line, pawl_error *error)
{
    if (json_get(line, "adapters"))
        return pawl_fail(error, PAWL_E_UNSUPPORTED, "adapters: this engine takes none");
    pawl_status status = model_ids(line, "ids", &q->ids, &q->n_ids, error);
    if (status)
        return status;
    if (q->n_ids == 0)
        return pawl_fail(error, PAWL_E_ARGUMENT, "ids: at least one token is wanted");
    q->generate = whole(line, "generate", q->model->info.context_limit);
    q->rows = whole(line, "rows", q->n_ids);
    q->top = (uint32_t)whole(line, "top", MAX_TOP);
    q->argmax = calloc(q->n_ids, sizeof *q->argmax);
    q->logprobs = calloc(q->n_ids, sizeof *q->logprobs);
    q->logits = calloc(q->rows * q->model->info.vocab_size + 1, sizeof *q->logits);
    q->tops = calloc((size_t)q->top + 1, sizeof *q->tops);
    q->generated = calloc(q->generate + 1, sizeof *q->generated);
    if (!q->argmax || !q->logprobs || !q->logits || !q->tops || !q->generated)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the answer");
    return PAWL_OK;
}

static pawl_status submit(const question *q, pawl_slot *slot, pawl_error *error)
{
    uint64_t ticket = 0;
    const pawl_engine_api *api = q->model->engine_api;
    pawl_status status = api->submit(q->model->engine, slot, sizeof *slot, 1, &ticket, error);
    if (!status)
        status = api->wait(q->model->engine, ticket, error);
    if (!status && slot->status)
        status = pawl_fail(error, slot->status,
                           "the engine refused the tokens (status %d): ids below %u and at most "
                           "%llu of them are possible",
                           (int)slot->status, q->model->info.vocab_size,
                           (unsigned long long)q->model->info.context_limit);
    return status;
}

static pawl_status ask(question *q, pawl_error *error)
{
    pawl_sampling greedy = {.struct_size = sizeof greedy, .top_p = 1, .repetition_penalty = 1};
    int32_t next = 0;
    pawl_slot slot = {.sequence = q->sequence,
                      .tokens = q->ids,
                      .n_tokens = q->n_ids,
                      .flags = PAWL_SLOT_SAMPLE,
                      .sampling = &greedy,
                      .out_tokens = &next,
                      .n_top = q->top,
                      .top = q->tops,
                      .logits = q->rows ? q->logits : NULL,
                      .n_logits = q->rows,
                      .input_logprobs = q->logprobs,
                      .input_argmax = q->argmax};
    pawl_status status = submit(q, &slot, error);
    q->top = slot.n_top;
    for (uint64_t i = 0; !status && i < q->generate; i++) {
        q->generated[i] = next;
        if (i + 1 == q->generate)
            break;
        slot = (pawl_slot){.sequence = q->sequence,
                           .tokens = &q->generated[i],
                           .n_tokens = 1,
                           .flags = PAWL_SLOT_SAMPLE,
                           .sampling = &greedy,
                           .out_tokens = &next};
        status = submit(q, &slot, error);
    }
    return status;
}

static cJSON *floats(const float *values, uint64_t n)
{
    cJSON *array = cJSON_CreateArray();
    for (uint64_t i = 0; i < n; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)values[i]));
    return array;
}

static cJSON *answer_json(const question *q)
{
    uint64_t vocab = q->model->info.vocab_size;
    cJSON *result = cJSON_CreateObject();
    cJSON_AddItemToObject(result, "argmax", model_ids_json(q->argmax, q->n_ids));
    cJSON_AddItemToObject(result, "logprobs", floats(q->logprobs + 1, q->n_ids - 1));
    cJSON *rows = cJSON_AddArrayToObject(result, "logits");
    for (uint64_t i = 0; i < q->rows; i++)
        cJSON_AddItemToArray(rows, floats(q->logits + i * vocab, vocab));
    cJSON *tops = cJSON_AddArrayToObject(result, "top");
    for (uint32_t i = 0; i < q->top; i++) {
        cJSON *pair = cJSON_CreateArray();
        cJSON_AddItemToArray(pair, cJSON_CreateNumber(q->tops[i].token));
        cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)q->tops[i].logprob));
        cJSON_AddItemToArray(tops, pair);
    }
    cJSON_AddItemToObject(result, "generated", model_ids_json(q->generated, q->generate));
    return result;
}

static pawl_status answer_line(void *context, const cJSON *line, cJSON **result, pawl_error *error)
{
    question q = {.model = context};
    const pawl_engine_api *api = q.model->engine_api;
    pawl_status status = read_question(&q, line, error);
    if (!status)
        status = api->sequence_open(q.model->engine, &q.sequence, error);
    if (!status)
        status = ask(&q, error);
    if (!status)
        *result = answer_json(&q);
    if (q.sequence)
        api->sequence_close(q.sequence);
    free(q.ids);
    free(q.argmax);
    free(q.logprobs);
    free(q.logits);
    free(q.tops);
    free(q.generated);
    return status;
}

int model_logits(const model_options *options)
{
    char engine_options[64] = "{}", engine_id[64];
    run_model *model = NULL;
    pawl_error error = {.struct_size = sizeof error};
    if (options->numeric)
        snprintf(engine_options, sizeof engine_options, "{\"numeric\":\"%.20s\"}",
                 options->numeric);
    snprintf(engine_id, sizeof engine_id, "dev.pawl.%.40s", options->engine ? options->engine : "");
    run_model_config config = {.path = options->path,
                               .threads = options->threads,
                               .max_context = options->context,
                               .max_sequences = 1,
                               .engine_id = options->engine ? engine_id : NULL,
                               .options = engine_options,
                               .engine_only = true};
    if (run_model_open(options->plugins, &config, &model, &error) != PAWL_OK) {
        fprintf(stderr, "pawl model logits: %s\n", error.message);
        return 1;
    }
    int status = model_lines(answer_line, model);
    run_model_close(model);
    return status;
}
