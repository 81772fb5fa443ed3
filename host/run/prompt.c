/*
 * run/prompt.c - a request as the tokens that the engine will see. See prompt.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/prompt.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RENDERED_BYTES (256u << 20)

/* A system part of less is computed again as fast as its state is found. */
#define MIN_CUT_BYTES 512
#define MIN_CUT_TOKENS 128

/* The chat plugin's answer, taken apart. Segments point into json and text. */
typedef struct rendered {
    cJSON *json;            /* what render() wrote                        */
    pawl_segment *segments; /* n_segments of them                         */
    uint64_t n_segments;
} rendered;

static void rendered_clear(rendered *r)
{
    cJSON_Delete(r->json);
    free(r->segments);
    *r = (rendered){0};
}

/* opening: of a reply, at the end. */
static char *chat_request_json(const run_request *request, cJSON *messages, bool opening)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddItemReferenceToObject(json, "messages", messages);
    if (request->tools)
        cJSON_AddItemReferenceToObject(json, "tools", request->tools);
    cJSON_AddStringToObject(json, "tool_choice", request->tools_off ? "none" : "auto");
    cJSON_AddBoolToObject(json, "add_generation_prompt", opening);
    if (request->thinking >= 0)
        cJSON_AddBoolToObject(json, "thinking", request->thinking);
    if (request->reasoning_effort)
        cJSON_AddStringToObject(json, "reasoning_effort", request->reasoning_effort);
    char *text = json_print(json);
    cJSON_Delete(json);
    return text;
}

static bool take_apart(rendered *r, run_refusal *refusal)
{
    const cJSON *parts = json_get(r->json, "parts"), *part;
    size_t n = (size_t)cJSON_GetArraySize(parts);
    r->segments = calloc(n + 1, sizeof *r->segments);
    if (!r->segments || !cJSON_IsArray(parts))
        return run_refuse(refusal, RUN_REFUSED_INTERNAL, "", "the chat dialect wrote no parts");
    cJSON_ArrayForEach(part, parts)
    {
        const char *text = json_get_text(part, "text");
        r->segments[r->n_segments++] = (pawl_segment){
            json_text(text ? text : ""),
            json_get_bool(part, "special", false) ? PAWL_SEGMENT_CONTROL : PAWL_SEGMENT_LITERAL};
    }
    return true;
}

static bool render(const run_model *model, const char *chat_request, rendered *r,
                   run_refusal *refusal)
{
    pawl_error error = {.struct_size = sizeof error};
    buf out;
    buf_init(&out, MAX_RENDERED_BYTES);
    pawl_sink sink = buf_sink(&out);
    pawl_status status =
        model->chat_api->render(model->chat, json_text(chat_request), &sink, &error);
    if (!status)
        status = json_parse(buf_text(&out), out.size, &r->json, &error);
    buf_clear(&out);
    if (status == PAWL_OK)
        return take_apart(r, refusal);
    return run_refuse(refusal, status == PAWL_E_ARGUMENT ? RUN_REFUSED_INPUT : RUN_REFUSED_INTERNAL,
                      "input", "%s", error.message);
}

/* A place in the segments' joined text. */
typedef struct place {
    uint64_t segment;
    uint64_t offset; /* in that segment */
} place;

static void skip_ends(const rendered *r, place *at)
{
    while (at->segment < r->n_segments && at->offset == r->segments[at->segment].text.size)
        *at = (place){at->segment + 1, 0};
}

/* Moves over bytes if the text goes on with them. control: only inside one control
 * segment, so that text of a user never counts as a control token. */
static bool match(const rendered *r, place *at, pawl_bytes bytes, bool control)
{
    place here = *at;
    for (uint64_t i = 0; i < bytes.size;) {
        skip_ends(r, &here);
        if (here.segment == r->n_segments)
            return false;
        const pawl_segment *segment = &r->segments[here.segment];
        uint64_t n = segment->text.size - here.offset;
        if (control && (n < bytes.size || segment->kind != PAWL_SEGMENT_CONTROL))
            return false;
        if (n > bytes.size - i)
            n = bytes.size - i;
        if (memcmp(segment->text.data + here.offset, bytes.data + i, (size_t)n) != 0)
            return false;
        here.offset += n;
        i += n;
    }
    *at = here;
    return true;
}

