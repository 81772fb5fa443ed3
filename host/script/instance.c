/*
 * script/instance.c - one run of a pipeline, from its row to its row. See instance.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/instance.h"

#include "base/log.h"
#include "script/schema.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_TITLE 200

struct instance {
    run_runtime *runtime;
    const base_clock *clock;
    store *store;       /* NULL: nothing is kept                   */
    pipeline *pipeline; /* a reference                             */
    store_run row;      /* as it is in the store; texts are below  */
    char id[CLOCK_ID_SIZE];
    char *path;
    char *input;
    char tenant[STORE_KEY_NAME_SIZE];
    atomic_bool cancel;
    pending_hub *hub;
    journal *journal;
    script *script;       /* NULL: it could not be opened            */
    script_result failed; /* then: why                               */
    bool ended;
};

/* ------------------------------------------------------------- waiting for the disk */

typedef struct row_write {
    pending base;
    pawl_status status;
    pawl_error error;
} row_write;

static void destroy_write(pending *p)
{
    free(p);
}

/* Store thread. */
static void on_written(void *arg, pawl_status status, const pawl_error *error)
{
    row_write *w = arg;
    w->status = status;
    if (error)
        w->error = *error;
    pending_end(&w->base);
    pending_release(&w->base);
}

/* Puts a row, or a step where row is NULL, and waits. */
static pawl_status write_once(store *kept, const store_run *row, const char *text,
                              const store_addition *more, pawl_error *error)
{
    static const pending_kind kind = {.destroy = destroy_write};
    pending_hub *hub = pending_hub_open(NULL, NULL);
    row_write *w = calloc(1, sizeof *w);
    if (!hub || !w) {
        pending_hub_close(hub);
        free(w);
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a write");
    }
    w->error.struct_size = sizeof w->error;
    pending_init(&w->base, hub, &kind);
    pawl_status status = row ? kept->run_put(kept, row, text, on_written, w, error)
                             : kept->run_add(kept, more, on_written, w, error);
    if (status) {
        pending_release(&w->base);
    } else {
        while (!pending_ended(&w->base))
            pending_hub_wait(hub, 1000);
        status = w->status;
        if (status && error)
            *error = w->error;
    }
    pending_release(&w->base);
    pending_hub_close(hub);
    return status;
}

/* The same; a store that has too much to write is asked again for a while. */
static pawl_status write_now(store *kept, const store_run *row, const char *text,
                             const store_addition *more, pawl_error *error)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    pawl_status status;
    for (int tries = 500;; tries--) {
        status = write_once(kept, row, text, more, error);
        if (status != PAWL_E_BUSY || tries == 0)
            return status;
        nanosleep(&pause, NULL);
    }
}

static pawl_status put_row(instance *i, const char *state, const char *result, const char *text,
                           pawl_error *error)
{
    if (!i->store)
        return PAWL_OK;
    i->row.state = state;
    i->row.result = result;
    i->row.updated_ms = i->clock->wall_ms(i->clock->context);
    pawl_status status = write_now(i->store, &i->row, text, NULL, error);
    i->row.result = "null";
    return status;
}

/* ------------------------------------------------------------- input */

pawl_status instance_check_input(const pipeline *p, const char *input, pawl_error *error)
{
    cJSON *value = NULL;
    pawl_status status = json_parse(input, strlen(input), &value, error);
    if (!status && !cJSON_IsObject(value))
        status = pawl_fail(error, PAWL_E_ARGUMENT, "the input is a JSON object");
    if (!status)
        status = schema_holds(p->params, value, "the input", error);
    cJSON_Delete(value);
    return status;
}

/* ------------------------------------------------------------- making one */

static void free_instance(instance *i)
{
    script_result_clear(&i->failed);
    journal_close(i->journal);
    pending_hub_close(i->hub);
    pipeline_release(i->pipeline);
    free(i->path);
    free(i->input);
    free(i);
}

