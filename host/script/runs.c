/*
 * script/runs.c - the pipelines that a server has, and the runs of them. See runs.h.
 *
 * Questions are answered on the pool's threads, since some wait for the disk.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "script/runs.h"

#include "base/log.h"
#include "base/utf8.h"
#include "script/pool.h"
#include "script/runs_text.h"
#include "script/teller.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ANSWER (64u << 20)
#define MOST_RESUMED POOL_MAX_RUNS
#define MOST_LISTED 100

typedef struct entry {
    pipeline *pipeline;
    char *path;
} entry;

struct runs {
    run_runtime *runtime;
    store *store;
    script_limits allowed;
    run_pipelines interface;
    entry pipelines[RUNS_MAX_PIPELINES];
    size_t n_pipelines;
    pool *pool;
    teller *teller;
    pthread_mutex_t changing; /* held by who cancels or answers: one at a time */
};

/* One question on its way. */
typedef struct ask {
    runs *runs;
    run_question question; /* name and body are owned */
    run_listener listener;
    run_event *end;         /* made beforehand, so that END comes whatever happens */
    run_follower *follower; /* of FOLLOW, a reference */
} ask;

/* ------------------------------------------------------------- answering */

static void free_ask(ask *a)
{
    free((char *)(uintptr_t)a->question.name);
    free((char *)(uintptr_t)a->question.body);
    run_event_free(a->end);
    teller_release(a->follower);
    free(a);
}

/* Sends END and frees the question. */
static void answer(ask *a, const char *how, const char *text)
{
    run_event *end = a->end;
    a->end = NULL;
    end->stop_reason = how;
    end->text = text ? strdup(text) : NULL;
    a->listener.on_event(a->listener.arg, end);
    free_ask(a);
}

static void answer_status(ask *a, pawl_status status, const pawl_error *error)
{
    const char *how = status == PAWL_E_NOT_FOUND                            ? RUN_ANSWER_UNKNOWN
                      : status == PAWL_E_ARGUMENT || status == PAWL_E_LIMIT ? RUN_ANSWER_INVALID
                      : status == PAWL_E_BUSY                               ? RUN_ANSWER_BUSY
                                                                            : RUN_ANSWER_ERROR;
    answer(a, how, error->message);
}

/* With what was written into a buffer, which it clears. */
static void answer_buf(ask *a, buf *text)
{
    if (text->failed)
        answer(a, RUN_ANSWER_ERROR, "The answer is too large.");
    else
        answer(a, RUN_ANSWER_OK, buf_text(text));
    buf_clear(text);
}

static void answer_run(ask *a, const char *id)
{
    pawl_error error = {.struct_size = sizeof error};
    store_run *row = NULL;
    pawl_status status = instance_look(a->runs->runtime, &a->question.caller, id, &row, &error);
    buf text;
    if (status) {
        answer_status(a, status, &error);
        return;
    }
    buf_init(&text, MAX_ANSWER);
    runs_text_run(&text, row);
    free(row);
    answer_buf(a, &text);
}

/* ------------------------------------------------------------- starting */

static bool is_active(void *arg, const char *id)
{
    return pool_has(((runs *)arg)->pool, id);
}

/* From the store's thread. */
static void on_kept(void *arg)
{
    teller_poke(((runs *)arg)->teller);
}

static void on_ended(void *arg, const char *id)
{
    (void)id;
    teller_poke(((runs *)arg)->teller);
}

static instance_config configure(runs *r, pool_place *place, const run_caller *caller)
{
    instance_config config = {.runtime = r->runtime,
                              .allowed = r->allowed,
                              .listener = {.on_kept = on_kept, .arg = r},
                              .caller = *caller};
    pool_configure(place, &config);
    return config;
}

static const entry *find_pipeline(const runs *r, const char *name)
{
    for (size_t i = 0; i < r->n_pipelines; i++)
        if (strcmp(r->pipelines[i].pipeline->name, name) == 0)
            return &r->pipelines[i];
    return NULL;
}

