/*
 * run/runtime.c - all models that are served, the store, and the turns on them.
 * See runtime.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "run/runtime.h"

#include "base/log.h"
#include "run/choices.h"
#include "run/keys.h"
#include "run/logs.h"
#include "run/prompt.h"
#include "run/scheduler.h"
#include "run/turn.h"
#include "run/worker.h"
#include "store/kv.h"

#include <stdlib.h>
#include <string.h>

#define WORKER_JOBS 1024
#define DEFAULT_QUEUE 256
#define SECOND_NS ((int64_t)1000000000)
#define KEY_USED_MS 600000 /* a key's last use is kept to so much, to spare the disk */

struct run_runtime {
    const base_clock *clock;
    store *store; /* or NULL                                  */
    kv *kv;       /* or NULL                                  */
    metrics *metrics;
    run_worker *worker;
    run_logs *logs;
    run_model **models; /* n_models of them; fixed after run_open() */
    size_t n_models;
    run_holds holds; /* of conversations */
    atomic_bool stopping;
};

/* Two models of one name are found before the first is loaded, which may take minutes. */
static pawl_status check_names(const run_config *config, pawl_error *error)
{
    char *names[2];
    bool same = false;
    for (size_t i = 1; i < config->n_models; i++) {
        for (size_t k = 0; k < i && !same; k++) {
            for (size_t n = 0; n < 2; n++) {
                const run_model_config *m = &config->models[n ? i : k];
                names[n] = m->name ? strdup(m->name) : run_model_name_of(m->path);
            }
            same = names[0] && names[1] && strcmp(names[0], names[1]) == 0;
            if (same)
                pawl_fail(error, PAWL_E_ARGUMENT,
                          "two models are named %s; give one another name: NAME=PATH", names[0]);
            free(names[0]);
            free(names[1]);
        }
    }
    return same ? PAWL_E_ARGUMENT : PAWL_OK;
}

static pawl_status open_models(run_runtime *r, const run_config *config, pawl_error *error)
{
    run_scheduler_config scheduler = {.queue =
                                          config->queue_limit ? config->queue_limit : DEFAULT_QUEUE,
                                      .per_key = config->key_limit,
                                      .kv = config->kv,
                                      .kv_min_tokens = config->kv_min_tokens,
                                      .clock = config->clock};
    pawl_status status = check_names(config, error);
    if (status)
        return status;
    r->models = calloc(config->n_models + 1, sizeof *r->models);
    if (!r->models)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for %zu models", config->n_models);
    for (size_t i = 0; i < config->n_models; i++) {
        run_model_config model = config->models[i];
        model.metrics = config->metrics;
        status = run_model_open(config->plugins, &model, &r->models[i], error);
        if (status)
            return status;
        r->n_models++;
        status = run_scheduler_open(r->models[i], &scheduler, &r->models[i]->scheduler, error);
        if (status)
            return status;
    }
    return PAWL_OK;
}

/* What is asked for only when somebody wants to know. */
static void collect(void *arg)
{
    const run_runtime *r = arg;
    for (size_t i = 0; i < r->n_models; i++) {
        const run_model *m = r->models[i];
        uint64_t total = 0, unused = 0;
        m->engine_api->capacity(m->engine, &total, &unused);
        metric_set(m->measures[MEASURE_KV_PAGES], (double)total);
        metric_set(m->measures[MEASURE_KV_FREE], (double)unused);
        metric_set(m->measures[MEASURE_KV_USAGE],
                   total ? (double)(total - unused) / (double)total : 0);
        metric_set(m->measures[MEASURE_WAITING], run_scheduler_waiting(m->scheduler, NULL));
    }
}

static run_logs *open_logs(const run_config *config)
{
    int64_t detach_s = config->detach_s ? config->detach_s : 60;
    int64_t events_s = config->events_s ? config->events_s : 3600;
    run_logs_config logs = {.clock = config->clock,
                            .detach_ns = config->detach_s == RUN_AT_ONCE ? 0 : detach_s * SECOND_NS,
                            .window_ns = events_s * SECOND_NS,
                            .max_bytes = config->events_max ? config->events_max : (size_t)8 << 20,
                            .max_total_bytes =
                                config->events_max_all ? config->events_max_all : (size_t)256 << 20,
                            .metrics = config->metrics};
    return run_logs_open(&logs);
}

pawl_status run_open(const run_config *config, run_runtime **runtime, pawl_error *error)
{
    run_runtime *r = calloc(1, sizeof *r);
    if (!r) {
        if (config->store)
            config->store->close(config->store);
        kv_close(config->kv);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for the runtime");
    }
    run_holds_open(&r->holds);
    r->clock = config->clock;
    r->metrics = config->metrics;
    r->store = config->store;
    r->kv = config->kv;
    r->logs = open_logs(config);
    r->worker = r->logs ? run_worker_open(WORKER_JOBS) : NULL;
    pawl_status status = r->worker
                             ? open_models(r, config, error)
                             : pawl_fail(error, PAWL_E_MEMORY, "the worker cannot be started");
    if (status) {
        run_close(r);
        return status;
    }
    metrics_on_write(config->metrics, collect, r);
    *runtime = r;
    return PAWL_OK;
}