static instance *new_instance(const instance_config *config, pipeline *p, const char *id,
                              const char *path, const char *input)
{
    instance *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    i->runtime = config->runtime;
    i->clock = run_clock(config->runtime);
    i->store = run_store(config->runtime);
    i->pipeline = pipeline_retain(p);
    i->path = strdup(path);
    i->input = strdup(input);
    i->hub = pending_hub_open(config->wake, config->wake_arg);
    atomic_init(&i->cancel, false);
    snprintf(i->id, sizeof i->id, "%s", id);
    snprintf(i->tenant, sizeof i->tenant, "%s", config->caller.tenant);
    i->row = (store_run){.id = i->id,
                         .pipeline = p->name,
                         .path = i->path,
                         .source = p->hash,
                         .state = "running",
                         .tenant = i->tenant,
                         .params = i->input,
                         .result = "null",
                         .created_ms = i->clock->wall_ms(i->clock->context)};
    if (i->path && i->input && i->hub)
        return i;
    free_instance(i);
    return NULL;
}

/* Opens the journal and the script, which may not load in the run's limits. */
static pawl_status open_parts(instance *i, const instance_config *config, bool resumed,
                              pawl_error *error)
{
    const char *id = i->store ? i->id : NULL;
    pawl_status status =
        journal_open(i->store, i->clock, id, resumed, config->listener, &i->journal, error);
    if (status)
        return status;
    script_config own = {.runtime = i->runtime,
                         .clock = i->clock,
                         .pipeline = i->pipeline,
                         .limits = pipeline_limits(i->pipeline, &config->allowed),
                         .cancel = config->cancel ? config->cancel : &i->cancel,
                         .hub = i->hub,
                         .journal = i->journal,
                         .id = id,
                         .resumed = resumed,
                         .caller = config->caller,
                         .grants = config->grants};
    journal_say(i->journal, resumed ? "run.resumed" : "run.started", "null");
    if (script_open(&own, &i->script, &i->failed))
        script_begin(i->script, i->input);
    else
        i->ended = true;
    return PAWL_OK;
}

pawl_status instance_begin(const instance_config *config, pipeline *p, const char *path,
                           const char *input, instance **out, pawl_error *error)
{
    char id[CLOCK_ID_SIZE];
    clock_new_id(run_clock(config->runtime), "run_", id);
    instance *i = new_instance(config, p, id, path, input);
    if (!i)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a run");
    pawl_status status = put_row(i, "running", "null", p->bundle, error);
    if (!status)
        status = open_parts(i, config, false, error);
    if (status)
        free_instance(i);
    else
        *out = i;
    return status;
}

/* ------------------------------------------------------------- going on */

pawl_status instance_look(run_runtime *runtime, const run_caller *caller, const char *id,
                          store_run **run, pawl_error *error)
{
    store *kept = run_store(runtime);
    store_run *row = NULL;
    pawl_status status = kept ? kept->run_get(kept, id, &row, error) : PAWL_E_NOT_FOUND;
    if (!status && strcmp(row->tenant, caller->tenant) != 0) { /* unknown, in the same words */
        free(row);
        status = PAWL_E_NOT_FOUND;
    }
    if (status == PAWL_E_NOT_FOUND)
        return pawl_fail(error, status, "there is no run '%.60s'", id);
    if (!status)
        *run = row;
    return status;
}

/* Whether the question of a parked run has its answer. */
static bool is_answered(store *kept, const store_run *row)
{
    cJSON *question = NULL;
    char *value = NULL;
    json_parse(row->result, strlen(row->result), &question, NULL);
    const char *key = json_get_text(question, "key");
    bool found = key && kept->run_step(kept, row->id, key, &value, NULL) == PAWL_OK;
    free(value);
    cJSON_Delete(question);
    return found;
}

static pawl_status load_stored(store *kept, const store_run *row, const instance_config *config,
                               pipeline **out, pawl_error *error)
{
    char *bundle = NULL, title[MAX_TITLE];
    const char *slash = strrchr(row->path, '/');
    script_result why = {0};
    script_limits limits = config->allowed;
    pawl_status status = kept->run_source(kept, row->source, &bundle, error);
    if (status)
        return status;
    snprintf(title, sizeof title, "%s", slash ? slash + 1 : *row->path ? row->path : row->pipeline);
    if (!pipeline_unbundle(title, bundle, &limits, out, &why))
        status = pawl_fail(error, PAWL_E_FORMAT, "the stored script does not load: %s",
                           why.message ? why.message : "no memory");
    script_result_clear(&why);
    free(bundle);
    return status;
}