static uint32_t flags_of(const run_model *model, int32_t token)
{
    return model->tokenizer_api->token_flags(model->tokenizer, token);
}

/* How far a timeline and a rendered text are the same. */
typedef struct common {
    uint64_t n_tokens; /* all that are the same                                */
    place end;         /* behind them                                          */
    uint64_t n_safe;   /* up to the last control token: no merge crosses it    */
    place safe;        /* behind that                                          */
} common;

static common match_timeline(const run_model *model, const rendered *r, const run_record *before)
{
    place at = {0, 0};
    common found = {0};
    bool has_bos =
        model->vocabulary.add_bos && before->n_tokens && before->tokens[0] == model->vocabulary.bos;
    for (found.n_tokens = has_bos; found.n_tokens < before->n_tokens; found.n_tokens++) {
        int32_t token = before->tokens[found.n_tokens];
        pawl_bytes piece = model->tokenizer_api->piece(model->tokenizer, token);
        bool control = flags_of(model, token) & PAWL_TOKEN_CONTROL;
        if (piece.size == 0 || !match(r, &at, piece, control))
            break;
        if (control) {
            found.n_safe = found.n_tokens + 1;
            found.safe = at;
        }
    }
    found.end = at;
    if (found.n_tokens == has_bos)
        found.n_tokens = 0;
    return found;
}

/* Encodes what comes after a place. */
static pawl_status encode_from(const run_model *model, const rendered *r, place at,
                               int32_t **tokens, uint64_t *n_tokens, pawl_error *error)
{
    skip_ends(r, &at);
    pawl_segment kept = {0};
    if (at.segment < r->n_segments) {
        kept = r->segments[at.segment];
        r->segments[at.segment].text.data += at.offset;
        r->segments[at.segment].text.size -= at.offset;
    }
    pawl_status status =
        run_encode(model->tokenizer_api, model->tokenizer, r->segments + at.segment,
                   r->n_segments - at.segment, tokens, n_tokens, error);
    if (at.segment < r->n_segments)
        r->segments[at.segment] = kept;
    return status;
}

/* Puts tokens (freed here) behind the first n of before (borrowed). */
static bool join(run_prompt *prompt, const int32_t *before, uint64_t n, int32_t *tokens,
                 uint64_t n_tokens, run_refusal *refusal)
{
    prompt->tokens = malloc((size_t)(n + n_tokens + 1) * sizeof *prompt->tokens);
    if (!prompt->tokens) {
        free(tokens);
        return run_refuse(refusal, RUN_REFUSED_INTERNAL, "", "no memory for the prompt");
    }
    if (n)
        memcpy(prompt->tokens, before, (size_t)n * sizeof *before);
    if (n_tokens)
        memcpy(prompt->tokens + n, tokens, (size_t)n_tokens * sizeof *tokens);
    prompt->n_tokens = n + n_tokens;
    free(tokens);
    return true;
}

/* The first n of a timeline's tokens and the encoded rest. anywhere: the cut is good only
 * where the rest begins with a control token. False: not possible. */
static bool take_first(const run_model *model, const rendered *r, const run_record *before,
                       uint64_t n, place at, bool anywhere, run_prompt *prompt,
                       run_refusal *refusal)
{
    int32_t *rest = NULL;
    uint64_t n_rest = 0;
    if (n == 0 || encode_from(model, r, at, &rest, &n_rest, NULL) != PAWL_OK)
        return false;
    if (anywhere && !(n_rest && flags_of(model, rest[0]) & PAWL_TOKEN_CONTROL)) {
        free(rest);
        return false;
    }
    prompt->n_taken_over = n;
    return join(prompt, before->tokens, n, rest, n_rest, refusal);
}