void run_close(run_runtime *r)
{
    if (!r)
        return;
    atomic_store(&r->stopping, true);
    run_worker_close(r->worker);
    run_logs_settle(r->logs);
    for (size_t i = 0; i < r->n_models; i++)
        run_scheduler_close(r->models[i]->scheduler);
    kv_close(r->kv); /* before the store, which holds their folder */
    if (r->store)
        r->store->close(r->store); /* the last ENDs come out of here */
    for (size_t i = 0; i < r->n_models; i++)
        run_model_close(r->models[i]);
    run_holds_close(&r->holds);
    run_logs_close(r->logs);
    free(r->models);
    free(r);
}

bool run_defer(run_runtime *r, void (*job)(void *arg), void *arg)
{
    return run_worker_do(r->worker, job, arg);
}

size_t run_model_count(const run_runtime *r)
{
    return r->n_models;
}

run_model *run_model_at(const run_runtime *r, size_t i)
{
    return r->models[i];
}

run_model *run_model_find(const run_runtime *r, const char *name)
{
    for (size_t i = 0; i < r->n_models; i++)
        if (strcmp(r->models[i]->name, name) == 0)
            return r->models[i];
    return NULL;
}

const base_clock *run_clock(const run_runtime *r)
{
    return r->clock;
}

metrics *run_metrics(const run_runtime *r)
{
    return r->metrics;
}

run_logs *run_logs_of(const run_runtime *r)
{
    return r->logs;
}

void run_tend(run_runtime *r)
{
    run_logs_tend(r->logs);
}

size_t run_kept_running(run_runtime *r)
{
    return run_logs_running(r->logs);
}

void run_cancel_kept(run_runtime *r)
{
    run_logs_cancel_all(r->logs);
}

int run_retry_after(const run_runtime *r)
{
    int longest = 1;
    for (size_t i = 0; i < r->n_models; i++) {
        int wait = run_scheduler_wait(r->models[i]->scheduler, NULL);
        longest = wait > longest ? wait : longest;
    }
    return longest;
}

store *run_store(const run_runtime *r)
{
    return r->store;
}

run_holds *run_runtime_holds(run_runtime *r)
{
    return &r->holds;
}

bool run_keys_exist(const run_runtime *r)
{
    return r->store && r->store->key_count(r->store) > 0;
}

enum run_key_answer run_key_find(run_runtime *r, const char *hash, run_caller *caller)
{
    store_key key;
    int64_t now = r->clock->wall_ms(r->clock->context);
    if (!r->store || !r->store->key_find(r->store, hash, caller->key, &key))
        return RUN_KEY_UNKNOWN;
    if (key.revoked_ms)
        return RUN_KEY_REVOKED;
    if (key.expires_ms && key.expires_ms <= now)
        return RUN_KEY_EXPIRED;
    if (now - key.used_ms > KEY_USED_MS)
        r->store->key_mark(r->store, key.id, STORE_KEY_USED, now, NULL, NULL, NULL);
    *caller = (run_caller){.scopes = key.scopes};
    memcpy(caller->key, key.id, sizeof caller->key);
    memcpy(caller->name, key.name, sizeof caller->name);
    memcpy(caller->tenant, key.tenant, sizeof caller->tenant);
    return RUN_KEY_GOOD;
}

/* own: the caller's share of the queue is full, not the queue. */
static bool refuse_busy(run_refusal *refusal, const run_runtime *r, const run_request *request,
                        bool own)
{
    run_scheduler *scheduler = request->model->scheduler;
    refusal->retry_after = run_scheduler_wait(scheduler, own ? &request->caller : NULL);
    if (atomic_load(&r->stopping))
        return run_refuse(refusal, RUN_REFUSED_STOPPING, "", "the server is shutting down");
    if (own)
        return run_refuse(refusal, RUN_REFUSED_KEY_BUSY, "",
                          "%u requests of this key are waiting for this model already; try again "
                          "when some of them have been answered",
                          run_scheduler_waiting(scheduler, &request->caller));
    return run_refuse(refusal, RUN_REFUSED_BUSY, "",
                      "too many requests are waiting for this model; try again shortly");
}