static void start(ask *a)
{
    runs *r = a->runs;
    pawl_error error = {.struct_size = sizeof error};
    const char *input = a->question.body ? a->question.body : "{}";
    const entry *found = find_pipeline(r, a->question.name);
    char id[CLOCK_ID_SIZE];
    instance *i = NULL;
    if (!found) {
        answer(a, RUN_ANSWER_UNKNOWN, "There is no pipeline of this name.");
        return;
    }
    pawl_status status = instance_check_input(found->pipeline, input, &error);
    if (status) {
        answer_status(a, status, &error);
        return;
    }
    pool_place *place = pool_reserve(r->pool);
    if (!place) {
        answer(a, RUN_ANSWER_BUSY, "Too many runs are under way; start it again later.");
        return;
    }
    instance_config config = configure(r, place, &a->question.caller);
    status = instance_begin(&config, found->pipeline, found->path, input, &i, &error);
    if (status) {
        pool_unreserve(place);
        answer_status(a, status, &error);
        return;
    }
    snprintf(id, sizeof id, "%s", instance_id(i));
    pool_start(place, i);
    answer_run(a, id);
}

/* Puts a run that was kept into the pool. */
static pawl_status resume(runs *r, const run_caller *caller, const char *id, pawl_error *error)
{
    instance *i = NULL;
    if (pool_has(r->pool, id))
        return PAWL_OK;
    pool_place *place = pool_reserve(r->pool);
    if (!place)
        return pawl_fail(error, PAWL_E_BUSY, "too many runs are under way");
    instance_config config = configure(r, place, caller);
    pawl_status status = instance_resume(&config, id, &i, error);
    if (status)
        pool_unreserve(place);
    else
        pool_start(place, i);
    return status;
}

/* ------------------------------------------------------------- questions */

static void answer_question(ask *a)
{
    runs *r = a->runs;
    pawl_error error = {.struct_size = sizeof error};
    if (!a->question.body) {
        answer(a, RUN_ANSWER_INVALID, "There is no answer.");
        return;
    }
    pthread_mutex_lock(&r->changing);
    pawl_status status = instance_answer(r->runtime, &a->question.caller, a->question.name,
                                         a->question.body, &error);
    if (!status)
        status = resume(r, &a->question.caller, a->question.name, &error);
    pthread_mutex_unlock(&r->changing);
    if (status)
        answer_status(a, status, &error);
    else
        answer_run(a, a->question.name);
}

static void cancel(ask *a)
{
    runs *r = a->runs;
    pawl_error error = {.struct_size = sizeof error};
    store_run *row = NULL;
    pthread_mutex_lock(&r->changing);
    pawl_status status =
        instance_look(r->runtime, &a->question.caller, a->question.name, &row, &error);
    bool here = !status && pool_cancel(r->pool, a->question.name);
    bool stands = !status && !here &&
                  (strcmp(row->state, "parked") == 0 || strcmp(row->state, "running") == 0);
    if (stands)
        status = instance_give_up(r->runtime, row, &error);
    pthread_mutex_unlock(&r->changing);
    free(row);
    if (status)
        answer_status(a, status, &error);
    else if (!here && !stands)
        answer(a, RUN_ANSWER_CONFLICT, "The run has ended already.");
    else
        answer_run(a, a->question.name);
}

static void list_pipelines(ask *a)
{
    const runs *r = a->runs;
    buf text;
    buf_init(&text, MAX_ANSWER);
    buf_add_text(&text, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < r->n_pipelines; i++) {
        buf_add_text(&text, i ? "," : "");
        runs_text_pipeline(&text, r->pipelines[i].pipeline);
    }
    buf_add_text(&text, "]}");
    answer_buf(a, &text);
}

static void list_runs(ask *a)
{
    store *kept = a->runs->store;
    pawl_error error = {.struct_size = sizeof error};
    store_run *rows = NULL;
    size_t n = 0, shown = 0;
    buf text;
    pawl_status status = kept->run_list(kept, NULL, 1000, &rows, &n, &error);
    if (status) {
        answer_status(a, status, &error);
        return;
    }
    buf_init(&text, MAX_ANSWER);
    buf_add_text(&text, "{\"object\":\"list\",\"data\":[");
    for (size_t i = 0; i < n && shown < a->question.limit && shown < MOST_LISTED; i++) {
        if (strcmp(rows[i].tenant, a->question.caller.tenant) != 0)
            continue;
        buf_add_text(&text, shown++ ? "," : "");
        runs_text_brief(&text, &rows[i]);
    }
    buf_add_text(&text, "]}");
    free(rows);
    answer_buf(a, &text);
}

