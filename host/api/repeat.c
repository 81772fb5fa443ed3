/*
 * api/repeat.c - a request with an Idempotency-Key. See repeat.h.
 *
 * The digest is of the JSON as we would write it, so that spaces do not matter, without
 * what says how it travels. There is one worker, so that between looking and starting
 * nobody else starts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "api/repeat.h"

#include <string.h>

#include "run/logs.h"

#define MAX_TEXT ((size_t)512 << 20)

static bool is_key(const char *key)
{
    size_t size = strlen(key);
    if (size == 0 || size > STORE_MAX_KEY)
        return false;
    for (size_t i = 0; i < size; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return false;
    return true;
}

/* A member of a frame that belongs to the socket, not to what is asked. */
static bool is_transport(const char *name)
{
    return strcmp(name, "type") == 0 || strcmp(name, "stream_id") == 0 ||
           strcmp(name, "idempotency_key") == 0;
}

static bool digest(const char *endpoint, const cJSON *body, char hash[DIGEST_HEX_SIZE])
{
    buf text;
    const cJSON *each;
    buf_init(&text, MAX_TEXT);
    buf_add_text(&text, endpoint);
    cJSON_ArrayForEach(each, body)
    {
        if (is_transport(each->string))
            continue;
        buf_add_text(&text, "\n");
        json_add_quoted(&text, json_text(each->string));
        json_add(&text, each);
    }
    bool ok = !text.failed && digest_bytes(text.data, text.size, hash, NULL) == PAWL_OK;
    buf_clear(&text);
    return ok;
}

static bool refuse_other(api_error *error, const char *name)
{
    return api_refuse(error, 422, "idempotency_key_reused", name,
                      "This Idempotency-Key was used before with another request. Give each "
                      "request a key of its own, and the same one only to its repetitions.");
}

static void count_repeat(run_runtime *runtime)
{
    static const metric_spec repeats = {METRIC_COUNTER,
                                        "pawl_idempotent_repeats_total",
                                        "Requests that were answered as their key was before.",
                                        {0},
                                        NULL};
    metric_add(metrics_single(run_metrics(runtime), &repeats), 1);
}

bool repeat_open(repeat *r, run_runtime *runtime, const run_caller *caller, const char *key,
                 const char *name, const char *endpoint, const cJSON *body, api_error *error)
{
    store_answer answer;
    bool other = false;
    *r = (repeat){.key = key};
    if (!key)
        return true;
    if (!is_key(key))
        return api_refuse(error, 400, "invalid_value", name,
                          "An Idempotency-Key has 1 to %d printable ASCII characters.",
                          STORE_MAX_KEY);
    if (!digest(endpoint, body, r->hash))
        return api_refuse_memory(error);
    r->log = run_logs_find_key(run_logs_of(runtime), caller->tenant, key);
    if (r->log) {
        other = strcmp(run_log_hash(r->log), r->hash) != 0;
    } else if (run_find_answer(runtime, caller, key, &answer)) {
        r->record = run_find(runtime, caller, answer.response_id, false);
        other = r->record && strcmp(answer.hash, r->hash) != 0;
    }
    if (other) {
        repeat_clear(r);
        return refuse_other(error, name);
    }
    if (r->log || r->record)
        count_repeat(runtime);
    return true;
}

void repeat_clear(repeat *r)
{
    run_log_release(r->log);
    run_record_release(r->record);
    *r = (repeat){0};
}