/* What can be seen without the prompt. */
static bool check_request(const run_runtime *r, const run_request *request, run_refusal *refusal)
{
    if (atomic_load(&r->stopping))
        return refuse_busy(refusal, r, request, false);
    if (request->store && request->parent && !request->parent->stored)
        return run_refuse(refusal, RUN_REFUSED_INPUT, "store",
                          "the previous response was not stored (store: false), so what follows "
                          "it cannot be either; send \"store\": false");
    if (request->background && !r->store)
        return run_refuse(refusal, RUN_REFUSED_UNSUPPORTED, "background",
                          "this server stores nothing, and a background response must be stored");
    return true;
}

/* Makes the turns, each before the next. choices: NULL for one alone. All or none. */
static pawl_status new_turns(const run_runtime *r, run_request *request, const run_prompt *prompt,
                             size_t n, run_choices *choices, run_listener listener,
                             run_turn **turns, pawl_error *error)
{
    for (size_t k = 0; k < n; k++) {
        run_prompt own;
        run_listener to = choices ? run_choices_listener(choices, k) : listener;
        pawl_status status = run_prompt_copy(prompt, &own, error);
        if (!status)
            status = run_turn_new(run_request_retain(request), &own, to, r->clock, r->store,
                                  &turns[k], error);
        if (status) {
            while (k--)
                run_turn_release(turns[k]);
            return status;
        }
        turns[k]->sampling.seed += k;
        if (k)
            turns[k - 1]->next = turns[k];
    }
    return PAWL_OK;
}

/* Begins turns whose places are claimed. The scheduler gets the first, and through it
 * the others. */
static void begin_turns(run_scheduler *scheduler, run_turn **turns, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        atomic_fetch_add(&turns[k]->references, 1); /* the caller's */
        run_turn_created(turns[k]);
    }
    if (run_scheduler_submit(scheduler, turns[0]))
        return;
    run_scheduler_unclaim(scheduler, &turns[0]->request->caller, (uint32_t)n);
    for (size_t k = 0; k < n; k++) {
        turns[k]->next = NULL;
        run_turn_end(turns[k], TURN_CANCELLED, NULL);
    }
}

/* Neither the request nor the prompt is taken. log: of the listener, or NULL. */
static bool start_prompt(run_runtime *r, run_request *request, const run_prompt *prompt, size_t n,
                         run_listener listener, run_log *log, run_turn **turns,
                         run_refusal *refusal)
{
    run_scheduler *scheduler = request->model->scheduler;
    pawl_error error = {.struct_size = sizeof error};
    enum run_place place = run_scheduler_claim(scheduler, &request->caller, (uint32_t)n);
    if (place != RUN_PLACED)
        return refuse_busy(refusal, r, request, place == RUN_KEY_FULL);
    run_choices *choices = n > 1 ? run_choices_open(n, listener) : NULL;
    pawl_status status = n > 1 && !choices
                             ? pawl_fail(&error, PAWL_E_MEMORY, "no memory for %zu replies", n)
                             : new_turns(r, request, prompt, n, choices, listener, turns, &error);
    if (!status) {
        if (log)
            run_log_begin(log, turns, n);
        if (request->background) {
            atomic_fetch_add(&turns[0]->references, 1); /* the caller's */
            run_background_begin(r->logs, scheduler, r->store, turns[0]);
        } else {
            begin_turns(scheduler, turns, n);
        }
        return true;
    }
    run_choices_close(choices);
    run_scheduler_unclaim(scheduler, &request->caller, (uint32_t)n);
    return run_refuse(refusal, RUN_REFUSED_INTERNAL, "", "%s", error.message);
}

/* The same, with a log where the request wants one. */
static bool start_kept(run_runtime *r, run_request *request, const run_prompt *prompt, size_t n,
                       run_listener listener, run_turn **turns, run_refusal *refusal)
{
    if (!request->keep_events)
        return start_prompt(r, request, prompt, n, listener, NULL, turns, refusal);
    run_log *log = run_logs_add(r->logs, request, n, listener);
    if (!log)
        return run_refuse(refusal, RUN_REFUSED_INTERNAL, "", "no memory to keep events");
    if (start_prompt(r, request, prompt, n, run_log_listener(log), log, turns, refusal))
        return true;
    run_logs_drop(r->logs, log);
    return false;
}

static bool start(run_runtime *r, run_request *request, size_t n, run_listener listener,
                  run_turn **turns, run_refusal *refusal)
{
    run_prompt prompt;
    bool ok = check_request(r, request, refusal) && run_prompt_build(r, request, &prompt, refusal);
    if (ok) {
        ok = start_kept(r, request, &prompt, n, listener, turns, refusal);
        run_prompt_clear(&prompt);
    }
    run_request_free(request);
    return ok;
}

bool run_start_choices(run_runtime *r, run_request *request, size_t n, run_listener listener,
                       run_turn **turns, run_refusal *refusal)
{
    const run_model *model = request->model;
    if (start(r, request, n, listener, turns, refusal))
        return true;
    metric_add(model->measures[MEASURE_REJECTED_INPUT + refusal->reason], 1);
    return false;
}