/* As much of an earlier timeline as the rendered text begins with, cut at a control token,
 * so that no merge could have run across it. Of another model's only all of it: a part might
 * be the same by chance. */
static bool take_over(const run_model *model, const rendered *r, const run_record *before,
                      run_prompt *prompt, run_refusal *refusal)
{
    if (!before || !before->n_tokens)
        return false;
    common same = match_timeline(model, r, before);
    bool own = !before->model || strcmp(before->model, model->name) == 0;
    if (!own && same.n_tokens < before->n_tokens)
        return false;
    return (same.n_tokens > same.n_safe &&
            take_first(model, r, before, same.n_tokens, same.end, true, prompt, refusal)) ||
           take_first(model, r, before, same.n_safe, same.safe, false, prompt, refusal);
}

static bool encode_all(const run_model *model, const rendered *r, run_prompt *prompt,
                       run_refusal *refusal)
{
    pawl_error error = {.struct_size = sizeof error};
    int32_t *tokens = NULL, bos = model->vocabulary.bos;
    uint64_t n_tokens = 0;
    if (encode_from(model, r, (place){0, 0}, &tokens, &n_tokens, &error) != PAWL_OK)
        return run_refuse(refusal, RUN_REFUSED_INTERNAL, "input", "%s", error.message);
    bool lacks_bos = model->vocabulary.add_bos && bos >= 0 && (!n_tokens || tokens[0] != bos);
    return join(prompt, &bos, lacks_bos, tokens, n_tokens, refusal);
}

static void add_stop_token(run_prompt *prompt, int32_t token)
{
    if (token >= 0 && prompt->n_stop_tokens < RUN_MAX_STOP_TOKENS)
        prompt->stop_tokens[prompt->n_stop_tokens++] = token;
}

static void find_stop_tokens(const run_model *model, const rendered *r, run_prompt *prompt)
{
    const cJSON *stop;
    add_stop_token(prompt, model->vocabulary.eos);
    add_stop_token(prompt, model->vocabulary.eot);
    cJSON_ArrayForEach(stop, json_get(r->json, "stop")) if (cJSON_IsString(stop)) add_stop_token(
        prompt, model->tokenizer_api->token(model->tokenizer, json_text(stop->valuestring)));
}

/* True where so much text cannot fit, however it is tokenised: then it is not encoded,
 * and n_tokens is what it has at least. Normalisation may make text shorter, by less
 * than 4 times. */
static bool too_long(const run_model *model, const rendered *r, uint64_t limit, run_prompt *prompt)
{
    uint64_t bytes = 0, shortest = 4 * (uint64_t)model->longest_piece;
    for (uint64_t i = 0; i < r->n_segments; i++)
        bytes += r->segments[i].text.size;
    if (!shortest || bytes / shortest <= limit)
        return false;
    prompt->n_tokens = bytes / shortest;
    prompt->estimated = true;
    return true;
}

/* Whose timeline the prompt may begin with. */
static const run_record *earlier(const run_request *request)
{
    return request->parent ? request->parent : request->base;
}

/* The messages of the system before all others, in a new array of references. */
static cJSON *system_part(const cJSON *messages, size_t *n_bytes)
{
    cJSON *part = cJSON_CreateArray();
    const cJSON *message;
    cJSON_ArrayForEach(message, messages)
    {
        const char *role = json_get_text(message, "role"), *text;
        if (!role || (strcmp(role, "system") != 0 && strcmp(role, "developer") != 0))
            break;
        text = json_get_text(message, "content");
        *n_bytes += text ? strlen(text) : 0;
        cJSON_AddItemReferenceToArray(part, (cJSON *)(uintptr_t)message);
    }
    return part;
}

/* How many bytes two texts begin with alike. */
static uint64_t common_bytes(const rendered *a, const rendered *b)
{
    place at = {0, 0}, bt = {0, 0};
    for (uint64_t n = 0;; n++) {
        skip_ends(a, &at);
        skip_ends(b, &bt);
        if (at.segment == a->n_segments || bt.segment == b->n_segments ||
            a->segments[at.segment].text.data[at.offset++] !=
                b->segments[bt.segment].text.data[bt.offset++])
            return n;
    }
}