/* The row is known to be one that may go on. */
static pawl_status resume_row(const instance_config *config, const store_run *row, instance **out,
                              pawl_error *error)
{
    store *kept = run_store(config->runtime);
    pipeline *p = NULL;
    pawl_status status = load_stored(kept, row, config, &p, error);
    if (status)
        return status;
    instance *i = new_instance(config, p, row->id, row->path, row->params);
    pipeline_release(p);
    if (!i)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for a run");
    i->row.created_ms = row->created_ms;
    status = put_row(i, "running", "null", NULL, error);
    if (!status)
        status = open_parts(i, config, true, error);
    if (status)
        free_instance(i);
    else
        *out = i;
    return status;
}

pawl_status instance_resume(const instance_config *config, const char *id, instance **out,
                            pawl_error *error)
{
    store_run *row = NULL;
    pawl_status status = instance_look(config->runtime, &config->caller, id, &row, error);
    if (status)
        return status;
    if (strcmp(row->state, "done") == 0)
        status = pawl_fail(error, PAWL_E_ARGUMENT, "the run %s is done", id);
    else if (strcmp(row->state, "parked") == 0 && !is_answered(run_store(config->runtime), row))
        status = pawl_fail(error, PAWL_E_BUSY, "the run %s waits for an answer", id);
    else
        status = resume_row(config, row, out, error);
    free(row);
    return status;
}

/* ------------------------------------------------------------- changing */

/* The row's input with other members, checked; to be free()d. */
static pawl_status change_input(const pipeline *p, const store_run *row, const char *const *members,
                                size_t n, char **changed, pawl_error *error)
{
    cJSON *input = NULL;
    pawl_status status = json_parse(row->params, strlen(row->params), &input, error);
    for (size_t i = 0; i < n && !status; i++)
        status = pipeline_set_member(p, input, members[i], error);
    char *text = status ? NULL : json_print(input);
    cJSON_Delete(input);
    if (!status && !text)
        status = pawl_fail(error, PAWL_E_MEMORY, "no memory for an input");
    if (!status)
        status = instance_check_input(p, text, error);
    if (status)
        free(text);
    else
        *changed = text;
    return status;
}

pawl_status instance_change(const instance_config *config, const char *id,
                            const char *const *members, size_t n, pawl_error *error)
{
    store *kept = run_store(config->runtime);
    const base_clock *clock = run_clock(config->runtime);
    store_run *row = NULL;
    pipeline *p = NULL;
    char *input = NULL;
    pawl_status status = instance_look(config->runtime, &config->caller, id, &row, error);
    if (!status && strcmp(row->state, "parked") == 0)
        status = pawl_fail(error, PAWL_E_BUSY, "the run %s waits for an answer", id);
    if (!status)
        status = load_stored(kept, row, config, &p, error);
    if (!status)
        status = change_input(p, row, members, n, &input, error);
    if (!status) {
        store_run changed = *row;
        changed.params = input;
        changed.state = strcmp(row->state, "done") == 0 ? "cancelled" : row->state;
        changed.updated_ms = clock->wall_ms(clock->context);
        status = write_now(kept, &changed, NULL, NULL, error);
    }
    pipeline_release(p);
    free(input);
    free(row);
    return status;
}

/* ------------------------------------------------------------- answering */

static pawl_status check_answer(const cJSON *question, const char *answer, pawl_error *error)
{
    cJSON *value = NULL;
    pawl_status status = json_parse(answer, strlen(answer), &value, error);
    if (!status)
        status = schema_holds(json_get(question, "schema"), value, "the answer", error);
    cJSON_Delete(value);
    return status;
}

pawl_status instance_answer(run_runtime *runtime, const run_caller *caller, const char *id,
                            const char *answer, pawl_error *error)
{
    store_run *row = NULL;
    store *kept = run_store(runtime);
    const base_clock *clock = run_clock(runtime);
    cJSON *question = NULL;
    pawl_status status = instance_look(runtime, caller, id, &row, error);
    if (status)
        return status;
    json_parse(row->result, strlen(row->result), &question, NULL);
    const char *key = json_get_text(question, "key");
    if (strcmp(row->state, "parked") != 0 || !key)
        status =
            pawl_fail(error, PAWL_E_ARGUMENT, "the run %s is %s and asks nothing", id, row->state);
    if (!status)
        status = check_answer(question, answer, error);
    store_addition more = {
        .run = id, .key = key, .value = answer, .at_ms = clock->wall_ms(clock->context)};
    if (!status && is_answered(kept, row))
        status = pawl_fail(error, PAWL_E_ARGUMENT, "the run %s has its answer already", id);
    if (!status)
        status = write_now(kept, NULL, NULL, &more, error);
    cJSON_Delete(question);
    free(row);
    return status;
}