bool run_start(run_runtime *r, run_request *request, run_listener listener, run_turn **turn,
               run_refusal *refusal)
{
    return run_start_choices(r, request, 1, listener, turn, refusal);
}

bool run_count(run_runtime *r, run_request *request, uint64_t *n_tokens, run_refusal *refusal)
{
    run_prompt prompt;
    if (!run_prompt_build(r, request, &prompt, refusal))
        return false;
    *n_tokens = prompt.n_tokens;
    run_prompt_clear(&prompt);
    return true;
}

bool run_tokens(run_runtime *r, const run_request *request, int32_t **tokens, uint64_t *n_tokens,
                run_refusal *refusal)
{
    run_prompt prompt;
    if (!run_prompt_measure(r, request, &prompt, refusal))
        return false;
    *tokens = prompt.tokens;
    *n_tokens = prompt.n_tokens;
    prompt.tokens = NULL;
    run_prompt_clear(&prompt);
    return true;
}

/* A row, whosever it is. NULL: there is none, or it cannot be read. */
static store_response *read_row(const run_runtime *r, const char *id, int how)
{
    store_response *row = NULL;
    pawl_error error = {.struct_size = sizeof error};
    if (!r->store)
        return NULL;
    pawl_status status = r->store->get(r->store, id, how, &row, &error);
    if (!status)
        return row;
    if (status != PAWL_E_NOT_FOUND)
        log_write(PAWL_LOG_ERROR, "run", "%s cannot be read: %s", id, error.message);
    return NULL;
}

/* The row of a response that has ended. One that is queued still, though it runs no more,
 * was that of a process that is gone; it is read once more, since it may just have ended. */
static store_response *read_ended(const run_runtime *r, const char *id, int how)
{
    store_response *row = read_row(r, id, how);
    if (!row || strcmp(row->status, STORE_QUEUED) != 0)
        return row;
    free(row);
    run_log *log = run_logs_find(r->logs, NULL, id);
    bool running = log && run_log_is_running(log);
    run_log_release(log);
    return running ? NULL : read_row(r, id, how);
}

run_record *run_find(run_runtime *r, const run_caller *caller, const char *id, bool with_removed)
{
    int how = (with_removed ? STORE_GET_REMOVED : 0) | (caller ? 0 : STORE_GET_TEXTS);
    store_response *row = read_ended(r, id, how);
    if (!row)
        return NULL;
    /* Another tenant's is unknown, in the same words. */
    bool own = !caller || strcmp(row->tenant ? row->tenant : "", caller->tenant) == 0;
    run_record *record = own ? run_record_from_store(row) : NULL;
    free(row);
    return record;
}

bool run_find_answer(run_runtime *r, const run_caller *caller, const char *key,
                     store_answer *answer)
{
    pawl_error error = {.struct_size = sizeof error};
    int64_t since = r->clock->wall_ms(r->clock->context) - STORE_ANSWER_MS;
    if (!r->store)
        return false;
    pawl_status status =
        r->store->answer_find(r->store, caller->tenant, key, since, answer, &error);
    if (status && status != PAWL_E_NOT_FOUND)
        log_write(PAWL_LOG_ERROR, "run", "a key cannot be looked up: %s", error.message);
    return status == PAWL_OK;
}

bool run_remove(run_runtime *r, const char *id, store_done done, void *arg)
{
    return r->store && r->store->remove(r->store, id, done, arg, NULL) == PAWL_OK;
}

/* Whether a JSON array of items has a function_call of this call_id. */
static bool has_call(const char *json, const char *call_id)
{
    cJSON *items = NULL;
    bool found = false;
    const cJSON *item;
    if (json_parse(json, strlen(json), &items, NULL) != PAWL_OK)
        return false;
    cJSON_ArrayForEach(item, items)
    {
        const char *type = json_get_text(item, "type"), *id = json_get_text(item, "call_id");
        found =
            found || (type && id && strcmp(type, "function_call") == 0 && strcmp(id, call_id) == 0);
    }
    cJSON_Delete(items);
    return found;
}

bool run_chain_has_call(run_runtime *r, run_record *from, const char *call_id)
{
    run_record *record = from ? run_record_retain(from) : NULL;
    bool found = false;
    for (int n = 0; record && n < RUN_MAX_CHAIN; n++) {
        found = has_call(record->output, call_id) || has_call(record->input, call_id);
        run_record *parent = NULL;
        if (!found && record->parent)
            parent = run_record_retain(record->parent);
        else if (!found && record->parent_id)
            parent = run_find(r, NULL, record->parent_id, true);
        run_record_release(record);
        record = parent;
    }
    run_record_release(record);
    return found;
}