static void list_events(ask *a)
{
    store *kept = a->runs->store;
    pawl_error error = {.struct_size = sizeof error};
    store_event *events = NULL;
    size_t n = 0,
           most = a->question.limit < STORE_MAX_AT_ONCE ? a->question.limit : STORE_MAX_AT_ONCE;
    buf text;
    pawl_status status =
        kept->run_events(kept, a->question.name, a->question.after, most, &events, &n, &error);
    if (status) {
        answer_status(a, status, &error);
        return;
    }
    buf_init(&text, MAX_ANSWER);
    runs_text_events(&text, events, n, n == most);
    free(events);
    answer_buf(a, &text);
}

static void follow(ask *a)
{
    run_event *end = a->end;
    a->end = NULL;
    if (teller_follow(a->runs->teller, a->question.name, a->question.after, a->listener, end,
                      a->follower)) {
        free_ask(a);
        return;
    }
    a->end = end;
    answer(a, RUN_ANSWER_BUSY, "Too many follow runs; read the events without stream.");
}

/* A question about events, of a run that is the caller's. */
static void about_events(ask *a)
{
    pawl_error error = {.struct_size = sizeof error};
    store_run *row = NULL;
    pawl_status status =
        instance_look(a->runs->runtime, &a->question.caller, a->question.name, &row, &error);
    free(row);
    if (status)
        answer_status(a, status, &error);
    else if (a->question.kind == RUN_ASK_FOLLOW)
        follow(a);
    else
        list_events(a);
}

/* On a thread of the pool. */
static void do_ask(void *arg)
{
    ask *a = arg;
    switch (a->question.kind) {
    case RUN_ASK_PIPELINES:
        list_pipelines(a);
        return;
    case RUN_ASK_START:
        start(a);
        return;
    case RUN_ASK_RUNS:
        list_runs(a);
        return;
    case RUN_ASK_RUN:
        answer_run(a, a->question.name);
        return;
    case RUN_ASK_EVENTS:
    case RUN_ASK_FOLLOW:
        about_events(a);
        return;
    case RUN_ASK_CANCEL:
        cancel(a);
        return;
    case RUN_ASK_ANSWER:
        answer_question(a);
        return;
    }
}

static bool ask_runs(void *arg, const run_question *question, run_listener listener,
                     run_follower **follower)
{
    runs *r = arg;
    ask *a = calloc(1, sizeof *a);
    if (!a)
        return false;
    *a = (ask){.runs = r, .question = *question, .listener = listener};
    a->question.name = strdup(question->name ? question->name : "");
    a->question.body = question->body ? strdup(question->body) : NULL;
    a->end = run_event_new(RUN_END);
    if (question->kind == RUN_ASK_FOLLOW)
        a->follower = teller_new_follower(r->teller);
    if (!a->question.name || !a->end || (question->body && !a->question.body) ||
        (question->kind == RUN_ASK_FOLLOW && !a->follower)) {
        free_ask(a);
        return false;
    }
    if (a->follower) {
        teller_retain(a->follower);
        *follower = a->follower;
    }
    if (!pool_do(r->pool, do_ask, a))
        answer(a, RUN_ANSWER_BUSY, "Too much is asked of pipelines now; ask again later.");
    return true;
}

/* ------------------------------------------------------------- pipelines */

static pawl_status add_pipeline(runs *r, const char *path, const runs_config *config,
                                pawl_error *error)
{
    pipeline *p = NULL;
    script_result why;
    if (r->n_pipelines == RUNS_MAX_PIPELINES)
        return pawl_fail(error, PAWL_E_LIMIT, "more than %d pipelines", RUNS_MAX_PIPELINES);
    if (!pipeline_read(path, config->folders, config->n_folders, &config->allowed, &p, &why)) {
        bool module = why.message && strstr(why.message, "returns no pipeline");
        pawl_status status = module ? PAWL_OK
                                    : pawl_fail(error, PAWL_E_FORMAT, "%s: %s", path,
                                                why.message ? why.message : "no memory");
        script_result_clear(&why);
        return status;
    }
    if (find_pipeline(r, p->name)) {
        pawl_status status =
            pawl_fail(error, PAWL_E_ARGUMENT, "%s: another file declares the pipeline '%s', too",
                      path, p->name);
        pipeline_release(p);
        return status;
    }
    r->pipelines[r->n_pipelines++] = (entry){p, strdup(path)};
    log_write(PAWL_LOG_INFO, "script", "pipeline %s: %s", p->name, path);
    return PAWL_OK;
}

