/*
 * api/choices_parse.c - what Chat Completions and Completions have alike in a request.
 *
 * How many replies, as a stream or not, in which class, and biases for single tokens. Pure; runs
 * where parsing runs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <stdlib.h>
#include <string.h>

#include "api/fields.h"

#define MAX_BIAS 100.0

static bool parse_stream(parse_state *s, parse_choices *choices)
{
    static const char prefix[] = "stream_options";
    const cJSON *options = NULL;
    return field_bool(s->body, "", "stream", &choices->stream, s->error) &&
           field_object(s->body, "", prefix, &options, s->error) &&
           field_bool(options, prefix, "include_usage", &choices->include_usage, s->error);
}

/* The token that a key of logit_bias names: decimal digits. */
static bool token_of(parse_state *s, const char *key, int32_t *token)
{
    uint32_t vocabulary = s->request->model->vocabulary.vocab_size;
    size_t digits = strspn(key, "0123456789");
    unsigned long id = digits && digits < 10 ? strtoul(key, NULL, 10) : vocabulary;
    if (digits == 0 || key[digits] || id >= vocabulary)
        return api_refuse(s->error, 400, "invalid_value", "logit_bias",
                          "'%.40s' in 'logit_bias' is no token of this model; its tokens are the "
                          "ids below %u.",
                          key, vocabulary);
    *token = (int32_t)id;
    return true;
}

static bool parse_bias(parse_state *s)
{
    run_request *request = s->request;
    const cJSON *biases = NULL;
    const cJSON *each;
    if (!field_object(s->body, "", "logit_bias", &biases, s->error))
        return false;
    size_t n = (size_t)cJSON_GetArraySize(biases);
    if (n == 0)
        return true;
    if (n > PARSE_MAX_BIASES)
        return api_refuse(s->error, 400, "invalid_value", "logit_bias",
                          "'logit_bias' has %zu entries and may have %d.", n, PARSE_MAX_BIASES);
    request->bias_ids = calloc(n, sizeof *request->bias_ids);
    request->bias = calloc(n, sizeof *request->bias);
    if (!request->bias_ids || !request->bias)
        return api_refuse_memory(s->error);
    n = 0;
    cJSON_ArrayForEach(each, biases)
    {
        double bias = 0;
        if (cJSON_IsNull(each))
            continue;
        if (!token_of(s, each->string, &request->bias_ids[n]) ||
            !field_number(biases, "logit_bias", each->string, -MAX_BIAS, MAX_BIAS, &bias, s->error))
            return false;
        request->bias[n++] = (float)bias;
    }
    request->sampling.bias_ids = request->bias_ids;
    request->sampling.bias = request->bias;
    request->sampling.n_bias = n;
    return true;
}

bool choices_parse(parse_state *state, parse_choices *choices)
{
    int64_t n = 1;
    if (!field_integer(state->body, "", "n", 1, RUN_MAX_CHOICES, &n, state->error) ||
        !parse_stream(state, choices) || !parse_bias(state) || !params_priority(state))
        return false;
    choices->n = (size_t)n;
    state->request->store = false; /* there is no way to read such an answer back */
    return true;
}
