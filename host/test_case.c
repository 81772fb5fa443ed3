/*
 * host/test_case.c - one case of a pipeline's tests. See test_case.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "test_case.h"

#include "base/file.h"
#include "open_grants.h"
#include "run/runtime.h"
#include "script/instance.h"
#include "test_match.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_MS 60000 /* of a case, unless its "seconds" say otherwise */
#define MOST_MEMORY (256u << 20)
#define POLL_MS 20

typedef struct world {
    const test_case *test;
    char folder[64];
    run_runtime *runtime;
    open_grants granted;
    cJSON *outcome;
    cJSON *emits; /* within the outcome */
} world;

/* ------------------------------------------------------------- the world */

static pawl_status write_file(const char *path, const char *text, pawl_error *error)
{
    FILE *file = fopen(path, "w");
    bool good = file && fputs(text, file) >= 0;
    if (file && fclose(file) != 0)
        good = false;
    return good ? PAWL_OK : pawl_fail(error, PAWL_E_INTERNAL, "%s: %s", path, strerror(errno));
}

static pawl_status write_json(const world *w, const char *name, const cJSON *json, char **path,
                              pawl_error *error)
{
    char *text = json_print(json);
    *path = file_join(w->folder, name);
    pawl_status status = text && *path ? write_file(*path, text, error)
                                       : pawl_fail(error, PAWL_E_MEMORY, "no memory for %s", name);
    free(text);
    return status;
}

/* The documents {PATH: TEXT}. Paths with ".." would leave our folder. */
static pawl_status write_docs(const cJSON *documents, const char *folder, pawl_error *error)
{
    const cJSON *document;
    pawl_status status = file_make_folder(folder, error);
    cJSON_ArrayForEach(document, documents)
    {
        if (status)
            break;
        if (!cJSON_IsString(document) || strstr(document->string, ".."))
            return pawl_fail(error, PAWL_E_ARGUMENT, "'docs' has texts by paths without '..'");
        char *path = file_join(folder, document->string), *slash = path ? strrchr(path, '/') : NULL;
        if (!slash)
            return pawl_fail(error, PAWL_E_MEMORY, "no memory for a path");
        *slash = '\0';
        status = file_make_folder(path, error);
        *slash = '/';
        if (!status)
            status = write_file(path, document->valuestring, error);
        free(path);
    }
    return status;
}

/* The model: what the case says about it, and its replies. */
static pawl_status open_model(world *w, pawl_error *error)
{
    const cJSON *more = json_get(w->test->json, "model"),
                *replies = json_get(w->test->json, "replies");
    cJSON *model = more ? cJSON_Duplicate(more, true) : cJSON_CreateObject();
    char *path = NULL;
    cJSON_AddNumberToObject(model, "replay", 1);
    cJSON_AddItemToObject(model, "replies",
                          replies && replies->child ? cJSON_Duplicate(replies, true)
                                                    : cJSON_CreateArray());
    pawl_status status = write_json(w, "model.replay.json", model, &path, error);
    cJSON_Delete(model);
    run_model_config models = {.name = "replay", .path = path};
    run_config config = {
        .plugins = w->test->plugins, .models = &models, .n_models = 1, .clock = clock_system()};
    if (!status)
        status = run_open(&config, &w->runtime, error);
    free(path);
    return status;
}

static pawl_status open_granted(world *w, pawl_error *error)
{
    const cJSON *documents = json_get(w->test->json, "docs"),
                *offered = json_get(w->test->json, "tools");
    char *folder = documents ? file_join(w->folder, "docs") : NULL, *file = NULL;
    pawl_status status = folder ? write_docs(documents, folder, error) : PAWL_OK;
    if (!status && offered) {
        cJSON *all = cJSON_CreateObject();
        cJSON_AddItemToObject(all, "tools", cJSON_Duplicate(offered, true));
        status = write_json(w, "tools.json", all, &file, error);
        cJSON_Delete(all);
    }
    w->granted.docs_folder = folder;
    w->granted.tools_file = file;
    if (!status)
        status = open_grants_open(&w->granted, error);
    free(folder);
    free(file);
    return status;
}

static int remove_entry(const char *path, const struct stat *at, int type, struct FTW *where)
{
    (void)at;
    (void)type;
    (void)where;
    return remove(path);
}