static int is_lua(const struct dirent *file)
{
    size_t size = strlen(file->d_name);
    return size > 4 && file->d_name[0] != '.' && strcmp(file->d_name + size - 4, ".lua") == 0;
}

static pawl_status add_folder(runs *r, const char *folder, const runs_config *config,
                              pawl_error *error)
{
    struct dirent **files = NULL;
    int n = scandir(folder, &files, is_lua, alphasort);
    pawl_status status = PAWL_OK;
    if (n < 0)
        return pawl_fail(error, PAWL_E_NOT_FOUND, "%s: the folder of pipelines cannot be read",
                         folder);
    for (int i = 0; i < n; i++) {
        char *path = NULL;
        if (!status && asprintf(&path, "%s/%s", folder, files[i]->d_name) >= 0)
            status = add_pipeline(r, path, config, error);
        free(path);
        free(files[i]);
    }
    free(files);
    return status;
}

/* ------------------------------------------------------------- life */

pawl_status runs_open(const runs_config *config, runs **out, pawl_error *error)
{
    runs *r = calloc(1, sizeof *r);
    pawl_status status = PAWL_OK;
    if (!r)
        return pawl_fail(error, PAWL_E_MEMORY, "no memory for pipelines");
    r->runtime = config->runtime;
    r->store = run_store(config->runtime);
    r->allowed = config->allowed;
    r->interface = (run_pipelines){r, ask_runs, teller_unfollow, teller_release};
    pthread_mutex_init(&r->changing, NULL);
    for (size_t i = 0; i < config->n_folders && !status; i++)
        status = add_folder(r, config->folders[i], config, error);
    if (!status) {
        r->teller = teller_open(r->runtime, is_active, r, error);
        r->pool = r->teller
                      ? pool_open(run_clock(r->runtime), config->n_workers, on_ended, r, error)
                      : NULL;
        if (!r->pool)
            status = PAWL_E_MEMORY;
    }
    if (status) {
        if (r->teller)
            teller_stop(r->teller);
        runs_close(r);
        return status;
    }
    *out = r;
    return PAWL_OK;
}

const run_pipelines *runs_interface(const runs *r)
{
    return &r->interface;
}

/* On a thread of the pool. */
static void do_resume_all(void *arg)
{
    runs *r = arg;
    store_run *rows = NULL;
    size_t n = 0;
    pawl_error error = {.struct_size = sizeof error};
    if (r->store->run_list(r->store, "running", MOST_RESUMED, &rows, &n, &error) != PAWL_OK)
        return;
    for (size_t i = n; i-- > 0;) { /* the oldest first */
        run_caller caller = RUN_NOBODY;
        snprintf(caller.tenant, sizeof caller.tenant, "%s", rows[i].tenant);
        if (resume(r, &caller, rows[i].id, &error) == PAWL_OK)
            log_write(PAWL_LOG_INFO, "script", "%s goes on", rows[i].id);
        else
            log_write(PAWL_LOG_ERROR, "script", "%s cannot go on: %s", rows[i].id, error.message);
    }
    free(rows);
}

void runs_resume_all(runs *r)
{
    pool_do(r->pool, do_resume_all, r);
}

void runs_stop(runs *r)
{
    if (!r)
        return;
    teller_stop(r->teller); /* it looks into the pool */
    pool_stop(r->pool);
}

void runs_close(runs *r)
{
    if (!r)
        return;
    pool_free(r->pool);
    teller_free(r->teller);
    for (size_t i = 0; i < r->n_pipelines; i++) {
        pipeline_release(r->pipelines[i].pipeline);
        free(r->pipelines[i].path);
    }
    pthread_mutex_destroy(&r->changing);
    free(r);
}