/* How many of the tokens lie within so many bytes of the text. */
static uint64_t tokens_within(const run_model *model, const run_prompt *prompt, uint64_t n_bytes)
{
    bool bos =
        model->vocabulary.add_bos && prompt->n_tokens && prompt->tokens[0] == model->vocabulary.bos;
    uint64_t n = bos;
    while (n < prompt->n_tokens) {
        uint64_t size = model->tokenizer_api->piece(model->tokenizer, prompt->tokens[n]).size;
        if (size > n_bytes)
            break;
        n_bytes -= size;
        n++;
    }
    return n;
}

/* Cuts a prompt behind its system part, whose state other conversations may share. Where the
 * part ends is seen by rendering it alone: the texts are the same up to there. */
static void cut_system_part(const run_request *request, const cJSON *messages, const rendered *r,
                            run_prompt *prompt)
{
    size_t n_bytes = 0;
    cJSON *part = system_part(messages, &n_bytes);
    bool large = cJSON_GetArraySize(part) > 0 && (request->tools || n_bytes >= MIN_CUT_BYTES);
    large = large && !prompt->estimated && !prompt->n_taken_over;
    char *json = large ? chat_request_json(request, part, false) : NULL;
    run_refusal ignored = {0}; /* a dialect may want more than a system part */
    rendered alone = {0};
    if (json && render(request->model, json, &alone, &ignored)) {
        uint64_t n = tokens_within(request->model, prompt, common_bytes(&alone, r));
        if (n >= MIN_CUT_TOKENS && n < prompt->n_tokens)
            prompt->cuts[prompt->n_cuts++] = n;
    }
    rendered_clear(&alone);
    free(json);
    cJSON_Delete(part);
}

static bool build_once(const run_request *request, cJSON *messages, bool whole_history,
                       uint64_t limit, run_prompt *prompt, run_refusal *refusal)
{
    const run_model *model = request->model;
    rendered r = {0};
    run_prompt_clear(prompt);
    prompt->chat_request = chat_request_json(request, messages, request->generate);
    bool ok = prompt->chat_request
                  ? render(model, prompt->chat_request, &r, refusal)
                  : run_refuse(refusal, RUN_REFUSED_INTERNAL, "", "no memory for the prompt");
    if (ok && !too_long(model, &r, limit, prompt))
        ok = (whole_history && take_over(model, &r, earlier(request), prompt, refusal)) ||
             encode_all(model, &r, prompt, refusal);
    if (ok) {
        find_stop_tokens(model, &r, prompt);
        cut_system_part(request, messages, &r, prompt);
    }
    rendered_clear(&r);
    return ok;
}

/* The prompt that the client wrote itself. */
static bool build_raw(const run_request *request, uint64_t limit, run_prompt *prompt,
                      run_refusal *refusal)
{
    uint64_t kind = request->raw_control ? PAWL_SEGMENT_CONTROL : PAWL_SEGMENT_LITERAL;
    pawl_segment segment = {json_text(request->raw_text ? request->raw_text : ""), kind};
    rendered r = {.segments = &segment, .n_segments = 1};
    bool ok = true;
    if (request->raw_tokens)
        ok = join(prompt, request->raw_tokens, request->n_raw_tokens, NULL, 0, refusal);
    else if (!too_long(request->model, &r, limit, prompt))
        ok = encode_all(request->model, &r, prompt, refusal);
    if (!ok)
        return false;
    find_stop_tokens(request->model, &r, prompt);
    return prompt->n_tokens > 0 ||
           run_refuse(refusal, RUN_REFUSED_INPUT, "input", "the prompt is empty; give it a text");
}

static bool is_raw(const run_request *request)
{
    return request->raw_text || request->raw_tokens;
}