pawl_status instance_give_up(run_runtime *runtime, const store_run *row, pawl_error *error)
{
    const base_clock *clock = run_clock(runtime);
    store_run given_up = *row;
    given_up.state = "cancelled";
    given_up.result = "{\"code\":\"cancelled\",\"message\":\"it was cancelled while it waited\"}";
    given_up.updated_ms = clock->wall_ms(clock->context);
    return write_now(run_store(runtime), &given_up, NULL, NULL, error);
}

/* ------------------------------------------------------------- running */

const char *instance_id(const instance *i)
{
    return i->store ? i->id : "";
}

enum script_step instance_step(instance *i, int64_t slice_ns)
{
    enum script_step at = i->script && !i->ended ? script_step(i->script, slice_ns) : SCRIPT_ENDED;
    i->ended = at == SCRIPT_ENDED;
    return at;
}

int64_t instance_due(const instance *i)
{
    return script_due(i->script);
}

void instance_wait(instance *i, int64_t most_ms)
{
    int64_t now = i->clock->monotonic_ns(i->clock->context), due = script_due(i->script);
    int64_t left_ms = due <= now ? 0 : (due - now) / 1000000 + 1;
    pending_hub_wait(i->hub, left_ms < most_ms ? left_ms : most_ms);
}

void instance_cancel(instance *i)
{
    atomic_store(&i->cancel, true);
    pending_hub_poke(i->hub);
}

/* ------------------------------------------------------------- ending */

/* {"code","message","traceback"} of a run that failed. */
static char *failure_json(const script_result *result)
{
    buf json;
    buf_init(&json, 1u << 20);
    buf_printf(&json, "{\"code\":\"%s\",\"message\":", script_end_name(result->end));
    json_add_quoted(&json, json_text(result->message ? result->message : "no memory"));
    if (result->traceback) {
        buf_add_text(&json, ",\"traceback\":");
        json_add_quoted(&json, json_text(result->traceback));
    }
    buf_add_text(&json, "}");
    return buf_take(&json);
}

/* A question without the key that its answer gets. To be free()d. */
static char *question_for_event(const char *question)
{
    cJSON *json = NULL;
    json_parse(question, strlen(question), &json, NULL);
    cJSON_DeleteItemFromObjectCaseSensitive(json, "key");
    char *text = json_print(json);
    cJSON_Delete(json);
    return text;
}

/* What an event may carry of it. */
static const char *for_event(const char *json)
{
    return json && strlen(json) <= JOURNAL_MAX_EVENT ? json : "null";
}

/* Says how it ended and writes it into the row. */
static void record_end(instance *i, const script_result *result)
{
    pawl_error error = {.struct_size = sizeof error};
    const char *state = result->end == SCRIPT_DONE        ? "done"
                        : result->end == SCRIPT_PARKED    ? "parked"
                        : result->end == SCRIPT_CANCELLED ? "cancelled"
                                                          : "failed";
    char type[20], *failure = result->value ? NULL : failure_json(result);
    char *question = result->end == SCRIPT_PARKED ? question_for_event(result->value) : NULL;
    const char *json = result->value ? result->value : failure ? failure : "null";
    snprintf(type, sizeof type, "run.%s", state);
    journal_say(i->journal, type, for_event(question ? question : json));
    journal_finish(i->journal);
    if (put_row(i, state, json, NULL, &error) != PAWL_OK)
        log_write(PAWL_LOG_ERROR, "script", "%s: how it ended could not be stored: %s", i->id,
                  error.message);
    free(failure);
    free(question);
}

void instance_close(instance *i, script_result *result)
{
    *result = (script_result){0};
    if (i->script) {
        script_close(i->script, result);
    } else {
        *result = i->failed;
        i->failed = (script_result){0};
    }
    if (i->ended)
        record_end(i, result);
    free_instance(i);
}