static void close_world(world *w)
{
    open_grants_close(&w->granted);
    if (w->runtime)
        run_close(w->runtime);
    nftw(w->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ------------------------------------------------------------- the run */

static void on_event(void *arg, const char *type, const char *data)
{
    world *w = arg;
    cJSON *value = NULL;
    if (w->test->verbose)
        printf("# %s %s\n", type, data);
    if (strncmp(type, "run.", 4) == 0 || json_parse(data, strlen(data), &value, NULL) != PAWL_OK)
        return;
    cJSON *event = cJSON_CreateObject();
    cJSON_AddStringToObject(event, "type", type);
    cJSON_AddItemToObject(event, "data", value);
    cJSON_AddItemToArray(w->emits, event);
}

static void note_end(world *w, const script_result *result)
{
    cJSON *value = NULL;
    cJSON_AddNumberToObject(w->outcome, "calls", (double)result->calls);
    cJSON_AddNumberToObject(w->outcome, "tokens", (double)result->tokens);
    if (result->end == SCRIPT_DONE) {
        if (json_parse(result->value, strlen(result->value), &value, NULL) == PAWL_OK)
            cJSON_AddItemToObject(w->outcome, "result", value);
        return;
    }
    cJSON *error = cJSON_AddObjectToObject(w->outcome, "error");
    cJSON_AddStringToObject(error, "code", script_end_name(result->end));
    cJSON_AddStringToObject(error, "message", result->message ? result->message : "no memory");
}

static pawl_status run_pipeline(world *w, pawl_error *error)
{
    const cJSON *params = json_get(w->test->json, "params");
    script_result result;
    instance *i = NULL;
    pipeline *p = NULL;
    instance_config config = {
        .runtime = w->runtime,
        .allowed = {.memory = MOST_MEMORY,
                    .wall_ms = (int64_t)(1000 * json_get_number(w->test->json, "seconds", 0))},
        .listener = {.on_event = on_event, .arg = w},
        .caller = RUN_NOBODY,
        .grants = &w->granted.grants,
        .cancel = w->test->cancel};
    if (config.allowed.wall_ms <= 0)
        config.allowed.wall_ms = MOST_MS;
    if (!pipeline_read(w->test->path, NULL, 0, &config.allowed, &p, &result)) {
        pawl_fail(error, PAWL_E_FORMAT, "%s: %s", w->test->path,
                  result.message ? result.message : "");
        script_result_clear(&result);
        return PAWL_E_FORMAT;
    }
    char *input = params ? json_print(params) : strdup("{}");
    pawl_status status = instance_check_input(p, input ? input : "", error);
    if (!status)
        status = instance_begin(&config, p, w->test->path, input, &i, error);
    if (!status) {
        for (enum script_step at; (at = instance_step(i, 0)) != SCRIPT_ENDED;)
            if (at == SCRIPT_WAITS)
                instance_wait(i, POLL_MS);
        instance_close(i, &result);
        note_end(w, &result);
        script_result_clear(&result);
    }
    pipeline_release(p);
    free(input);
    return status;
}

/* ------------------------------------------------------------- the comparison */

static bool compare(const test_case *c, const cJSON *outcome, buf *why)
{
    const cJSON *wanted = json_get(c->json, "result"), *calls = json_get(c->json, "calls");
    const cJSON *error = json_get(outcome, "error");
    const char *wrong = json_get_text(c->json, "error"), *message = json_get_text(error, "message");
    if (wrong && !(message && strstr(message, wrong))) {
        buf_printf(why, "the run %s%.300s; wanted: an error with '%.100s'",
                   message ? "failed: " : "did not fail", message ? message : "", wrong);
        return false;
    }
    if (!wrong && message) {
        buf_printf(why, "the run failed: %s: %.1000s", json_get_text(error, "code"), message);
        return false;
    }
    return (!wanted || test_match(wanted, json_get(outcome, "result"), "result", why)) &&
           (!calls || test_match(calls, json_get(outcome, "calls"), "calls", why)) &&
           test_match_events(json_get(c->json, "emits"), json_get(outcome, "emits"), why);
}

bool test_case_run(const test_case *c, cJSON **outcome, buf *why)
{
    pawl_error error = {.struct_size = sizeof error};
    world w = {.test = c, .outcome = cJSON_CreateObject()};
    w.emits = cJSON_AddArrayToObject(w.outcome, "emits");
    snprintf(w.folder, sizeof w.folder, "/tmp/pawl-test-XXXXXX");
    *outcome = w.outcome;
    if (!mkdtemp(w.folder)) {
        buf_printf(why, "%s: %s", w.folder, strerror(errno));
        return false;
    }
    pawl_status status = open_model(&w, &error);
    if (!status)
        status = open_granted(&w, &error);
    if (!status)
        status = run_pipeline(&w, &error);
    close_world(&w);
    if (status)
        buf_printf(why, "%s", error.message);
    return !status && compare(c, *outcome, why);
}