static bool refuse_length(const run_request *request, const run_prompt *prompt,
                          run_refusal *refusal)
{
    unsigned long long room = request->model->info.context_limit;
    return run_refuse(refusal, RUN_REFUSED_TOO_LONG, "input",
                      "This model's maximum context length is %llu tokens. However, your %s "
                      "resulted in %s%llu tokens, and a reply needs at least 1 more.",
                      room, is_raw(request) ? "prompt" : "messages",
                      prompt->estimated ? "at least " : "", (unsigned long long)prompt->n_tokens);
}

/* Drops the fewest oldest turns with which the prompt fits, found by bisection; the last
 * turn always stays. */
static bool build_truncated(const run_request *request, const cJSON *messages, uint64_t limit,
                            run_prompt *prompt, run_refusal *refusal)
{
    size_t low = 1, high = run_history_turns(messages);
    bool ok = true;
    if (high < 2)
        return true;
    for (high--; ok;) {
        size_t n = low + (high - low) / 2;
        cJSON *rest = run_history_without(messages, n);
        ok = build_once(request, rest, false, limit, prompt, refusal);
        cJSON_Delete(rest);
        if (low == high)
            break;
        if (prompt->n_tokens > limit)
            low = n + 1;
        else
            high = n;
    }
    return ok;
}

/* limit: of the tokens. */
static bool build_chat(run_runtime *runtime, const run_request *request, uint64_t limit,
                       run_prompt *prompt, run_refusal *refusal)
{
    if (!request->model->chat)
        return run_refuse(refusal, RUN_REFUSED_UNSUPPORTED, "model",
                          "the model %s has no chat template that is known here; it serves plain "
                          "completions only",
                          request->model->name);
    cJSON *messages = run_history_messages(runtime, request, refusal);
    if (!messages)
        return false;
    bool ok = true;
    if (cJSON_GetArraySize(messages) > 0 || request->generate) /* else: warms up nothing */
        ok = build_once(request, messages, true, limit, prompt, refusal);
    if (ok && prompt->n_tokens > limit && request->truncate)
        ok = build_truncated(request, messages, limit, prompt, refusal);
    cJSON_Delete(messages);
    return ok;
}

static bool build(run_runtime *runtime, const run_request *request, uint64_t limit,
                  run_prompt *prompt, run_refusal *refusal)
{
    *prompt = (run_prompt){0};
    bool ok = is_raw(request) ? build_raw(request, limit, prompt, refusal)
                              : build_chat(runtime, request, limit, prompt, refusal);
    if (ok && prompt->n_tokens > limit)
        ok = refuse_length(request, prompt, refusal);
    if (!ok)
        run_prompt_clear(prompt);
    return ok;
}

bool run_prompt_build(run_runtime *runtime, const run_request *request, run_prompt *prompt,
                      run_refusal *refusal)
{
    uint64_t limit = request->model->info.context_limit - request->generate;
    return build(runtime, request, limit, prompt, refusal);
}

bool run_prompt_measure(run_runtime *runtime, const run_request *request, run_prompt *prompt,
                        run_refusal *refusal)
{
    return build(runtime, request, UINT64_MAX, prompt, refusal);
}

pawl_status run_prompt_copy(const run_prompt *from, run_prompt *to, pawl_error *error)
{
    run_prompt copy = *from;
    copy.tokens = malloc((size_t)(from->n_tokens + 1) * sizeof *copy.tokens);
    copy.chat_request = from->chat_request ? strdup(from->chat_request) : NULL;
    if (!copy.tokens || (from->chat_request && !copy.chat_request)) {
        run_prompt_clear(&copy);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a prompt of %llu tokens",
                         (unsigned long long)from->n_tokens);
    }
    if (from->n_tokens)
        memcpy(copy.tokens, from->tokens, (size_t)from->n_tokens * sizeof *copy.tokens);
    *to = copy;
    return PAWL_OK;
}

void run_prompt_clear(run_prompt *prompt)
{
    free(prompt->tokens);
    free(prompt->chat_request);
    *prompt = (run_prompt){0};
}
