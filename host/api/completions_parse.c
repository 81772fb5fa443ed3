/*
 * api/completions_parse.c - a Completions request as a whole. See parse.h.
 *
 * The prompt goes to the model as it is: no dialect, so models without a chat template
 * serve it too. A text is literal; the names of control tokens in it count only with
 * "parse_special": true, and a prompt of token ids holds what it likes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/parse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/fields.h"

#define DEFAULT_MAX_TOKENS 16 /* as OpenAI has it */

bool token_ids_parse(parse_state *s, const cJSON *array, const char *path, int32_t **ids,
                     uint64_t *n_ids)
{
    uint32_t vocabulary = s->request->model->vocabulary.vocab_size;
    int32_t *made = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *made);
    const cJSON *each;
    size_t n = 0;
    if (!made)
        return api_refuse_memory(s->error);
    cJSON_ArrayForEach(each, array)
    {
        double id = cJSON_IsNumber(each) ? each->valuedouble : -1;
        char place[API_PARAM_SIZE];
        api_path_at(place, path, n);
        bool ok = id >= 0 && id < vocabulary && (double)(int32_t)id == id;
        if (!ok && !cJSON_IsNumber(each))
            field_wrong_type(place, each, "a token id", s->error);
        else if (!ok)
            api_refuse(s->error, 400, "invalid_value", place,
                       "'%s' is %.15g, which is no token of this model; its tokens are the ids "
                       "below %" PRIu32 ".",
                       place, id, vocabulary);
        if (!ok) {
            free(made);
            return false;
        }
        made[n++] = (int32_t)id;
    }
    *ids = made;
    *n_ids = n;
    return true;
}

static bool take_text(parse_state *s, const char *text)
{
    s->request->raw_text = strdup(text);
    return s->request->raw_text || api_refuse_memory(s->error);
}

bool prompt_parse(parse_state *s, const char *name)
{
    const cJSON *prompt = json_get(s->body, name);
    char path[API_PARAM_SIZE];
    if (!prompt)
        return field_missing("", name, s->error);
    if (cJSON_IsString(prompt))
        return take_text(s, prompt->valuestring);
    if (!cJSON_IsArray(prompt))
        return field_wrong_type(name, prompt, "a string or an array of token ids", s->error);
    const cJSON *first = prompt->child;
    if (!first)
        return api_refuse(s->error, 400, "invalid_value", name, "'%s' is empty.", name);
    if (cJSON_IsNumber(first))
        return token_ids_parse(s, prompt, name, &s->request->raw_tokens, &s->request->n_raw_tokens);
    api_path_at(path, name, 0);
    if (!cJSON_IsString(first) && !cJSON_IsArray(first))
        return field_wrong_type(path, first, "a string or a token id", s->error);
    if (first->next)
        return api_refuse(s->error, 400, "unsupported_value", name,
                          "'%s' has %d prompts; send one in each request, they run side by side.",
                          name, cJSON_GetArraySize(prompt));
    if (cJSON_IsString(first))
        return take_text(s, first->valuestring);
    return token_ids_parse(s, first, path, &s->request->raw_tokens, &s->request->n_raw_tokens);
}

static bool refuse_unsupported(parse_state *s, const parse_choices *choices)
{
    const char *suffix = "";
    int64_t best_of = (int64_t)choices->n;
    if (!field_text(s->body, "", "suffix", SIZE_MAX, &suffix, s->error) ||
        !field_integer(s->body, "", "best_of", 1, 20, &best_of, s->error))
        return false;
    if (*suffix)
        return api_refuse(
            s->error, 400, "unsupported_parameter", "suffix",
            "'suffix' is not supported here: nothing is filled in between two texts.");
    if (best_of > (int64_t)choices->n)
        return api_refuse(s->error, 400, "unsupported_value", "best_of",
                          "'best_of' is not supported here; 'n' gives several replies.");
    return true;
}

static bool parse_limits(parse_state *s)
{
    int64_t max = DEFAULT_MAX_TOKENS;
    int64_t min = 0;
    if (!field_integer(s->body, "", "max_tokens", 0, FIELD_MAX_INTEGER, &max, s->error) ||
        !field_integer(s->body, "", "min_tokens", 0, FIELD_MAX_INTEGER, &min, s->error) ||
        !field_bool(s->body, "", "ignore_eos", &s->request->ignore_eos, s->error))
        return false;
    if (min > max)
        return api_refuse(s->error, 400, "invalid_value", "min_tokens",
                          "'min_tokens' may not be more than 'max_tokens'.");
    s->request->generate = max > 0;
    s->request->max_tokens = (uint64_t)max;
    s->request->min_tokens = (uint64_t)min;
    return true;
}

/* A number here: how many alternatives; 0 gives the chosen tokens alone. */
static bool parse_logprobs(parse_state *s, const parse_choices *choices)
{
    int64_t top = -1;
    if (!field_integer(s->body, "", "logprobs", 0, RUN_MAX_TOP_LOGPROBS, &top, s->error))
        return false;
    if (top >= 0 && choices->echo)
        return api_refuse(s->error, 400, "unsupported_value", "logprobs",
                          "'logprobs' together with 'echo' is not supported here: there are none "
                          "for the prompt.");
    s->request->logprobs = top >= 0;
    s->request->top_logprobs = top > 0 ? (uint32_t)top : 0;
    return true;
}

run_request *completions_parse(const cJSON *body, const parse_env *env, parse_choices *choices,
                               api_error *error)
{
    run_request *request = parse_new_request(env);
    parse_state state = {.body = body, .env = env, .request = request, .error = error};
    *choices = (parse_choices){.n = 1};
    if (request)
        request->echo = cJSON_CreateObject();
    if (!request || !request->echo) {
        run_request_free(request);
        api_refuse_memory(error);
        return NULL;
    }
    if (parse_model(&state) && choices_parse(&state, choices) &&
        refuse_unsupported(&state, choices) && params_sampling(&state) && params_stop(&state) &&
        params_cache_salt(&state) && parse_limits(&state) &&
        field_bool(body, "", "echo", &choices->echo, error) &&
        field_bool(body, "", "parse_special", &request->raw_control, error) &&
        parse_logprobs(&state, choices) && prompt_parse(&state, "prompt") && keep_parse(&state))
        return request;
    run_request_free(request);
    return NULL;
}
